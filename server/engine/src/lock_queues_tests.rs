//! The rule by which clients that wait for a lock are woken, step by step.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;

/// A lock's name, and time that a test moves.
struct Bench {
    queues: LockQueues,
    now: NodeTime,
    name: QueueName,
}

const HELD: Holder<'_> = Holder {
    token: b"another",
    until: None,
    is_new: true,
    is_shared: false,
};

impl Bench {
    fn new() -> Bench {
        Bench {
            queues: LockQueues::default(),
            now: NodeTime::from_nanos(7),
            name: QueueName::new(0, b"job"),
        }
    }

    /// Clients wait for the held lock, each with its number as its token.
    fn with_waiting(clients: std::ops::Range<ClientId>) -> Bench {
        let mut bench = Bench::new();
        let first = clients.start;
        for client in clients {
            let waiting = bench.join(client, Some(HELD));
            assert_eq!(waiting, Ok(usize::try_from(client - first).unwrap() + 1));
        }
        bench
    }

    fn join(
        &mut self,
        client: ClientId,
        holder: Option<Holder<'_>>,
    ) -> Result<usize, QueueRefusal> {
        let token = client.to_string();
        let request = to_write(client, token.as_bytes());
        self.queues.join(request, &self.name, holder, self.now)
    }

    fn join_with(
        &mut self,
        request: Request<'_>,
        holder: Option<Holder<'_>>,
    ) -> Result<usize, QueueRefusal> {
        self.queues.join(request, &self.name, holder, self.now)
    }

    /// Who is woken when the lock's key was looked at.
    fn note(&mut self, holder: Option<Holder<'_>>) -> Vec<ClientId> {
        let mut woken = Vec::new();
        self.queues.note(&self.name, holder, self.now, &mut woken);
        clients(&woken)
    }

    fn leave(&mut self, client: ClientId) -> Vec<ClientId> {
        let mut woken = Vec::new();
        assert!(self.queues.leave(client, &self.name, self.now, &mut woken));
        clients(&woken)
    }

    /// Who is woken by time, where the lock is free.
    fn advance(&mut self, duration: Duration) -> Vec<ClientId> {
        self.now = self.now.saturating_add(duration);
        let mut woken = Vec::new();
        while let Some(name) = self.queues.take_due(self.now) {
            self.queues.note(&name, None, self.now, &mut woken);
        }
        clients(&woken)
    }

    fn assert_empty(&self) {
        let queues = &self.queues;
        assert!(queues.is_empty() && queues.waiters.is_empty() && queues.bytes == 0);
        assert!(queues.by_client.is_empty() && queues.timers.is_empty());
        assert!(queues.departed.is_empty() && queues.next_due().is_none());
    }
}

const NOW: NodeTime = NodeTime::from_nanos(7);

fn to_write(client: ClientId, token: &[u8]) -> Request<'_> {
    Request {
        client,
        token,
        is_shared: false,
        turn: TURN_LASTS,
    }
}

fn from_far(client: ClientId, token: &[u8], turn_ms: u64) -> Request<'_> {
    Request {
        turn: Duration::from_millis(turn_ms),
        ..to_write(client, token)
    }
}

fn clients(woken: &[Woken]) -> Vec<ClientId> {
    woken.iter().map(|woken| woken.client).collect()
}

fn taken_by(token: &[u8]) -> Option<Holder<'_>> {
    Some(Holder { token, ..HELD })
}

#[test]
fn each_release_wakes_one_in_the_order_of_arrival() {
    let mut bench = Bench::with_waiting(1..51);
    for client in 1..51 {
        assert_eq!(bench.note(None), [client]);
        assert_eq!(bench.note(None), [0_u64; 0], "it is woken already");
        let token = client.to_string();
        assert_eq!(bench.note(taken_by(token.as_bytes())), [0_u64; 0]);
    }
    bench.assert_empty();
}

#[test]
fn a_wake_up_that_was_not_used_lapses_and_the_next_is_woken() {
    let mut bench = Bench::with_waiting(1..4);
    assert_eq!(bench.note(None), [1]);
    assert_eq!(bench.advance(TURN_LASTS - Duration::from_nanos(1)), [0; 0]);
    assert_eq!(bench.advance(Duration::from_nanos(1)), [2]);
    assert_eq!(bench.advance(TURN_LASTS), [3]);
    assert_eq!(
        bench.queues.next_due(),
        Some(bench.now.saturating_add(TURN_LASTS))
    );
    assert_eq!(bench.advance(TURN_LASTS), [0; 0]);
    bench.assert_empty();
}

