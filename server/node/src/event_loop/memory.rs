//! What connections hold in their buffers, and which of them goes when that is too much.
//!
//! Each worker counts what stays in the buffers of its own connections from one iteration of its event
//! loop to the next, and adds it to a sum that all workers share. So an ordinary request, which is read,
//! executed and answered within one iteration, changes no count.
//!
//! While the sum is over its limit, each worker that has more than its even share closes its largest.
//! At least one has: the sum comes down, and no small client goes for another worker's large one.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one connection was last counted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Bytes that have been received and are still needed.
    pub(crate) input_bytes: usize,
    /// What of them are bytes of requests, and what of their buffer is free.
    pub(crate) query_bytes: usize,
    pub(crate) query_free_bytes: usize,
    /// Memory of replies and messages that have not left.
    pub(crate) output_bytes: usize,
    /// What of that are messages that others hold as well, which are counted once for all.
    pub(crate) shared_bytes: usize,
    /// What those take, once for all who have them: more than they count for each.
    pub(crate) charged_bytes: usize,
    /// Everything that a connection costs that has not authenticated; 0 for others.
    pub(crate) unauthenticated_bytes: usize,
}

/// What the connections of one worker hold.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Without what they share with others.
    bytes: usize,
    /// What of it the node sum has.
    told_bytes: usize,
    /// What they share, once for each of them.
    charged_bytes: usize,
    unauthenticated_bytes: usize,
}

/// One of the connections that may have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) connection: usize,
    pub(crate) bytes: usize,
    /// CLIENT NO-EVICT: it goes after all others.
    pub(crate) is_spared: bool,
}

impl Held {
    /// What the connection keeps from being freed.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes().saturating_add(self.charged_bytes)
    }

    /// What of it counts for this connection against the limit of all.
    fn own_bytes(&self) -> usize {
        self.input_bytes.saturating_add(self.output_bytes) - self.shared_bytes
    }
}

impl Account {
    /// Counts a connection with what it holds now instead of before.
    pub(crate) fn count(&mut self, before: Held, now: Held) {
        self.bytes = self.bytes - before.own_bytes() + now.own_bytes();
        self.charged_bytes = self.charged_bytes - before.charged_bytes + now.charged_bytes;
        self.unauthenticated_bytes =
            self.unauthenticated_bytes - before.unauthenticated_bytes + now.unauthenticated_bytes;
    }

    /// Brings the sum of all workers up to date; says whether this changed anything.
    pub(crate) fn publish(&mut self, sum: &AtomicUsize) -> bool {
        let told = std::mem::replace(&mut self.told_bytes, self.bytes);
        if self.bytes > told {
            sum.fetch_add(self.bytes - told, Ordering::Relaxed);
        } else if self.bytes < told {
            sum.fetch_sub(told - self.bytes, Ordering::Relaxed);
        }
        self.bytes != told
    }

    /// How many bytes this worker has to give up, given the sum of all workers, what of it is shared, and the limit.
    pub(crate) fn excess(
        &self,
        sum_bytes: usize,
        shared_bytes: usize,
        limit_bytes: usize,
        workers: usize,
    ) -> usize {
        let over = sum_bytes.saturating_sub(limit_bytes);
        // Many who wait for the same message keep it once.
        let charged_bytes = self.charged_bytes.min(shared_bytes);
        let bytes = self.bytes.saturating_add(charged_bytes);
        over.min(bytes.saturating_sub(limit_bytes / workers.max(1)))
    }

    /// How many bytes of connections that have not authenticated this worker has to give up.
    pub(crate) fn unauthenticated_excess(&self, workers: usize) -> usize {
        let share = UNAUTHENTICATED_BYTES_MAX / workers.max(1);
        self.unauthenticated_bytes.saturating_sub(share)
    }
}

