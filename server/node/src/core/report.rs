//! What a start found and what it decided, for people and for machines: the log line, INFO's
//! section `restart` and the metrics all say what is in here.
//!
//! Nothing is decided here; `quorlock_engine::restart` does that.

use std::sync::OnceLock;
use std::time::Duration;

use quorlock_clock::show_duration;
use quorlock_engine::NodeTime;
use quorlock_engine::control::{Durability, Pending};
use quorlock_engine::restart::Stop;
use quorlock_persistence::{LogSummary, Position};

use crate::config::{Config, RestartDelay};
use crate::date::Date;
use crate::past::Past;

/// One start of a node.
#[derive(Debug)]
pub struct StartReport {
    /// How the last incarnation ended.
    pub stop: Stop,
    /// The delay that this start has to wait out.
    pub(crate) pending: Option<Pending>,
    /// Counts the starts, this one included.
    pub incarnation: u64,
    /// Node time when the past was judged.
    pub(crate) began: NodeTime,
    /// The weakest durability of the last incarnation's replies; none if there was none.
    pub(crate) weakest: Option<Durability>,
    /// The TTL bound that the log held, in nanoseconds.
    pub(crate) ttl_bound_ns: u64,
    pub(crate) is_same_boot: bool,
    pub(crate) is_same_directory: bool,
    /// Nothing but zeros followed the last frame.
    pub(crate) is_whole: bool,
    /// `restart-delay` as configured.
    pub(crate) setting: String,
    pub(crate) trusts_fsync: bool,
    /// Position of the last frame that the start has found: one that an earlier run has synced lies behind it only where the
    /// log was put back.
    pub(crate) recovered: Position,
    cap_ms: u128,
    frames: u64,
    /// Nanoseconds from `began` until the node served locks.
    waited_ns: OnceLock<u64>,
}

impl StartReport {
    pub(crate) fn new(past: &Past, incarnation: u64, log: &LogSummary, config: &Config) -> Self {
        let Past {
            history,
            seen,
            verdict,
            ..
        } = past;
        Self {
            stop: verdict.stop,
            pending: verdict.delay,
            incarnation,
            began: seen.now,
            weakest: history.start.map(|_| history.weakest),
            ttl_bound_ns: history.ttl_bound_ns,
            is_same_boot: seen.is_same_boot,
            is_same_directory: seen.is_same_directory,
            is_whole: seen.is_whole,
            setting: config.value_of("restart-delay").unwrap_or_default(),
            trusts_fsync: config.trust_fsync,
            cap_ms: config.restart_delay_max.as_millis(),
            recovered: log.last,
            frames: log.frames,
            waited_ns: OnceLock::new(),
        }
    }

