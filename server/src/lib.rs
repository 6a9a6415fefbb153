//! A Quorlock node: a small lock server that speaks Redis's protocol, embeddable in a process.
//!
//! [`Node`] is the way in. What decides is in `quorlock-node`, the rules of keys, scripts and time
//! in `quorlock-engine`, the log in `quorlock-persistence`; this crate joins them to sockets, threads and clocks.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Quorlock runs on Linux only for now: it relies on CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME and \
     Linux's rules for fdatasync. The client crate, quorlock-client, has the same limit."
);

/// Its example is compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod append_only;
pub mod clock;
pub mod config;
#[cfg(all(fuzzing, feature = "tls"))]
pub mod fuzzing;
#[cfg(all(test, feature = "shuttle"))]
mod hand_over_tests;
pub mod inspection;
#[cfg(feature = "http")]
mod metrics;
#[cfg(not(feature = "http"))]
#[path = "no_metrics.rs"]
mod metrics;
mod node;
mod random;
mod runtime;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

#[cfg(feature = "http")]
#[doc(hidden)]
pub use metrics::listener::serve_http;
pub use node::{
    CallError, Failure, Node, NodeBuilder, NodeStream, NotServing, RunState, StartError,
    StateWatch, Value, adopt, init, mark_restored, release, require_directory,
};
pub use quorlock_engine::{CommandGuard, ErrorReply, Purpose, REDIS_VERSION, Reply};
pub use quorlock_node::core::upstream::{
    PendingAnswer, Publish, ReportHistogram, ReportMetric, ReportSection, Upstream, UpstreamCaller,
    UpstreamReport, UpstreamRequest, UpstreamSubscription,
};
pub use quorlock_node::past::{FrameError, NodeId, Receipt, RelocationRefusal, is_node_file};
pub use quorlock_node::start::{ReleasedNode, RelocationError};
pub use quorlock_node::{Date, show_duration};
pub use quorlock_persistence::{
    DirectoryEntry, Disk, DiskError, DiskFault, DiskLock, DiskOperation, Fate, File, FileId,
    FileOrigin, MemoryDisk, OpenError, Point, Position, PowerLoss, Presence, RealDisk,
    RecoveryError, Sector, SyncError, Unsynced, Volume, WriteError,
};
pub use runtime::heartbeat::Heartbeat;
