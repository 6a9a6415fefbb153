//! Clients that wait for an element are served once there is one, each by its own command.
//!
//! As in Redis that happens after the command, script or transaction that wrote the element, in the
//! order in which the clients came. What a client is served is a group of effects of its own.

use crate::channels::ClientId;
use crate::command::Command;
use crate::command_guard::CommandGuard;
use crate::effects::Effects;
use crate::engine::Engine;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::waiters::{AwaitedKind, BlockedClient};
use crate::reply::Reply;
use crate::time::Moment;

/// What a client that waited is told.
#[derive(Debug)]
pub struct Served {
    /// Who waited.
    pub client: ClientId,
    /// The reply to its command.
    pub reply: Reply,
}

impl Engine {
    /// Whether a key was written for which somebody waits.
    pub fn has_ready(&self) -> bool {
        self.keyspace.waiters.next_ready().is_some()
    }

    /// Serves the next client that can have what it waits for; it waits no longer. `effects` must
    /// have been begun for it, and are empty where nobody is served. Where they lack room it is to be called again with more.
    pub fn serve_next(&mut self, now: Moment, effects: &mut Effects) -> Option<Served> {
        while let Some(hash) = self.keyspace.waiters.next_ready() {
            let mut after = 0;
            while let Some((ticket, waiter)) = self.keyspace.waiters.next_for(hash, after) {
                after = ticket;
                match self.has_for(now, hash, waiter) {
                    Supply::None => break,
                    Supply::Other => continue,
                    Supply::Wanted => {}
                }
                let (waiter, Some(key)) = (waiter.clone(), waiter.key(hash).map(Box::<[u8]>::from))
                else {
                    continue;
                };
                let reply = self.serve(now, &waiter, &key, effects);
                if effects.lacks_room() {
                    return None;
                }
                if let Some(reply) = reply {
                    let client = waiter.caller.client_id;
                    self.keyspace.waiters.remove(client);
                    return Some(Served { client, reply });
                }
            }
            self.keyspace.waiters.end_ready();
        }
        None
    }

    /// Executes the command of a client that waits, for this one of its keys: with several that have something, the one
    /// that had it first counts and not the first that the client has named. `None` where it still finds nothing.
    fn serve(
        &mut self,
        now: Moment,
        waiter: &BlockedClient,
        key: &[u8],
        effects: &mut Effects,
    ) -> Option<Reply> {
        let arguments = waiter.arguments_for(key);
        effects.wait_limit = None;
        if let Some(refusal) = waiter.refusal() {
            return Some(Reply::Error(refusal));
        }
        let reply = match Command::parse(&arguments) {
            Ok(command) => self.run(now, &waiter.caller, &command, effects),
            Err(error) => Reply::Error(error),
        };
        effects.wait_limit.is_none().then_some(reply)
    }

    /// What the key of this hash has for a client.
    fn has_for(&self, now: Moment, hash: u64, waiter: &BlockedClient) -> Supply {
        let Some(key) = waiter.key(hash) else {
            return Supply::Other;
        };
        let found = self.keyspace.locate(now.node, waiter.caller.database, key);
        let value = found.live.map(|slot| self.keyspace.value(slot));
        match (value, waiter.wanted) {
            (Some(ValueRef::Collection(Collection::List(_))), AwaitedKind::List)
            | (Some(ValueRef::Collection(Collection::SortedSet(_))), AwaitedKind::SortedSet) => {
                Supply::Wanted
            }
            // Another database or, hardly ever, another key of the same hash may have something.
            (Some(_), _) => Supply::Other,
            (None, _) if self.keyspace.waiters.is_shared(hash) => Supply::Other,
            (None, _) => Supply::None,
        }
    }

    /// Asks this before the command of a client that waits is executed once more. A refusal is its reply, and ends its wait.
    pub fn guard_waiting(&mut self, client: ClientId, guard: CommandGuard) {
        self.keyspace.waiters.guard(client, guard);
    }

    /// A client waits no longer; false if it did not.
    pub fn stop_waiting(&mut self, client: ClientId) -> bool {
        self.keyspace.waiters.remove(client).is_some()
    }

    /// For how many keys clients wait.
    pub fn waited_for(&self) -> usize {
        self.keyspace.waiters.keys()
    }

    /// How many clients wait for an element.
    pub fn waiting(&self) -> usize {
        self.keyspace.waiters.len()
    }
}

/// What a key has for a client that waits.
enum Supply {
    /// Nothing, for nobody.
    None,
    /// Nothing for this client.
    Other,
    /// What it waits for.
    Wanted,
}