    /// Whether the last stop was clean: `yes`, `no`, `unknown`, or `none` where there was no last
    /// run.
    pub fn cleanness(&self) -> &'static str {
        match self.stop {
            Stop::Clean => "yes",
            Stop::NeverRan => "none",
            Stop::Unknown => "unknown",
            _ => "no",
        }
    }

    /// What made the delay necessary, as a word; `none` without a delay.
    pub fn cause(&self) -> &'static str {
        self.pending.map_or("none", |pending| pending.cause.word())
    }

    /// What made the delay necessary, for people; empty without a delay.
    pub(crate) fn reason(&self) -> &'static str {
        self.pending
            .map_or("", |pending| pending.cause.delay_reason())
    }

    /// The whole delay in nanoseconds, also the part that earlier starts have waited out.
    pub fn length_ns(&self) -> u64 {
        self.pending.map_or(0, |pending| pending.length_ns)
    }

    /// What was left of the delay when this start began, in nanoseconds.
    pub(crate) fn at_start_ns(&self) -> u64 {
        self.left_ns(self.began)
    }

    /// What is left of the delay at `now`, in nanoseconds.
    pub(crate) fn left_ns(&self, now: NodeTime) -> u64 {
        self.pending.map_or(0, |pending| {
            pending.until.as_nanos().saturating_sub(now.as_nanos())
        })
    }

    /// How long the node waited before it served locks, in nanoseconds; none while it waits.
    pub fn waited_ns(&self) -> Option<u64> {
        self.waited_ns.get().copied()
    }

    /// The weakest durability of the last incarnation, as a word.
    pub(crate) fn weakest_word(&self) -> &'static str {
        self.weakest.map_or("none", Durability::name)
    }

    /// When the delay will end by the wall clock, if nobody steps it: for people only.
    pub(crate) fn end_estimate(&self, now: NodeTime, wall_us: u64) -> Option<Date> {
        let left = self.left_ns(now);
        (left > 0).then(|| {
            Date::of(Duration::from_micros(wall_us).saturating_add(Duration::from_nanos(left)))
        })
    }

    /// Says in one line what was found and decided.
    pub(crate) fn announce(&self, id: &str, wall_us: u64, advice: &str) {
        let line = self.line(id, wall_us, advice);
        let is_trouble = self.pending.is_some() || !self.is_harmless();
        if is_trouble {
            tracing::warn!("{line}");
        } else {
            tracing::info!("{line}");
        }
    }

    /// Says what a stop costs a run that logs no keys, for those whose configuration file has brought that along.
    /// `longest_ns` is the delay of `restart-delay-max`.
    pub(crate) fn tell_of_volatile(id: &str, longest_ns: u64, config: &Config) {
        if config.appendonly {
            return;
        }
        let after_crash = match config.restart_delay {
            RestartDelay::Auto | RestartDelay::Always => format!(
                "After a crash the next start serves no locks for up to {}",
                show_nanos(longest_ns)
            ),
            RestartDelay::Fixed(delay) => format!(
                "After a crash the next start serves no locks for {}, and then grants again what may still be held",
                show_duration(delay)
            ),
            RestartDelay::Off => {
                "The next start serves at once and grants again what may still be held".to_owned()
            }
        };
        let uncovered = if config.require_ttl {
            ""
        } else {
            "; keys without a TTL, or with one above restart-delay-max, are gone and no delay covers them"
        };
        tracing::warn!(
            "node {id} runs with appendonly no: no key is in its log, and any stop forgets every lock. \
             {after_crash}{uncovered}. appendonly yes keeps the locks"
        );
    }

    /// Says what a crash costs a run that logs no keys and has recovered some: until when it would
    /// have to be waited out, and how many keys no delay covers.
    pub(crate) fn tell_of_unlogged(id: &str, left_ns: u64, without_ttl: u64) {
        if left_ns > 0 {
            let left = show_nanos(left_ns);
            tracing::warn!(
                "node {id} has recovered keys and runs with appendonly no: without a log a crash \
                 now costs up to {left} of restart delay, until the last of them has ended, as a \
                 clean stop does; start with appendonly yes to keep the keys"
            );
        }
        if without_ttl > 0 {
            tracing::warn!(
                "node {id} has recovered {without_ttl} keys without a TTL and runs with appendonly \
                 no: any stop forgets them, and no restart delay can cover them. If they are locks, \
                 start with appendonly yes"
            );
        }
    }

    /// Notes, once, that the node serves locks; says after how long.
    pub(crate) fn served(&self, id: &str, now: NodeTime) {
        let waited_ns = now.as_nanos().saturating_sub(self.began.as_nanos());
        if self.waited_ns.set(waited_ns).is_err() {
            return;
        }
        let incarnation = self.incarnation;
        if self.pending.is_some() {
            tracing::info!(
                "node {id} serves locks again after {} (incarnation {incarnation}, restart delay because \
                 of: {})",
                show_nanos(waited_ns),
                self.reason()
            );
        } else {
            tracing::info!("node {id} serves locks (incarnation {incarnation})");
        }
    }

    /// A start that needs nobody's attention.
    fn is_harmless(&self) -> bool {
        self.is_new() || matches!(self.stop, Stop::Clean | Stop::NeverServed | Stop::Complete)
    }

    /// The first start of a node, as far as anybody knows. Where the past is unknown and counts,
    /// the start waits.
    fn is_new(&self) -> bool {
        matches!(self.stop, Stop::NeverRan | Stop::Unknown) && self.pending.is_none()
    }

    /// Why a delay is needed that the last stop caused, where what was found does not say it by itself.
    ///
    /// A process that was killed loses nothing that it had written, and a start cannot prove that it was only
    /// killed: the kernel drops written pages whose write-back fails, and a file system that is taken away
    /// takes them along. Both leave zeros, as the end of the log does.
    fn why(&self) -> String {
        let Some(cause) = self.pending.map(|pending| pending.cause) else {
            return String::new();
        };
        let mode = self.weakest_word();
        match self.stop {
            stop if stop != cause => String::new(),
            Stop::Complete => format!(
                ": restart-delay {} asks for a delay although nothing is missing",
                self.setting
            ),
            Stop::Unclean if self.weakest == Some(Durability::Volatile) => {
                ": appendonly no keeps no key in the log".to_owned()
            }
            Stop::Unclean if !self.is_whole => {
                ": the log breaks off, so what was written last may be missing".to_owned()
            }
            Stop::Unclean if !self.is_same_boot => format!(
                ": the machine was started anew, which can lose what appendfsync {mode} had acknowledged and not synced"
            ),
            Stop::Unclean => format!(
                ": appendfsync {mode} acknowledges a write before it is on the disk. That the machine stayed up and the \
                 log looks whole does not prove that all of it is there: a write-back that failed and a file system \
                 that was taken away lose the last writes and leave the same log. With appendfsync always a node \
                 whose process was killed serves at once"
            ),
            _ => String::new(),
        }
    }

    fn line(&self, id: &str, wall_us: u64, advice: &str) -> String {
        let yes_or_no = |is_so| if is_so { "yes" } else { "no" };
        let decision = match self.end_estimate(self.began, wall_us) {
            Some(end) => format!(
                "it is in its restart delay of {} and serves no locks for another {}, because of: {}{}. \
                 That is until about {end} UTC, if nobody sets this machine's clock{advice}",
                show_nanos(self.length_ns()),
                show_nanos(self.at_start_ns()),
                self.reason(),
                self.why(),
            ),
            None => "no restart delay".to_owned(),
        };
        if self.is_new() {
            return format!(
                "node {id}, incarnation {}: new node; {decision}",
                self.incarnation
            );
        }
        format!(
            "node {id}, incarnation {}: last stop: {}; {decision}. [stop {}, clean {}, cause {}, \
             weakest mode {}, TTL bound {} ms, cap {} ms, restart-delay {}, trust-fsync {}, same \
             boot {}, same directory {}, log whole {}, {} frames read]",
            self.incarnation,
            self.stop.reason(),
            self.stop.word(),
            self.cleanness(),
            self.cause(),
            self.weakest_word(),
            self.ttl_bound_ns.div_ceil(1_000_000),
            self.cap_ms,
            self.setting,
            yes_or_no(self.trusts_fsync),
            yes_or_no(self.is_same_boot),
            yes_or_no(self.is_same_directory),
            yes_or_no(self.is_whole),
            self.frames,
        )
    }
}