/// Its attempt arrives 200 ms later.
#[test]
fn a_turn_lasts_as_long_as_the_client_said_and_no_longer() {
    let mut bench = Bench::with_waiting(1..2);
    assert_eq!(bench.join_with(from_far(2, b"2", 600), Some(HELD)), Ok(2));
    assert_eq!(bench.join(3, Some(HELD)), Ok(3));
    assert_eq!(bench.note(None), [1]);
    assert_eq!(bench.advance(TURN_LASTS), [2]);
    assert_eq!(bench.advance(Duration::from_millis(599)), [0; 0]);
    bench.note(taken_by(b"2"));
    assert_eq!(bench.note(None), [3]);
    // Who asks again may name another length: that of its next turn.
    let mut bench = Bench::new();
    bench.join_with(from_far(1, b"1", 600), Some(HELD)).unwrap();
    bench.join_with(from_far(1, b"1", 100), Some(HELD)).unwrap();
    bench.join(2, Some(HELD)).unwrap();
    assert_eq!(bench.note(None), [1]);
    assert_eq!(bench.advance(Duration::from_millis(99)), [0; 0]);
    assert_eq!(bench.advance(Duration::from_millis(1)), [2]);
}

#[test]
fn a_client_that_lost_to_one_that_never_waited_stays_first() {
    let mut bench = Bench::with_waiting(1..3);
    for _ in 0..3 {
        assert_eq!(bench.note(None), [1]);
        assert_eq!(bench.note(Some(HELD)), [0; 0]);
        assert_eq!(
            bench.advance(TURN_LASTS),
            [0; 0],
            "a lock that is held has no turn"
        );
        assert_eq!(
            bench.join(1, Some(HELD)),
            Ok(2),
            "to ask again keeps the place"
        );
    }
    assert_eq!(bench.note(None), [1]);
    assert_eq!(bench.leave(1), [2]);
    assert_eq!(bench.leave(2), [0; 0]);
    bench.assert_empty();
}

/// A client draws a token for each attempt.
#[test]
fn who_asks_again_is_known_by_its_last_token() {
    let mut bench = Bench::with_waiting(1..3);
    assert_eq!(bench.join_with(to_write(1, b"second"), Some(HELD)), Ok(2));
    assert_eq!(bench.note(None), [1]);
    assert_eq!(
        bench.join_with(to_write(1, b"third"), None),
        Ok(0),
        "it is its turn"
    );
    bench.note(taken_by(b"1"));
    bench.note(taken_by(b"second"));
    assert_eq!(bench.queues.len(), 2, "nobody waits with those");
    bench.note(taken_by(b"third"));
    assert_eq!(bench.note(None), [2]);
}

#[test]
fn an_extension_takes_nobody_out_and_moves_the_end() {
    let mut bench = Bench::with_waiting(1..3);
    let end = |ms: u64| Some(NodeTime::from_nanos(ms * 1_000_000));
    for ms in [30, 20, 40] {
        let extended = Holder {
            token: b"1",
            until: end(ms),
            is_new: false,
            is_shared: false,
        };
        bench.note(Some(extended));
        assert_eq!((bench.queues.next_due(), bench.queues.len()), (end(ms), 2));
    }
    assert_eq!(bench.advance(Duration::from_millis(39)), [0; 0]);
    assert_eq!(bench.advance(Duration::from_millis(1)), [1]);
}

#[test]
fn the_end_of_a_connection_passes_its_wake_up_on() {
    let mut bench = Bench::with_waiting(1..5);
    bench.queues.leave_all(3);
    assert_eq!(bench.note(None), [1]);
    bench.queues.leave_all(1);
    assert_eq!(bench.queues.next_due(), Some(NodeTime::ZERO));
    assert_eq!(bench.advance(Duration::ZERO), [2]);
    bench.queues.leave_all(4);
    bench.queues.leave_all(2);
    bench.assert_empty();
}

#[test]
fn a_client_with_many_names_is_taken_out_in_steps_and_may_come_again() {
    let mut queues = LockQueues::default();
    let name = |number: usize| QueueName::new(0, number.to_string().as_bytes());
    for number in 0..200 {
        queues
            .join(to_write(1, b"token"), &name(number), Some(HELD), NOW)
            .unwrap();
    }
    queues.leave_all(1);
    assert!(queues.len() > 100 && queues.next_due() == Some(NodeTime::ZERO));
    for number in 0..200 {
        queues
            .join(to_write(1, b"again"), &name(number), Some(HELD), NOW)
            .unwrap();
    }
    while queues.forget_departed(50) == 0 {}
    assert_eq!((queues.len(), queues.next_due()), (200, None));
    let mut woken = Vec::new();
    for number in 0..200 {
        queues.note(&name(number), None, NodeTime::ZERO, &mut woken);
    }
    assert!(woken.len() == 200 && woken.iter().all(|it| &*it.token == b"again"));
}

