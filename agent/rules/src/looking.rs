//! LOCK.INFO: who holds a lock, as a majority of the nodes says.
//!
//! Invariant: that of `request`: nothing is said of a lock without a majority. The names of what is said are those of a node's reply.

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::outcome::{Looked, Reading};
use quorlock_clock::saturated;
use quorlock_engine::Reply;

use crate::locking::number;
use crate::next::Next;
use crate::refusal;
use crate::surroundings::Surroundings;
use crate::terms::caller_ttl;

#[derive(Debug)]
pub(crate) struct Looking {
    pub(crate) name: Bytes,
    /// How often no majority said the same.
    rounds: u32,
}

impl Looking {
    pub(crate) fn begin(name: Bytes) -> (Self, Next) {
        let looking = Self { name, rounds: 0 };
        let next = looking.go_on();
        (looking, next)
    }

    /// Asks the nodes, perhaps once more.
    pub(crate) fn go_on(&self) -> Next {
        let name = self.name.clone();
        Next::Ask(Call::Look { name })
    }

    /// What was asked for has come to this.
    pub(crate) fn handle(&mut self, outcome: Outcome, world: &mut Surroundings<'_>) -> Next {
        let Outcome::Looked(looked) = outcome else {
            // The client has ended.
            debug_assert!(false, "{outcome:?} of a look");
            return Next::Answer(Reply::Error(refusal::TRY_AGAIN));
        };
        match looked {
            Err(error) => Next::Answer(Reply::Error(refusal::not_read(&error))),
            Ok(looked) => match looked.reading {
                Reading::Free => Next::Answer(Reply::NilArray),
                Reading::Split { .. } => world.pause(&mut self.rounds),
                Reading::OtherType { .. } => {
                    Next::Answer(Reply::Error(refusal::not_a_lock(OTHER_TYPE)))
                }
                Reading::Held { .. } => Next::Answer(facts(&looked, world)),
            },
        }
    }
}

/// What is said of a lock that is held.
fn facts(looked: &Looked, world: &Surroundings<'_>) -> Reply {
    let Reading::Held { token, left, .. } = &looked.reading else {
        return Reply::NilArray;
    };
    // A node says so of a key without an end.
    let left = left.map_or(Reply::Integer(-1), |left| {
        number(saturated(caller_ttl(left, world.drift).as_millis()))
    });
    let owner = looked.owner.as_deref();
    let pairs = [
        ("type", Reply::bulk("string")),
        ("token", Reply::bulk(token.as_bytes())),
        ("ttl-ms", left),
        ("owner", owner.map_or(Reply::Nil, Reply::bulk)),
        ("fence", looked.fence.map_or(Reply::Nil, number)),
    ];
    let pair = |(name, fact)| (Reply::bulk(name), fact);
    Reply::Map(pairs.map(pair).into())
}

const OTHER_TYPE: &str = "those who read hold the lock, or a key of another type has its name, such as a lock of Redisson's. A node tells of \
     them: send it LOCK.INFO";
