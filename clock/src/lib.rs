//! Where nodes and clients read their time: one trait for both, and a clock that tests set.
//!
//! Invariant: nothing here asks the machine for the time; `SystemClock` of `quorlock-system-clock` does. What decides in a node
//! and in a client gets readings as arguments. Both show durations and take hashes that are kept in one way, which is here as well.

mod fnv;
mod hand;
mod instant;
mod length;
mod reading;
mod settable;

use std::fmt;
use std::pin::Pin;
use std::task::Waker;

pub use fnv::fnv;
pub use instant::ClientInstant;
pub use length::{saturated, saturated_nanos, show_duration};
pub use reading::{Boot, BootTime, RawTime};
pub use settable::SettableClock;

/// The clocks of one machine, for the nodes and the clients that run on it.
///
/// `SystemClock` has the machine's own. [`SettableClock`] is the twin for tests. A clock of your own asks one of the two.
///
/// # Example
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use quorlock_client::{Boot, BootTime, ClientInstant, Clock, RawTime, SystemClock};
///
/// /// Counts how often a client reads it.
/// #[derive(Debug, Default)]
/// struct Counting(AtomicU64);
///
/// impl Clock for Counting {
///     fn now(&self) -> ClientInstant {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         SystemClock.now()
///     }
///     fn raw(&self) -> RawTime {
///         SystemClock.raw()
///     }
///     fn boottime(&self) -> BootTime {
///         SystemClock.boottime()
///     }
///     fn wall_us(&self) -> u64 {
///         SystemClock.wall_us()
///     }
///     fn boot(&self) -> Boot {
///         SystemClock.boot()
///     }
/// }
/// let before = SystemClock.now();
/// assert!(Counting::default().now().has_reached(before));
/// ```
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present moment as a client measures it, read now and never cached: time since an earlier one is never too short.
    fn now(&self) -> ClientInstant;
    /// `CLOCK_MONOTONIC_RAW`: not steered, stops while the machine is suspended. Node time is based on it.
    fn raw(&self) -> RawTime;
    /// Measures how long a piece of work takes, for statistics alone: a clock of a test need not have it.
    fn stopwatch(&self) -> RawTime {
        RawTime::ZERO
    }
    /// `CLOCK_BOOTTIME`: goes on while the machine is suspended.
    fn boottime(&self) -> BootTime;
    /// The wall clock, in microseconds since the epoch.
    fn wall_us(&self) -> u64;
    /// Which boot, and which time namespace, these readings belong to.
    fn boot(&self) -> Boot;
    /// Resolves when [`Clock::raw`] has about this reading: a timer for a node's maintenance, not for
    /// validity. To be called with a reading that was taken before what it depends on.
    ///
    /// `None` where time passes by itself: then the node's own timer waits.
    fn pause_until(&self, _raw: RawTime) -> Pause<'_> {
        None
    }
    /// Has this called each time a test has moved the clock: a node that sleeps by the machine's time looks again.
    /// A clock that time alone moves never calls it.
    fn when_moved(&self, _look_again: LookAgain) {}
    /// Called whenever a client has done what it had found to do, with the deadline that it sleeps towards, if it has one. More
    /// may have come meanwhile: then it does not sleep yet.
    ///
    /// A clock that only a test moves keeps the waker, wakes it at each move, and returns whether it does: then the client sets
    /// no timer. Where time passes by itself, it does nothing.
    #[doc(hidden)]
    fn sleep_towards(&self, _deadline: Option<ClientInstant>, _waker: &Waker) -> bool {
        false
    }
}

/// What [`Clock::when_moved`] calls. It returns whether a node still looks; else it is dropped.
pub type LookAgain = Box<dyn Fn() -> bool + Send + Sync>;

/// What [`Clock::pause_until`] returns.
pub type Pause<'a> = Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>;
