//! A Redlock client for Quorlock, Redis and Valkey nodes.
//!
//! A lock is acquired on a majority of independent nodes, renewed while its guard lives, and
//! released everywhere. The client knows until when the lock is certainly valid, and tells when
//! it is lost before anybody else can have it.
//!
//! ```no_run
//! use std::time::Duration;
//! use quorlock_client::{Redlock, Wait};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::builder()
//!     .nodes((7001..=7005).map(|port| format!("redis://127.0.0.1:{port}")))
//!     .build()?;
//! let guard = redlock
//!     .lock("backup")
//!     .ttl(Duration::from_secs(30))
//!     .wait(Wait::For(Duration::from_secs(5)))
//!     .acquire()
//!     .await?;
//! guard.run(async { /* the work; dropped if the lock is lost */ }).await?;
//! guard.release().await;
//! # Ok(())
//! # }
//! ```
//!
//! The rules are in [`acquisition`] and [`holding`]: state machines that take the time and an
//! event and return actions. Everything that touches the world runs on one thread of the client.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "quorlock-client needs Linux: its clocks are CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW"
);

pub mod acquisition;
mod address;
mod answer;
mod clock;
mod guard;
pub mod holding;
mod lock;
mod orders;
mod outcome;
mod probe;
mod redlock;
mod reply;
mod request;
mod settings;
mod token;
mod votes;
mod worker;

pub use address::{AddressError, NodeAddress};
pub use clock::{ClientInstant, Clock, ManualClock, SystemClock};
pub use guard::{Guard, Lost};
pub use lock::{Lease, LockRequest, Wait};
pub use outcome::{
    AcquireError, BuildError, Cause, ExtendError, Loss, NodeAnswer, NodeRelease, NodeReport,
    Release,
};
pub use probe::{NodeState, NodeStatus};
pub use redlock::{Builder, Redlock};
pub use request::{EXTEND_SCRIPT, RELEASE_SCRIPT};
pub use settings::{Drift, RetryDelay};
pub use token::Token;
pub use votes::{Identity, NODES_MAX, NodeIndex, majority};
