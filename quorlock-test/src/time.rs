//! The time of a cluster: one for its nodes, its clients and its own waits. It moves when it is told to.
//!
//! Invariant: clients' clocks move before the nodes', so that no client believes a lock longer than its nodes do. Once the
//! cluster is gone its clients go on by the machine's time: what they still owe to the nodes ends soon.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use quorlock_server::clock::{Boot, BootTime, ClientInstant, Clock, RawTime, SettableClock};
use tokio::sync::{oneshot, watch};

use crate::stopwatch::Stopwatch;

/// The time of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Time {
    state: Mutex<State>,
    hands: Arc<Hands>,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    sleepers: Vec<(Duration, oneshot::Sender<()>)>,
    nodes: Vec<Arc<SettableClock>>,
    clients: Vec<Arc<Seat>>,
}

/// What all clients' clocks show.
#[derive(Debug, Default)]
struct Hands {
    clock: SettableClock,
    /// When the cluster ended.
    over: OnceLock<Stopwatch>,
}

/// What is known of a client's thread.
#[derive(Debug)]
pub(crate) struct Seat {
    asleep: Mutex<(Option<ClientInstant>, Option<Waker>)>,
    /// How often it went to sleep.
    passes: watch::Sender<u64>,
}

/// The clock of one client.
struct ClientClock {
    hands: Arc<Hands>,
    seat: Arc<Seat>,
}

impl Time {
    /// Since the cluster began.
    pub(crate) fn now(&self) -> Duration {
        self.lock().now
    }

    pub(crate) fn add_node(&self, clock: Arc<SettableClock>) {
        self.lock().nodes.push(clock);
    }

    pub(crate) fn add_client(&self) -> Arc<dyn Clock> {
        let seat = Arc::new(Seat {
            asleep: Mutex::default(),
            passes: watch::Sender::new(0),
        });
        self.lock().clients.push(Arc::clone(&seat));
        let hands = Arc::clone(&self.hands);
        Arc::new(ClientClock { hands, seat })
    }

    /// The threads of the clients that can still be there.
    pub(crate) fn clients(&self) -> Vec<Arc<Seat>> {
        let mut state = self.lock();
        // One is this list's: the client, its guards and its thread are gone.
        state.clients.retain(|seat| Arc::strong_count(seat) > 1);
        state.clients.clone()
    }

    /// Whether a client has work that was due before now.
    pub(crate) fn is_client_due(&self) -> bool {
        let now = self.hands.clock.now();
        let clients = self.clients();
        let mut deadlines = clients.iter().filter_map(|seat| seat.deadline());
        deadlines.any(|deadline| now.has_reached(deadline))
    }

    /// When a client or a sleeper wants to go on.
    pub(crate) fn next(&self) -> Option<Duration> {
        let client_now = self.hands.clock.now();
        let clients = self.clients();
        let mut state = self.lock();
        state.sleepers.retain(|(_, sleeper)| !sleeper.is_closed());
        let sleepers = state.sleepers.iter().map(|(at, _)| *at);
        let deadlines = clients.iter().filter_map(|seat| seat.deadline());
        let deadlines = deadlines.map(|deadline| state.now + client_now.until(deadline));
        sleepers.chain(deadlines).min()
    }

    /// Resolves at this time of the cluster.
    pub(crate) fn sleep_until(&self, at: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (sleeper, woken) = oneshot::channel();
        let mut state = self.lock();
        let is_due = state.now >= at;
        if !is_due {
            state.sleepers.push((at, sleeper));
        }
        drop(state);
        async move {
            if !is_due {
                // A cluster that is gone lets nobody sleep.
                let _gone = woken.await;
            }
        }
    }

    /// Moves all clocks on to this time, and wakes everything that waits for it.
    pub(crate) fn move_to(&self, at: Duration) {
        let mut state = self.lock();
        let by = at.min(TIME_MAX).saturating_sub(state.now);
        if by.is_zero() {
            return;
        }
        state.now += by;
        self.hands.clock.advance(by);
        for clock in &state.nodes {
            clock.advance(by);
        }
        let now = state.now;
        let is_due = |(at, _): &(Duration, oneshot::Sender<()>)| *at <= now;
        let (due, later) = std::mem::take(&mut state.sleepers)
            .into_iter()
            .partition::<Vec<_>, _>(is_due);
        state.sleepers = later;
        drop(state);
        for (_, sleeper) in due {
            let _gone = sleeper.send(());
        }
        self.wake_clients();
    }

