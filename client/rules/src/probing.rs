//! Asking every node who it is and how it does.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Content, Told};
use crate::call::Outcome;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::Cause;
use crate::probe::{NodeState, NodeStatus};
use crate::round::Round;
use crate::step::{Input, Step};

#[derive(Debug)]
pub(super) struct Probing {
    pub(super) round: Round<Result<Told, Cause>>,
}

impl Probing {
    pub(super) fn start(context: &mut Context<'_>) -> Self {
        let subject = Subject::of_words(Vec::new(), QUESTION_LASTS);
        let deadline = context.now.after(context.settings.node_deadline_max);
        let round = context.ask_all(Kind::Info, &subject, deadline);
        Self { round }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input
            && let Content::Info(told) = reply.content
        {
            self.round.answered(reply.node, told);
        }
        if !self.round.is_over(context.now) {
            return Step::GoesOn;
        }
        let told = self.round.answers().iter().enumerate();
        let statuses = told
            .map(|(node, told)| status(context, node, told.clone().unwrap_or(Err(Cause::Silent))))
            .collect();
        context.tell(Outcome::Probed(statuses));
        Step::Ended
    }
}

fn status(context: &Context<'_>, node: usize, told: Result<Told, Cause>) -> NodeStatus {
    let label = Arc::clone(&context.labels[node]);
    let known = context.links[node].identity().cloned();
    let identity = known.clone().and_then(Result::ok);
    let told = match told {
        Ok(told) => told,
        Err(cause) => {
            return NodeStatus {
                node: label,
                identity,
                state: NodeState::DoesNotVote(cause),
                round_trip: None,
            };
        }
    };
    let twin = context.register.same_as(node);
    let info = told.info;
    let outsider = || {
        let register = context.register;
        (register.outsider(node)).or_else(|| register.undecided(node))
    };
    let cause = match (known, twin) {
        (Some(Err(cause)), _) => Some(cause),
        _ if let Some(outsider) = outsider() => Some(outsider),
        (_, Some(twin)) => Some(Cause::SameNode(Arc::clone(&context.labels[twin]))),
        _ if info.is_loading => Some(Cause::Refused(Arc::from("it is still loading its data"))),
        _ => info.delay_left.map(|left| Cause::Delayed {
            left,
            text: Arc::from(""),
        }),
    };
    NodeStatus {
        node: label,
        identity: info.identity.or(identity),
        state: cause.map_or(NodeState::Votes, NodeState::DoesNotVote),
        round_trip: Some(told.round_trip),
    }
}

const QUESTION_LASTS: Duration = Duration::from_secs(5);