/// The largest, as many as hold at least `excess` bytes together, at most [`CLOSED_MAX`].
pub(crate) fn largest(
    candidates: impl Iterator<Item = Candidate>,
    excess: usize,
) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = candidates.filter(|one| one.bytes > 0).collect();
    let order = |one: &Candidate| (one.is_spared, Reverse(one.bytes));
    if candidates.len() > CLOSED_MAX {
        candidates.select_nth_unstable_by_key(CLOSED_MAX, order);
        candidates.truncate(CLOSED_MAX);
    }
    candidates.sort_unstable_by_key(order);
    enough(candidates, excess, |one| one.bytes)
}

/// The oldest, given as (client's id, connection, bytes), in the same way.
pub(crate) fn oldest(
    candidates: impl Iterator<Item = (u64, usize, usize)>,
    excess: usize,
) -> Vec<usize> {
    let mut candidates: Vec<(u64, usize, usize)> = candidates.collect();
    candidates.sort_unstable();
    candidates.truncate(CLOSED_MAX);
    let enough = enough(candidates, excess, |(_, _, bytes)| *bytes);
    enough.into_iter().map(|(_, slot, _)| slot).collect()
}

fn enough<T>(mut sorted: Vec<T>, excess: usize, bytes: impl Fn(&T) -> usize) -> Vec<T> {
    let mut sum = 0_usize;
    let count = sorted
        .iter()
        .take_while(|one| {
            let is_needed = sum < excess;
            sum = sum.saturating_add(bytes(one));
            is_needed
        })
        .count();
    sorted.truncate(count);
    sorted
}