#[test]
fn all_are_looked_at_after_many_keys_have_changed() {
    let mut bench = Bench::new();
    for number in 0..100_u64 {
        bench.name = QueueName::new(0, &number.to_be_bytes());
        bench.join(number, Some(HELD)).unwrap();
    }
    bench.queues.recheck_all();
    let all: Vec<ClientId> = (0..100).collect();
    assert_eq!(bench.advance(Duration::ZERO), all);
    assert_eq!(bench.advance(Duration::ZERO), [0; 0]);
}

#[test]
fn a_free_lock_for_which_nobody_waits_has_no_queue() {
    let mut bench = Bench::new();
    assert_eq!(bench.join(1, None), Ok(0));
    bench.assert_empty();
    bench.join(1, Some(HELD)).unwrap();
    assert_eq!(bench.note(None), [1]);
    assert_eq!(bench.join(2, None), Ok(2), "another one's turn comes first");
}

#[test]
fn names_tokens_and_waiters_are_bounded() {
    let mut queues = LockQueues::default();
    let mut join = |client: ClientId, name: &[u8], token: &[u8]| {
        let name = QueueName::new(0, name);
        queues.join(to_write(client, token), &name, Some(HELD), NOW)
    };
    for number in 0..NAMES_PER_CLIENT_MAX {
        assert_eq!(join(1, &number.to_le_bytes(), b"t"), Ok(1));
    }
    assert_eq!(join(1, b"one more", b"t"), Err(QueueRefusal::NamesOfClient));
    assert_eq!(join(1, &[0; 8], b"u"), Ok(1), "not another name");
    let long = vec![b'n'; BYTES_MAX / 4];
    for client in 2..5 {
        assert_eq!(
            join(client, &long, b"t"),
            Ok(usize::try_from(client).unwrap() - 1)
        );
    }
    assert_eq!(join(5, &long, b"t"), Err(QueueRefusal::Bytes));
    assert_eq!(join(5, b"short", b"t"), Ok(1));
}

/// A million clients want the lock of one name, or a million names are wanted by as many clients as that takes.
#[test]
fn of_a_million_waiters_those_are_refused_that_the_memory_is_too_small_for() {
    const MILLION: usize = 1 << 20;
    for (names, bytes_each) in [
        (1, WAITER_BYTES + 16),
        (MILLION, WAITER_BYTES + QUEUE_BYTES + 16),
    ] {
        let mut queues = LockQueues::default();
        let name = |number: usize| QueueName::new(0, &(number % names).to_le_bytes());
        let client = |number: usize| match names {
            1 => u64::try_from(number).unwrap(),
            _ => u64::try_from(number / NAMES_PER_CLIENT_MAX).unwrap(),
        };
        let join = |queues: &mut LockQueues, number: usize| {
            let request = to_write(client(number), b"a token");
            queues.join(request, &name(number), Some(HELD), NOW)
        };
        let refused = (0..MILLION).find(|number| join(&mut queues, *number).is_err());
        let count = refused.expect("a million is too many");
        assert_eq!(join(&mut queues, count), Err(QueueRefusal::Bytes));
        assert_eq!(queues.len(), count);
        assert!(queues.taken_bytes() <= BYTES_MAX);
        assert!(
            count.abs_diff(BYTES_MAX / bytes_each) < count / 100,
            "{count}"
        );
        // Who waits already asks again and keeps its place, and a client that leaves makes room.
        let full = vec![b't'; b"a token".len() + BYTES_MAX - queues.taken_bytes()];
        for _ in 0..2 {
            let request = to_write(client(0), &full);
            assert!(queues.join(request, &name(0), Some(HELD), NOW).is_ok());
        }
        assert_eq!(queues.taken_bytes(), BYTES_MAX);
        queues.leave_all(client(0));
        while queues.forget_departed(1_000) == 0 {}
        assert!(join(&mut queues, count).is_ok());
    }
}

#[test]
fn the_names_of_clients_that_have_gone_leave_in_steps() {
    let count = 1 << 16;
    let mut queues = LockQueues::default();
    let name = |number: usize| QueueName::new(0, &number.to_le_bytes());
    let client = |number: usize| u64::try_from(number / NAMES_PER_CLIENT_MAX).unwrap();
    for number in 0..count {
        let request = to_write(client(number), b"t");
        let joined = queues.join(request, &name(number), Some(HELD), NOW);
        assert_eq!(joined, Ok(1));
    }
    for client in 0..=client(count - 1) {
        queues.leave_all(client);
    }
    assert!(queues.len() > count / 2, "at once would take long");
    assert_eq!(
        queues.join(to_write(u64::MAX, b"t"), &name(0), Some(HELD), NOW),
        Ok(1)
    );
    while queues.forget_departed(1_000) == 0 {}
    assert_eq!(queues.len(), 1);
}