    pub(crate) fn wake_clients(&self) {
        self.clients().iter().for_each(|seat| seat.wake());
    }

    /// The cluster has ended: its clients' locks are lost, and their threads go on by the machine's time.
    pub(crate) fn end(&self) {
        self.hands.clock.advance(AFTER_END);
        let _again = self.hands.over.set(Stopwatch::start());
        self.wake_clients();
        self.lock().sleepers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Lets the client's thread look at its connections, calls and deadlines, unless it has ended. Resolves once it has.
    pub(crate) fn pass(&self) -> impl Future<Output = ()> {
        let mut passes = self.passes.subscribe();
        let before = *passes.borrow_and_update();
        let is_given_up = self.is_given_up();
        self.wake();
        async move {
            if is_given_up {
                return;
            }
            let passed = passes.wait_for(|passes| *passes > before);
            let passed = tokio::time::timeout(PASS_MAX, passed).await;
            if passed.is_err() {
                self.give_up(before);
            }
        }
    }

    /// Nothing is awaited any more of a thread that has ended. One that was late puts its deadline and its waker back.
    fn give_up(&self, before: u64) {
        let mut asleep = self.asleep();
        if *self.passes.borrow() == before {
            *asleep = (None, None);
        }
    }

    /// Whether its thread slept once, and was given up since then.
    fn is_given_up(&self) -> bool {
        let asleep = self.asleep();
        asleep.1.is_none() && *self.passes.borrow() > 0
    }

    fn wake(&self) {
        let waker = self.asleep().1.clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    fn deadline(&self) -> Option<ClientInstant> {
        self.asleep().0
    }

    fn asleep(&self) -> MutexGuard<'_, (Option<ClientInstant>, Option<Waker>)> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ClientClock {
    fn now(&self) -> ClientInstant {
        let now = self.hands.clock.now();
        let since_end = self.hands.over.get().map(Stopwatch::elapsed);
        since_end.map_or(now, |since_end| now.after(since_end))
    }

    fn raw(&self) -> RawTime {
        self.hands.clock.raw()
    }

    fn boottime(&self) -> BootTime {
        self.hands.clock.boottime()
    }

    fn wall_us(&self) -> u64 {
        self.hands.clock.wall_us()
    }

    fn boot(&self) -> Boot {
        self.hands.clock.boot()
    }

    fn sleep_towards(&self, deadline: Option<ClientInstant>, waker: &Waker) -> bool {
        let mut asleep = self.seat.asleep();
        *asleep = (deadline, Some(waker.clone()));
        self.seat.passes.send_modify(|passes| *passes += 1);
        drop(asleep);
        self.hands.over.get().is_none()
    }
}

impl fmt::Debug for ClientClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClientClock({:?})", self.now())
    }
}

/// Clocks count at most 584 years, in nanoseconds.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Longer than any lock.
const AFTER_END: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

/// A thread that does not look within this time has ended, or is kept from running. Each client that has ended is waited for
/// this long, once.
const PASS_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::pin::pin;
    use std::task::{Context, Poll};

    use super::*;
    use crate::TestCluster;

    fn is_waited_for(seat: &Seat) -> bool {
        pin!(seat.pass()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
    }

    #[tokio::test]
    async fn a_thread_that_does_not_look_is_waited_for_once_until_it_sleeps_again() {
        let time = Time::default();
        let clock = time.add_client();
        let seat = Arc::clone(&time.clients()[0]);
        assert!(is_waited_for(&seat), "a new client's thread is to begin");
        for _ in 0..2 {
            clock.sleep_towards(Some(clock.now()), Waker::noop());
            assert!(is_waited_for(&seat) && time.is_client_due());
            seat.pass().await;
            assert!(!is_waited_for(&seat) && !time.is_client_due());
        }
    }

    #[tokio::test]
    async fn a_lease_whose_client_has_ended_holds_no_advance_up() {
        let cluster = TestCluster::three().await;
        let ttl = Duration::from_secs(10);
        let redlock = cluster.client();
        let lease = redlock.lock("job").ttl(ttl).acquire_lease().await.unwrap();
        drop(redlock);
        cluster.advance(ttl).await;
        assert!(!lease.is_valid());
        let clients = cluster.cluster().time.clients();
        assert_eq!(clients.len(), 1, "the lease has the clock");
        assert!(!is_waited_for(&clients[0]));
    }
}
