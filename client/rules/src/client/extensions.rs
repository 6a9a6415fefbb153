//! Another end for a lock: of one that is held here, or of one of which only the token is known.

use crate::OperationId;
use crate::action::Action;
use crate::call::{Call, Outcome};
use crate::client::Client;
use crate::clock::ClientInstant;
use crate::extending::{Extending, Extension};
use crate::link::request::Subject;
use crate::operation::{Next, Operation};
use crate::outcome::{ExtendError, Loss};
use crate::step::Step;

impl Client {
    /// Asks for another end of a lock of which only the token is known.
    pub(super) fn extend(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        call: Call,
        actions: &mut Vec<Action>,
    ) {
        let extension = match call {
            Call::Extend {
                name,
                token,
                ttl,
                waits_for_all,
            } => {
                let subject = Subject::known_by_token(name.into(), token, ttl);
                Extension::to_extend(subject, waits_for_all)
            }
            Call::SetEnd {
                name,
                token,
                new_token,
                ttl,
            } => {
                let subject = Subject::with_new_token(name, token, new_token, ttl);
                Extension::to_set_end(subject)
            }
            _ => return,
        };
        let extending = Extending::start(extension, &mut self.context(now, operation, actions));
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
