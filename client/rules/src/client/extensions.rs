//! Another end for a lock: of one that is held here, or of one of which only the token is known.

use std::time::Duration;

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
use crate::token::Token;

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
                self.prolong_handed_over(now, &token, None, ttl);
                let subject = Subject::known_by_token(name.into(), token, ttl);
                Extension::to_extend(subject, waits_for_all)
            }
            Call::SetEnd {
                name,
                token,
                new_token,
                ttl,
            } => {
                self.prolong_handed_over(now, &token, new_token.as_ref(), ttl);
                let subject = Subject::with_new_token(name, token, new_token, ttl);
                Extension::to_set_end(subject)
            }
            _ => return,
        };
        let extending = Extending::start(extension, &mut self.context(now, operation, actions));
        self.operations
            .insert(operation, Operation::Extending(Box::new(extending)));
    }

    /// A lock that was handed over lasts so long from now on, perhaps under another token. No node gets it by that which was not asked to
    /// take it.
    fn prolong_handed_over(
        &mut self,
        now: ClientInstant,
        token: &Token,
        new_token: Option<&Token>,
        ttl: Duration,
    ) {
        let Some(&handed_over) = self.handed_over.get(token) else {
            return;
        };
        let lock = self.operations.get_mut(&handed_over);
        let Some(Operation::Detached { tokens, until, .. }) = lock else {
            return;
        };
        let longer = now.after(ttl);
        if until.earlier(longer) == *until {
            *until = longer;
        }
        if let Some(new_token) = new_token {
            let before = std::mem::replace(tokens, vec![token.clone(), new_token.clone()]);
            let is_over = |other: &&Token| *other != token && *other != new_token;
            for over in before.iter().filter(is_over) {
                self.handed_over.remove(over);
            }
            self.handed_over.insert(new_token.clone(), handed_over);
        }
        self.arm(handed_over);
    }

    /// A lock that was handed over under these tokens has ended.
    pub(super) fn forget_handed_over(&mut self, tokens: &[Token]) {
        for token in tokens {
            self.handed_over.remove(token);
        }
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
