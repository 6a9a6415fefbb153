//! Orders that keep nothing: extending or releasing a lock that only its token is known of, and
//! asking the nodes how they do.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::attempt::sleep_until;
use super::mailbox::{Content, Owned};
use super::queue::Kind;
use super::{Active, Shared, Subject};
use crate::answer::Info;
use crate::holding::ExtendAnswer;
use crate::orders::{ExtendOrder, ReleaseOrder};
use crate::outcome::{Cause, ExtendError, Loss, NodeAnswer, NodeReport};
use crate::probe::{NodeState, NodeStatus};
use crate::token::Token;
use crate::votes::{Ballot, NodeSet, majority};

/// One round of extensions. The validity counts from before the first byte was sent.
pub(super) async fn extend(shared: Rc<Shared>, active: Active, order: ExtendOrder) {
    let ExtendOrder {
        name,
        token,
        ttl,
        reply,
    } = order;
    let subject = Subject::new(name, token, ttl);
    let count = shared.nodes.len();
    let mailbox = Owned::default();
    let now = shared.now();
    let mut answers = vec![NodeAnswer::Not(Cause::Silent); count];
    let mut ballot = Ballot::default();
    let (mut open, mut refused) = (count, 0_usize);
    for (node, answer) in answers.iter_mut().enumerate() {
        let to = Some(mailbox.address());
        if let Err(cause) = shared.submit(node, Kind::Extend, &subject, 0, to, now) {
            *answer = NodeAnswer::Not(cause);
            open -= 1;
        }
    }
    let needed = majority(count);
    let until = now.after(shared.patience(ttl));
    while open > 0 && ballot.distinct() < needed && refused < count + 1 - needed {
        if let Some(letter) = mailbox.take() {
            let Content::Extended(answer) = letter.content else {
                continue;
            };
            open -= 1;
            answers[letter.node] = match answer {
                ExtendAnswer::Extended(identity) => {
                    ballot.add(letter.node, identity);
                    NodeAnswer::Granted
                }
                ExtendAnswer::Gone(_) => NodeAnswer::Not(Cause::NotOurs),
                ExtendAnswer::Other(_) => NodeAnswer::Busy { holder: None },
                ExtendAnswer::Not(cause) => NodeAnswer::Not(cause),
            };
            let is_refusal = matches!(
                answers[letter.node],
                NodeAnswer::Not(Cause::NotOurs) | NodeAnswer::Busy { .. }
            );
            refused += usize::from(is_refusal);
            continue;
        }
        tokio::select! {
            biased;
            () = mailbox.arrived() => {}
            () = sleep_until(&shared, until) => break,
        }
    }
    let valid_until = now.after(shared.settings.drift.validity(ttl));
    let result = if ballot.distinct() < needed {
        Err(not_extended(&shared, refused, answers))
    } else if shared.now().has_reached(valid_until) {
        Err(ExtendError::Lost(Loss::Late))
    } else {
        Ok(valid_until)
    };
    // An extension that is no longer wanted does no harm.
    let _gone = reply.send(result);
    mailbox.leave_open();
    drop(active);
}

fn not_extended(shared: &Shared, refused: usize, answers: Vec<NodeAnswer>) -> ExtendError {
    let needed = majority(answers.len());
    if refused > answers.len() - needed {
        return ExtendError::Lost(Loss::BelowMajority);
    }
    let labels = shared.labels.iter().map(Arc::clone);
    let nodes = labels
        .zip(answers)
        .map(|(node, answer)| NodeReport { node, answer });
    ExtendError::NoQuorum {
        needed,
        nodes: nodes.collect(),
    }
}

pub(super) async fn release(shared: Rc<Shared>, active: Active, order: ReleaseOrder) {
    let ReleaseOrder { name, token, reply } = order;
    let subject = Subject::new(name, token, UNKNOWN_LEASE);
    // Whoever took the lock may have been another program: any node may hold it.
    let mut asked = NodeSet::default();
    (0..shared.nodes.len()).for_each(|node| asked.insert(node));
    subject.asked.set(asked);
    let released = super::release::release(&shared, &subject).await;
    // The release is on its way whether or not somebody still waits for it.
    let _gone = reply.send(released);
    drop(active);
}

pub(super) async fn probe(
    shared: Rc<Shared>,
    active: Active,
    reply: oneshot::Sender<Vec<NodeStatus>>,
) {
    let token = Token::from_bytes(Bytes::new());
    let subject = Subject::new(Bytes::new(), token, UNKNOWN_LEASE);
    let mailbox = Owned::default();
    let now = shared.now();
    let count = shared.nodes.len();
    let mut told: Vec<Result<(Info, Duration), Cause>> = vec![];
    told.resize_with(count, || Err(Cause::Silent));
    let mut open = count;
    for (node, told) in told.iter_mut().enumerate() {
        let to = Some(mailbox.address());
        if let Err(cause) = shared.submit(node, Kind::Info, &subject, 0, to, now) {
            *told = Err(cause);
            open -= 1;
        }
    }
    let until = now.after(shared.settings.node_deadline_max);
    while open > 0 {
        if let Some(letter) = mailbox.take() {
            if let Content::Info(answer) = letter.content {
                open -= 1;
                told[letter.node] = answer;
            }
            continue;
        }
        tokio::select! {
            biased;
            () = mailbox.arrived() => {}
            () = sleep_until(&shared, until) => break,
        }
    }
    let statuses = told
        .into_iter()
        .enumerate()
        .map(|(node, told)| status(&shared, node, told));
    // Nobody may be interested any more.
    let _gone = reply.send(statuses.collect());
    drop(active);
}

fn status(shared: &Shared, node: usize, told: Result<(Info, Duration), Cause>) -> NodeStatus {
    let label = Arc::clone(&shared.labels[node]);
    let state = shared.nodes[node].state.borrow();
    let known = state.peer.as_ref().map(|peer| peer.identity.clone());
    let identity = known.clone().and_then(Result::ok);
    let (info, round_trip) = match told {
        Ok((info, round_trip)) => (info, Some(round_trip)),
        Err(cause) => {
            let state = NodeState::DoesNotVote(cause);
            return NodeStatus {
                node: label,
                identity,
                state,
                round_trip: None,
            };
        }
    };
    let twin = shared.register.borrow().same_as(node);
    let cause = match (known, twin) {
        (Some(Err(cause)), _) => Some(cause),
        (_, Some(twin)) => Some(Cause::SameNode(Arc::clone(&shared.labels[twin]))),
        _ if info.is_loading => Some(Cause::Refused(Arc::from("it is still loading its data"))),
        _ => info.delay_left.map(|left| Cause::Delayed {
            left,
            text: Arc::from(""),
        }),
    };
    let state = cause.map_or(NodeState::Votes, NodeState::DoesNotVote);
    let identity = info.identity.or(identity);
    NodeStatus {
        node: label,
        identity,
        state,
        round_trip,
    }
}

/// A release by token knows no ttl: on a node that is away it is tried again for this long and
/// the slack of a release.
const UNKNOWN_LEASE: Duration = Duration::from_secs(5);