/// Nanoseconds for people, never less than they are by a millisecond.
fn show_nanos(ns: u64) -> String {
    show_duration(Duration::from_millis(ns.div_ceil(1_000_000)))
}

#[cfg(test)]
mod tests {
    use quorlock_engine::RawTime;
    use quorlock_engine::control::Ceiling;
    use quorlock_engine::restart::{History, RestartVerdict, Seen};
    use quorlock_persistence::{LogOptions, MemoryDisk, Recovery};
    use std::sync::Arc;

    use super::*;

    fn report(pending: Option<Pending>, stop: Stop) -> StartReport {
        let history = History {
            ttl_bound_ns: 10_000_000_000,
            ..History::default()
        };
        let seen = Seen {
            now: NodeTime::from_nanos(5_000_000_000),
            is_same_boot: true,
            is_whole: false,
            is_same_directory: true,
            has_identity: true,
            has_marker: true,
        };
        let verdict = RestartVerdict {
            stop,
            delay: pending,
        };
        let past = Past {
            history,
            seen,
            base: NodeTime::ZERO,
            raw: RawTime::ZERO,
            newest_incarnation: 2,
            verdict,
            ceiling: Ceiling::NONE,
        };
        let disk = Arc::new(MemoryDisk::new());
        let recovery = Recovery::read(disk, &LogOptions::default()).expect("an empty disk");
        let log = LogSummary {
            frames: 7,
            ..recovery.summary().clone()
        };
        StartReport::new(&past, 3, &log, &Config::default())
    }

