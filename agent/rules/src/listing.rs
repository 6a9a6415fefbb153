//! LOCK.LIST: some of the locks that a majority of the nodes holds.
//!
//! Invariant: that of `request`: nothing is said of a lock without a majority. The names of what is said are those of a node's reply.

use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::outcome::{ListedLock, LockPage};
use quorlock_clock::saturated;
use quorlock_engine::Reply;

use crate::lock_command::ListTerms;
use crate::locking::number;
use crate::next::Next;
use crate::refusal;
use crate::surroundings::Surroundings;
use crate::terms::caller_ttl;

/// Asks for them.
pub(crate) fn begin(terms: ListTerms) -> Next {
    let ListTerms { pattern, cursor } = terms;
    Next::Ask(Call::List { pattern, cursor })
}

pub(crate) fn handle(outcome: Outcome, world: &Surroundings<'_>) -> Next {
    let Outcome::Listed(listed) = outcome else {
        // The client has ended.
        debug_assert!(false, "{outcome:?} of a list");
        return Next::Answer(Reply::Error(refusal::TRY_AGAIN));
    };
    Next::Answer(match listed {
        Err(error) => Reply::Error(refusal::not_read(&error)),
        Ok(LockPage { cursor, locks }) => {
            let rows = locks.iter().map(|lock| row(lock, world));
            let cursor = Reply::bulk(cursor.to_string());
            Reply::Array(vec![cursor, Reply::Array(rows.collect())])
        }
    })
}

fn row(lock: &ListedLock, world: &Surroundings<'_>) -> Reply {
    let left = caller_ttl(lock.left, world.drift);
    let pairs = [
        ("name", Reply::bulk(&lock.name)),
        ("type", Reply::bulk("string")),
        ("token", Reply::bulk(lock.token.as_bytes())),
        ("ttl-ms", number(saturated(left.as_millis()))),
        ("nodes", number(lock.nodes as u64)),
    ];
    let pair = |(name, fact)| (Reply::bulk(name), fact);
    Reply::Map(pairs.map(pair).into())
}
