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
    /// Who was asked whether it still waits, since the test looked last.
    asked: Vec<ClientId>,
}

impl Bench {
    fn new(holder: Option<Holder<'static>>) -> Bench {
        Bench {
            queues: LockQueues::default(),
            now: NodeTime::from_nanos(7),
            name: QueueName::new(0, b"job"),
            holder,
            asked: Vec::new(),
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
        let mut woken = self.turns(&woken);
        woken.extend(self.advance(0));
        woken
    }

    /// Whose turn it is. Those who are asked whether they still wait are noted.
    fn turns(&mut self, woken: &[Woken]) -> Vec<ClientId> {
        let (turns, asked): (Vec<&Woken>, Vec<_>) = woken.iter().partition(|woken| woken.is_turn);
        self.asked.extend(asked.iter().map(|woken| woken.client));
        turns.iter().map(|woken| woken.client).collect()
    }

    fn take_asked(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.asked)
    }

    /// A reader that does not wait is refused.
    fn refuse(&mut self) {
        self.queues.note_kept_out(&self.name, self.now);
    }

    fn advance(&mut self, ms: u64) -> Vec<ClientId> {
        self.now = self.now.saturating_add(Duration::from_millis(ms));
        let mut woken = Vec::new();
        while let Some(name) = self.queues.take_due(self.now) {
            self.queues.note(&name, self.holder, self.now, &mut woken);
        }
        self.turns(&woken)
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

#[test]
fn a_writer_far_away_has_its_whole_turn_for_each_answer() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(600_000);
    bench.wait_from_far(1, false, Duration::from_millis(1500));
    bench.wait(2, true);
    assert_eq!(bench.advance(2_000), [0; 0]);
    assert_eq!(bench.take_asked(), [1]);
    assert_eq!(bench.advance(1_499), [0; 0]);
    assert_eq!(bench.advance(1), [1]);
    assert_eq!(bench.advance(1_499), [0; 0]);
    assert!(!bench.admits(9));
    assert_eq!(bench.advance(1), [2]);
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
fn a_writer_in_line_keeps_newcomers_out_and_is_left_alone_where_no_reader_wants_the_lock() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(900);
    assert!(bench.admits(2));
    assert_eq!(bench.wait(1, false), 1);
    bench.holder = bench.shared_for(900_000);
    for _ in 0..60 {
        assert_eq!(bench.advance(10_000), [0; 0]);
        assert!(!bench.admits(2));
    }
    assert_eq!(bench.take_asked(), [0; 0]);
    assert!(bench.admits(1), "another call of its client wants to read");
    assert_eq!(bench.hold(None), [1]);
}

/// It may know one of the two messages only.
#[test]
fn a_writer_in_line_that_answers_keeps_its_place_however_long_others_read() {
    for knows_both in [true, false] {
        let mut bench = Bench::new(None);
        bench.holder = bench.shared_for(7_200_000);
        bench.wait(1, false);
        bench.wait(2, true);
        let mut times_asked = 0;
        for _ in 0..7_200 {
            let turns = bench.advance(500);
            let is_asked = !bench.take_asked().is_empty();
            times_asked += usize::from(is_asked);
            if is_asked && knows_both || turns == [1] {
                assert_eq!(bench.wait(1, false), 2, "it keeps its place");
            }
            assert!(turns.is_empty() || turns == [1] && !knows_both);
            assert!(!bench.admits(2) && !bench.admits(9));
        }
        // In an hour: less than one request in ten seconds.
        assert!((300..=335).contains(&times_asked), "{times_asked}");
        assert_eq!(bench.hold(None), [1]);
    }
}

#[test]
fn a_writer_is_asked_every_two_seconds_at_most_however_many_readers_are_refused() {
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(900_000);
    bench.wait(1, false);
    let mut times_asked = 0;
    for _ in 0..600 {
        bench.refuse();
        assert_eq!(bench.advance(100), [0; 0]);
        if !bench.take_asked().is_empty() {
            times_asked += 1;
            assert_eq!(bench.wait(1, false), 1);
        }
    }
    assert_eq!(times_asked, 30);
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
/// behind it waited for two minutes before, and yet longer once.
#[test]
fn readers_behind_a_silent_writer_are_woken_as_soon_as_it_keeps_them_out_no_longer() {
    let lasts = u64::try_from(INTENT_LASTS.as_millis()).unwrap();
    let mut bench = Bench::new(None);
    bench.holder = bench.shared_for(600_000);
    bench.wait(1, false);
    bench.wait(2, true);
    bench.wait(3, true);
    assert_eq!(bench.advance(60_000), [0; 0]);
    assert_eq!(bench.take_asked(), [1]);
    assert_eq!(bench.wait(1, false), 3, "it keeps its place");
    // It has waited for so long that it is asked as seldom as can be.
    assert_eq!(bench.advance(10_999), [0; 0]);
    assert_eq!(bench.take_asked(), [0; 0]);
    assert_eq!(bench.advance(1), [0; 0]);
    assert_eq!(bench.take_asked(), [1]);
    assert_eq!(bench.advance(lasts - 1), [0; 0]);
    assert_eq!(bench.advance(1), [1], "as though it was its turn");
    assert_eq!(bench.advance(lasts - 1), [0; 0]);
    assert!(!bench.admits(2) && !bench.admits(9));
    assert_eq!(bench.advance(1), [2, 3]);
    bench.reads(2);
    bench.reads(3);
    assert!(bench.queues.is_empty());
    // It has only slept: it stands at the end of the line.
    assert_eq!(bench.wait(1, false), 1);
    assert!(!bench.admits(9));
}

#[test]
fn silent_writers_keep_their_place_until_a_reader_wants_the_lock_and_then_leave_one_after_the_other()
 {
    for is_refused in [true, false] {
        let mut bench = Bench::new(None);
        bench.holder = bench.shared_for(900_000);
        assert_eq!(bench.wait(1, false), 1);
        assert_eq!(bench.advance(300_000), [0; 0]);
        assert_eq!(bench.wait(4, false), 2);
        assert_eq!(bench.advance(1_000), [0; 0]);
        assert_eq!(bench.take_asked(), [0; 0]);
        match is_refused {
            true => bench.refuse(),
            false => assert_eq!(bench.wait(2, true), 3),
        }
        assert_eq!(bench.advance(0), [0; 0]);
        assert_eq!(bench.take_asked(), [1], "at once");
        assert_eq!(bench.advance(500), [1]);
        assert_eq!(bench.advance(500), [0; 0]);
        assert_eq!(bench.take_asked(), [4]);
        assert!(!bench.admits(9), "the second one keeps readers out");
        assert_eq!(bench.advance(500), [4]);
        let woken: &[ClientId] = if is_refused { &[] } else { &[2] };
        assert_eq!(bench.advance(500), woken);
        assert!(bench.admits(2));
    }
}
