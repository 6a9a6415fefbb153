//! Another end for a lock: of one that is held here, or of one of which only the token is known.

use crate::OperationId;
use crate::action::Action;
use crate::call::{Call, Outcome};
use crate::client::Client;
use crate::clock::ClientInstant;
use crate::extending::Extending;
use crate::link::request::{Kind, Subject};
use crate::operation::{Next, Operation};
use crate::outcome::{ExtendError, Loss};
use crate::step::Step;

impl Client {
    pub(super) fn extend(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        call: Call,
        actions: &mut Vec<Action>,
    ) {
        let (kind, subject) = match call {
            Call::Extend { name, token, ttl } => {
                (Kind::Extend, Subject::new(name.into(), token, ttl))
            }
            Call::SetEnd {
                name,
                token,
                new_token,
                ttl,
            } => {
                let subject = Subject::with_new_token(name.into(), token, new_token, ttl);
                (Kind::SetEnd, subject)
            }
            _ => return,
        };
        let extending = Extending::start(kind, subject, &mut self.context(now, operation, actions));
        self.operations
            .insert(operation, Operation::Extending(Box::new(extending)));
    }

    pub(super) fn renew(
        &mut self,
        now: ClientInstant,
        asker: OperationId,
        held: OperationId,
        actions: &mut Vec<Action>,
    ) {
        let Some(mut operation) = self.operations.remove(&held) else {
            // The guard knows the loss that was told before.
            let lost = Err(ExtendError::Lost(Loss::Expired));
            actions.push(Action::Tell(asker, Outcome::Extended(lost)));
            return;
        };
        let step = match &mut operation {
            Operation::Held(lock) => lock.renew(asker, &mut self.context(now, held, actions)),
            _ => Step::GoesOn,
        };
        self.operations.insert(held, operation);
        self.follow(now, held, Next::from(step), actions);
    }
}
