//! What a start has found and decided, and what does not change before the next one.

use std::net::SocketAddr;

use quorlock_engine::control::Start;
use quorlock_engine::restart::Verdict;

use crate::core::report::StartReport;
use crate::past::Identity;

/// What is known of a node for as long as it runs.
#[derive(Debug)]
pub(crate) struct StartFacts {
    pub(crate) identity: Identity,
    pub(crate) start: Start,
    pub(crate) verdict: Verdict,
    pub(crate) report: StartReport,
    /// The first port it listens on; 0 where there is none.
    pub(crate) port: u16,
    /// Where `/metrics` is, if anywhere.
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) workers: usize,
    pub(crate) started_raw_ns: u64,
}
