//! Readers and writers in one queue, step by step.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;
use crate::lock_intents::INTENT_LASTS;

const EXCLUSIVE: Holder<'_> = Holder {
    token: b"another",
    until: None,
    is_new: false,
    is_shared: false,
};

/// A lock's name, what it is held by, and time that a test moves. Who waits has its number as its token.
struct Bench {
    queues: LockQueues,
    now: NodeTime,
    name: QueueName,
    holder: Option<Holder<'static>>,
}

impl Bench {
    fn new(holder: Option<Holder<'static>>) -> Bench {
        Bench {
            queues: LockQueues::default(),
            now: NodeTime::from_nanos(7),
            name: QueueName::new(0, b"job"),
            holder,
        }
    }

    fn wait(&mut self, client: ClientId, is_shared: bool) -> usize {
        self.wait_from_far(client, is_shared, TURN_LASTS)
    }

    fn wait_from_far(&mut self, client: ClientId, is_shared: bool, turn: Duration) -> usize {
        let token = client.to_string();
        let request = Request {
            client,
            token: token.as_bytes(),
            is_shared,
            turn,
        };
        let joined = self.queues.join(request, &self.name, self.holder, self.now);
        joined.unwrap()
    }

    /// The lock is held like this now; all that follows at once is done.
    fn hold(&mut self, holder: Option<Holder<'static>>) -> Vec<ClientId> {
        self.holder = holder;
        let mut woken = Vec::new();
        self.queues.note(&self.name, holder, self.now, &mut woken);
        let mut woken: Vec<_> = woken.iter().map(|woken| woken.client).collect();
        woken.extend(self.advance(0));
        woken
    }

    fn advance(&mut self, ms: u64) -> Vec<ClientId> {
        self.now = self.now.saturating_add(Duration::from_millis(ms));
        let mut woken = Vec::new();
        while let Some(name) = self.queues.take_due(self.now) {
            self.queues.note(&name, self.holder, self.now, &mut woken);
        }
        woken.iter().map(|woken| woken.client).collect()
    }

    fn reads(&mut self, client: ClientId) {
        let token = client.to_string();
        let is_admitted = self.admits(client);
        assert!(is_admitted, "{client}");
        self.queues.note_reader(&self.name, token.as_bytes());
    }

    fn admits(&self, client: ClientId) -> bool {
        let token = client.to_string();
        self.queues
            .admits_reader(&self.name, token.as_bytes(), self.now)
    }

    fn shared_for(&self, ms: u64) -> Option<Holder<'static>> {
        Some(Holder {
            token: &[],
            until: Some(self.now.saturating_add(Duration::from_millis(ms))),
            is_new: false,
            is_shared: true,
        })
    }
}

#[test]
fn readers_at_the_head_are_woken_together_and_a_writer_between_them_alone() {
    let mut bench = Bench::new(Some(EXCLUSIVE));
    for (client, is_shared) in [(1, true), (2, true), (3, false), (4, true), (5, true)] {
        assert_eq!(
            bench.wait(client, is_shared),
            usize::try_from(client).unwrap()
        );
    }
    assert_eq!(bench.hold(None), [1, 2]);
    assert!(bench.admits(1) && bench.admits(2) && !bench.admits(4) && !bench.admits(9));
    bench.reads(2);
    let shared = bench.shared_for(1000);
    assert_eq!(bench.hold(shared), [0; 0]);
    bench.reads(1);
    assert_eq!(bench.hold(shared), [0; 0], "a writer is next");
    assert_eq!(bench.hold(None), [3]);
    assert_eq!(bench.advance(50), [4, 5], "it did not use its turn");
    assert_eq!(bench.wait(4, true), 0);
    assert_eq!(bench.advance(50), [0; 0]);
    assert!(bench.queues.is_empty(), "nor did they");
}

#[test]
fn readers_that_are_woken_together_have_the_time_of_the_farthest() {
    let mut bench = Bench::new(Some(EXCLUSIVE));
    bench.wait_from_far(1, true, Duration::from_millis(600));
    bench.wait(2, true);
    bench.wait(3, false);
    assert_eq!(bench.hold(None), [1, 2]);
    assert_eq!(bench.advance(599), [0; 0]);
    assert_eq!(bench.advance(1), [3]);
}

/// It keeps readers out as long as its attempt takes to arrive.
#[test]
fn a_writer_far_away_keeps_readers_out_for_its_whole_turn() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(200_000);
    bench.wait_from_far(1, false, Duration::from_millis(1500));
    bench.advance(199_999);
    bench.holder = bench.shared_for(60_000);
    bench.advance(1500);
    assert!(!bench.admits(2));
    bench.advance(1);
    assert!(bench.admits(2));
}

#[test]
fn a_writer_that_readers_overtook_keeps_its_place_and_is_woken_when_they_have_gone() {
    let mut bench = Bench::new(Some(EXCLUSIVE));
    bench.wait(1, false);
    bench.wait(2, true);
    assert_eq!(bench.hold(None), [1]);
    let shared = bench.shared_for(30);
    assert_eq!(bench.hold(shared), [0; 0]);
    assert_eq!(
        bench.advance(29),
        [0; 0],
        "a lock that readers hold has no turn for it"
    );
    bench.holder = None;
    assert_eq!(bench.advance(1), [1]);
}