    #[test]
    fn a_start_that_waits_says_everything_in_one_line() {
        let report = report(
            Some(Pending {
                until: NodeTime::from_nanos(9_210_000_000),
                length_ns: 10_210_000_000,
                cause: Stop::Unclean,
            }),
            Stop::Clean,
        );
        assert_eq!(
            report.line("ab", 1_795_194_000_000_000, "; do this"),
            "node ab, incarnation 3: last stop: clean stop; it is in its restart \
             delay of 10.2 s and serves no locks for another 4.2 s, because of: unclean stop. \
             That is until about 20 Nov 2026 17:00:04.210 UTC, if nobody sets this machine's clock; do \
             this. [stop clean, clean yes, cause unclean, weakest mode none, TTL bound 10000 ms, cap 60000 ms, restart-delay auto, \
             trust-fsync no, same boot yes, same directory yes, log whole no, 7 frames read]"
        );
        assert_eq!(report.waited_ns(), None);
        report.served("ab", NodeTime::from_nanos(9_300_000_000));
        report.served("ab", NodeTime::from_nanos(19_300_000_000));
        assert_eq!(report.waited_ns(), Some(4_300_000_000), "the first counts");
    }

    #[test]
    fn a_start_that_waits_says_why_where_what_it_found_looks_as_if_nothing_was_missing() {
        use Durability::{Always, Everysec, No, Volatile};
        let unproven = "That the machine stayed up and the log looks whole does not prove that all of it is there";
        let pending = Pending {
            until: NodeTime::from_nanos(9_210_000_000),
            length_ns: 10_210_000_000,
            cause: Stop::Unclean,
        };
        let says = |stop, cause, (weakest, is_whole, is_same_boot), expected: &str| {
            let report = StartReport {
                weakest: Some(weakest),
                is_whole,
                is_same_boot,
                ..report(Some(Pending { cause, ..pending }), stop)
            };
            let line = report.line("ab", 1_795_194_000_000_000, "");
            assert!(line.contains(expected), "{expected}\n{line}");
            let is_killed = line.contains("acknowledges a write");
            assert_eq!(line.contains(unproven), is_killed, "{line}");
        };
        let unclean = |found, expected| says(Stop::Unclean, Stop::Unclean, found, expected);
        unclean((Everysec, true, true), unproven);
        unclean((No, true, true), "unclean stop: appendfsync no acknow");
        unclean((Everysec, false, true), "unclean stop: the log breaks off");
        unclean((Everysec, true, false), ": the machine was started anew");
        unclean((Volatile, true, true), ": appendonly no keeps no key");
        let complete = (Always, true, true);
        let asked = ": restart-delay auto asks for a delay although";
        says(Stop::Complete, Stop::Complete, complete, asked);
        // What an earlier stop made necessary is not this one's to explain.
        let plain = "unclean stop. That is until";
        says(Stop::Clean, Stop::Unclean, (Everysec, true, true), plain);
        let moved = "restored or moved. That is until";
        says(Stop::Moved, Stop::Moved, (Everysec, true, true), moved);
    }

    #[test]
    fn a_start_that_does_not_wait_says_so() {
        let line = report(None, Stop::PowerLoss).line("ab", 0, "");
        assert!(
            line.starts_with("node ab, incarnation 3: last stop: machine went down,"),
            "{line}"
        );
        assert!(
            line.contains("; no restart delay. [stop power-loss, clean no, cause none,"),
            "{line}"
        );
        assert!(!report(None, Stop::PowerLoss).is_harmless());
        assert!(report(None, Stop::Clean).is_harmless());
    }

    #[test]
    fn the_first_start_of_a_node_is_no_warning() {
        for stop in [Stop::NeverRan, Stop::Unknown] {
            let report = report(None, stop);
            let line = report.line("ab", 0, "");
            assert_eq!(line, "node ab, incarnation 3: new node; no restart delay");
            assert!(report.is_harmless());
        }
        assert!(!report(None, Stop::Emptied).is_harmless());
    }
}
