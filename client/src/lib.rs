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
//! The rules are in [`rules`]: state machines that take the time and an
//! event and return actions. Everything that touches the world runs on one thread of the client.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "quorlock-client needs Linux: its clocks are CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW"
);

mod address;
mod answer;
mod clock;
mod guard;
mod lease;
mod lock;
mod name;
mod outcome;
mod probe;
mod protocol;
mod redlock;
#[cfg(not(feature = "simulation"))]
mod rules;
#[cfg(feature = "simulation")]
pub mod rules;
mod runtime;
mod settings;
mod shared;
mod token;
mod votes;
mod wait;

pub use address::{AddressError, NodeAddress};
pub use clock::{ClientInstant, Clock, ManualClock, SystemClock};
pub use guard::{Guard, Lost};
pub use lease::Lease;
pub use lock::LockRequest;
pub use outcome::{
    AcquireError, BuildError, Cause, ExtendError, Loss, NodeAnswer, NodeRelease, NodeReport,
    Release,
};
pub use probe::{NodeState, NodeStatus};
pub use protocol::request::{EXTEND_SCRIPT, RELEASE_SCRIPT};
pub use redlock::{Builder, Redlock};
pub use settings::{Drift, RetryDelay};
pub use token::Token;
pub use votes::{Identity, NODES_MAX, NodeIndex, majority};
pub use wait::Wait;