#[test]
fn when_a_writer_leaves_the_readers_behind_it_are_woken() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(1000);
    assert_eq!(bench.wait(1, false), 1);
    assert_eq!(bench.wait(2, true), 2);
    assert_eq!(bench.wait(3, true), 3);
    let name = bench.name.clone();
    let (now, mut woken) = (bench.now, Vec::new());
    assert!(bench.queues.leave(1, &name, now, &mut woken) && woken.is_empty());
    assert_eq!(bench.advance(0), [2, 3]);
    assert_eq!(bench.wait(4, true), 0, "nobody is before it");
    assert_eq!(
        bench.wait(2, false),
        2,
        "who wants to write now stands behind"
    );
    assert_eq!(bench.wait(5, true), 3);
}

#[test]
fn a_waiting_writer_keeps_newcomers_out_until_the_readers_it_saw_would_have_ended() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(200_000);
    assert!(bench.admits(2));
    bench.wait(1, false);
    assert!(!bench.admits(2));
    bench.advance(199_999);
    // They were extended; the writer has vanished.
    bench.holder = bench.shared_for(60_000);
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    bench.advance(lasts);
    assert!(!bench.admits(2));
    bench.advance(1);
    assert!(bench.admits(2));
    bench.wait(1, false);
    assert!(!bench.admits(2), "it has asked again");
}

/// Readers extend a lock of seconds for as long as they like, and a writer in line asks now and then only.
#[test]
fn a_writer_in_line_keeps_newcomers_out_for_two_minutes_however_short_the_lock_is() {
    let mut bench = Bench::new(None);
    for _ in 0..3 {
        bench.holder = bench.shared_for(900);
        assert_eq!(bench.wait(1, false), 1);
        bench.holder = bench.shared_for(600_000);
        assert_eq!(bench.advance(119_999), [0; 0]);
        assert!(!bench.admits(2));
    }
    assert!(bench.admits(1), "another call of its client wants to read");
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    bench.advance(1 + lasts);
    assert!(bench.admits(2), "it asks no more");
    assert_eq!(bench.hold(None), [1], "and has its place still");
}

#[test]
fn a_refused_writer_keeps_readers_out_for_a_short_time_and_then_they_are_woken() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(60_000);
    bench.queues.intents.note(bench.name.clone(), bench.now);
    assert!(!bench.admits(1));
    assert_eq!(bench.wait(1, true), 1);
    assert_eq!(bench.wait(2, true), 2);
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    assert_eq!(bench.advance(lasts - 1), [0; 0]);
    assert_eq!(bench.advance(1), [1, 2]);
    bench.queues.intents.note(bench.name.clone(), bench.now);
    assert!(
        bench.admits(1) && !bench.admits(3),
        "who was woken has its turn"
    );
}

/// A writer whose process is stopped, or whose machine is gone: its connection does not end, and the readers go on and on. Those
/// behind it had their turn with the next request to all nodes before, some four minutes later.
#[test]
fn readers_behind_a_silent_writer_are_woken_as_soon_as_it_keeps_them_out_no_longer() {
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(900);
    bench.wait(1, false);
    bench.wait(2, true);
    bench.wait(3, true);
    for _ in 0..3 {
        bench.holder = bench.shared_for(600_000);
        assert_eq!(bench.advance(75_000), [0; 0]);
        bench.holder = bench.shared_for(900);
        assert_eq!(bench.wait(1, false), 3, "it asks again and keeps its place");
    }
    bench.holder = bench.shared_for(600_000);
    assert_eq!(bench.advance(119_999 + lasts), [0; 0]);
    assert!(!bench.admits(2) && !bench.admits(9));
    assert_eq!(bench.advance(1), [1, 2, 3], "the writer is asked for a try");
    bench.reads(2);
    bench.reads(3);
    assert!(bench.queues.is_empty());
    // It has only slept: it stands at the end of the line.
    assert_eq!(bench.wait(1, false), 1);
    assert!(!bench.admits(9));
}

#[test]
fn a_silent_writer_keeps_its_place_until_others_come_behind_it() {
    for is_shared in [true, false] {
        let mut bench = Bench::new(None);
        bench.holder = bench.shared_for(900);
        bench.wait(1, false);
        bench.holder = bench.shared_for(900_000);
        assert_eq!(bench.advance(300_000), [0; 0]);
        assert_eq!(bench.wait(2, is_shared), 2);
        let woken: &[ClientId] = if is_shared { &[1, 2] } else { &[1] };
        assert_eq!(bench.advance(0), woken);
        // The one behind it keeps readers out in its place.
        assert_eq!(bench.admits(9), is_shared);
    }
}

#[test]
fn a_writer_behind_a_silent_one_keeps_readers_out() {
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(900);
    bench.wait(1, false);
    bench.wait(2, false);
    bench.holder = bench.shared_for(900_000);
    assert_eq!(bench.advance(75_000), [0; 0]);
    bench.wait(2, false);
    assert_eq!(bench.advance(45_000 + lasts), [1]);
    assert!(!bench.admits(9));
    assert_eq!(bench.hold(None), [2]);
}
