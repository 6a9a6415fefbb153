//! A Redlock client for Quorlock, Redis and Valkey nodes.
//!
//! A lock is acquired on a majority of independent nodes, renewed while its guard lives, and
//! released everywhere. The client knows until when the lock is certainly valid, and tells when
//! it is lost before anybody else can have it.
//!
//! ```
//! use std::time::Duration;
//! use quorlock_client::{AcquireError, Redlock, Wait};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut nodes = Vec::new();
//! # for _ in 0..3 {
//! #     nodes.push(quorlock_server::Node::builder().ephemeral().start().await?);
//! # }
//! # let addresses = nodes.iter().map(|node| node.url());
//! let redlock = Redlock::builder().nodes(addresses).build()?; // redis://host:port, ...
//! let lock = redlock
//!     .lock("backup")
//!     .ttl(Duration::from_secs(30))
//!     .wait(Wait::For(Duration::from_secs(5)));
//! match lock.acquire().await {
//!     Ok(guard) => {
//!         guard.run(async { /* the work; dropped if the lock is lost */ }).await?;
//!         assert!(!guard.release().await.was_lost());
//!     }
//!     Err(AcquireError::Busy { .. }) => println!("somebody else does it"),
//!     Err(error) => eprintln!("{error}"), // says what happened, and what to do
//! }
//! redlock.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Without a runtime: [`blocking`]. All times are [`Duration`](std::time::Duration)s; nodes count
//! in milliseconds.
//!
//! The rules are state machines that take the time and an event and return actions, in a crate of their own
//! (`quorlock-client-rules`). This crate carries the actions out, on one thread for all clients of a process, so it does not
//! depend on the program's runtime.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "quorlock-client needs Linux: its clocks are CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW"
);

/// Its example is compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod blocking;
mod calls;
mod election;
mod guard;
mod lease;
mod lease_watch;
mod limits;
mod lock;
mod lock_event;
mod on_wait;
mod opaque;
mod program_name;
mod redlock;
mod runtime;
mod sharded;
mod shared;
mod tls_options;

#[doc(hidden)]
pub use calls::{Hearing, LockWatch};
pub use election::{Election, Leadership, Observer};
pub use guard::Guard;
pub use lease::Lease;
pub use lease_watch::LeaseWatch;
pub use lock::LockRequest;
pub use lock_event::LockEvent;
#[doc(hidden)]
pub use quorlock_client_rules::owner_text;
#[doc(hidden)]
pub use quorlock_client_rules::{
    ACQUIRE_ALL_SCRIPT, EXTEND_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, RELEASE_SCRIPT,
};
#[doc(inline)]
pub use quorlock_client_rules::{
    address::AddressError,
    leader::{Leader, Observed},
    outcome::{
        AcquireError, BuildError, Cause, ConnectionError, ExtendError, FenceState, Loss,
        NodeAnswer, NodeFences, NodeRelease, NodeReport, Release, TooShort,
    },
    probe::{NodeState, NodeStatus},
    settings::{Drift, RetryDelay, VotesBy},
    shards::ShardError,
    statistics::{NodeStatistics, Statistics},
    token::Token,
    votes::Identity,
    wait::{Wait, Waiting},
};
#[doc(inline)]
pub use quorlock_clock::{Boot, BootTime, ClientInstant, Clock, RawTime, SettableClock};
#[doc(inline)]
pub use quorlock_system_clock::SystemClock;
pub use redlock::{Redlock, RedlockBuilder};
#[doc(hidden)]
pub use runtime::dialer::Dialer;
pub use sharded::ShardedRedlock;
pub use tls_options::TlsOptions;