/// What all connections together may cost that have not authenticated; beyond it the oldest are
/// closed. 16 KiB each for 4096 of them, and more of those that send little.
pub(crate) const UNAUTHENTICATED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// So many connections are closed for memory in one iteration of an event loop. Where 10,000 share
/// 256 MiB evenly, that frees more than an iteration can read and execute.
const CLOSED_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn held(input_bytes: usize, output_bytes: usize, unauthenticated_bytes: usize) -> Held {
        Held {
            input_bytes,
            output_bytes,
            unauthenticated_bytes,
            ..Held::default()
        }
    }

    #[test]
    fn the_shared_sum_follows_both_workers() {
        let sum = AtomicUsize::new(0);
        let (mut one, mut other) = (Account::default(), Account::default());
        one.count(Held::default(), held(10, 20, 7));
        assert_eq!(sum.load(Ordering::Relaxed), 0, "not told yet");
        assert!(one.publish(&sum) && !one.publish(&sum));
        other.count(Held::default(), held(0, 5, 0));
        assert!(other.publish(&sum));
        assert_eq!(sum.load(Ordering::Relaxed), 35);
        one.count(held(10, 20, 7), held(1, 0, 0));
        assert!(one.publish(&sum));
        assert_eq!(sum.load(Ordering::Relaxed), 6);
        one.count(held(1, 0, 0), Held::default());
        other.count(held(0, 5, 0), Held::default());
        assert!(one.publish(&sum) && other.publish(&sum));
        assert_eq!(sum.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn only_who_has_more_than_its_share_gives_up_and_someone_has() {
        let account = |bytes| {
            let mut account = Account::default();
            account.count(Held::default(), held(bytes, 0, 0));
            account
        };
        let limit = 100;
        for bytes in [[0, 101], [50, 51], [60, 60], [101, 0], [10, 1000]] {
            let sum: usize = bytes.iter().sum();
            let excess: Vec<usize> = bytes
                .iter()
                .map(|bytes| account(*bytes).excess(sum, 0, limit, 2))
                .collect();
            assert!(excess.iter().sum::<usize>() >= sum - limit, "{bytes:?}");
            for (bytes, excess) in bytes.iter().zip(&excess) {
                assert_eq!(*excess > 0, *bytes > 50, "{bytes}");
            }
        }
        assert_eq!(account(100).excess(100, 0, limit, 2), 0);
    }

    #[test]
    fn what_is_shared_counts_once_and_those_who_keep_it_go() {
        let mut account = Account::default();
        let listener = Held {
            output_bytes: 1100,
            shared_bytes: 1000,
            charged_bytes: 1000,
            ..Held::default()
        };
        for _ in 0..50 {
            account.count(Held::default(), listener);
        }
        let sum = AtomicUsize::new(1000);
        assert!(account.publish(&sum));
        assert_eq!(sum.load(Ordering::Relaxed), 6000);
        assert_eq!(account.excess(6000, 1000, 6000, 1), 0);
        assert_eq!(account.excess(6000, 1000, 5990, 1), 10);
        assert_eq!(
            account.excess(6000, 1000, 500, 1),
            5500,
            "what it shares as well"
        );
        assert_eq!(
            account.excess(60_000, 1000, 6000, 2),
            3000,
            "its 50 share 1000"
        );
        account.count(listener, Held::default());
        assert!(account.publish(&sum));
        assert_eq!(
            sum.load(Ordering::Relaxed),
            5900,
            "the others have it still"
        );
    }

    /// Found from outside: short messages counted a tenth of what they take, so that nobody went before that was the
    /// limit.
    #[test]
    fn who_keeps_many_short_messages_gives_up_what_they_take() {
        let mut account = Account::default();
        let listener = Held {
            output_bytes: 75,
            shared_bytes: 11,
            charged_bytes: 587,
            ..Held::default()
        };
        assert_eq!(listener.bytes(), 64 + 587);
        for _ in 0..10 {
            account.count(Held::default(), listener);
        }
        let sum = AtomicUsize::new(10 * 587);
        account.publish(&sum);
        assert_eq!(sum.load(Ordering::Relaxed), 10 * (64 + 587));
        assert_eq!(account.excess(6510, 5870, 6000, 1), 510);
    }

    #[test]
    fn the_largest_go_first_and_no_more_than_needed() {
        let candidate = |connection, bytes, is_spared| Candidate {
            connection,
            bytes,
            is_spared,
        };
        let all = [
            candidate(0, 5, false),
            candidate(1, 0, false),
            candidate(2, 90, true),
            candidate(3, 20, false),
            candidate(4, 7, false),
        ];
        let order = |excess| -> Vec<usize> {
            let chosen = largest(all.into_iter(), excess);
            chosen.into_iter().map(|one| one.connection).collect()
        };
        assert_eq!(order(0), []);
        assert_eq!(order(1), [3]);
        assert_eq!(order(20), [3]);
        assert_eq!(order(21), [3, 4]);
        assert_eq!(order(33), [3, 4, 0, 2], "who asked to be spared goes last");
        assert_eq!(order(usize::MAX), [3, 4, 0, 2]);
    }

    #[test]
    fn one_iteration_closes_a_bounded_number() {
        let many = (0..10_000).map(|connection| Candidate {
            connection,
            bytes: connection + 1,
            is_spared: false,
        });
        let chosen = largest(many, usize::MAX);
        assert_eq!(chosen.len(), CLOSED_MAX);
        assert_eq!(chosen.first().map(|one| one.bytes), Some(10_000));
        assert_eq!(
            chosen.last().map(|one| one.bytes),
            Some(10_001 - CLOSED_MAX)
        );
        let many = (0..10_000).map(|number| (10_000 - number, 7, 1));
        assert_eq!(oldest(many, usize::MAX).len(), CLOSED_MAX);
    }

    #[test]
    fn the_oldest_goes_first() {
        let all = [(9, 0, 10), (3, 1, 10), (5, 2, 10)];
        assert_eq!(oldest(all.into_iter(), 1), [1]);
        assert_eq!(oldest(all.into_iter(), 11), [1, 2]);
    }

    #[test]
    fn those_without_a_password_have_a_sum_of_their_own() {
        let mut account = Account::default();
        account.count(Held::default(), held(0, 0, UNAUTHENTICATED_BYTES_MAX));
        assert_eq!(account.unauthenticated_excess(1), 0);
        assert_eq!(
            account.unauthenticated_excess(2),
            UNAUTHENTICATED_BYTES_MAX / 2
        );
        account.count(Held::default(), held(0, 0, 1));
        assert_eq!(account.unauthenticated_excess(1), 1);
    }
}
