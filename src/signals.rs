//! The signals that somebody sends to a command while it waits for a lock, while it holds one, and during an experiment.
//!
//! They are listened to from before the lock is asked for until the end, by one listener, so that
//! none is lost between the wait and the start of what the lock protects. A signal that was
//! ignored when this process was started stays ignored: `nohup` and shells that start background
//! jobs mean the command too.

use std::fs;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit_code::Failure;
use crate::signal_state;

/// Signals that are caught, and not yet looked at.
pub(crate) struct CaughtSignals {
    streams: Vec<(Signal, Stream)>,
    /// A bit for each signal that was ignored when this process was started.
    ignored: u64,
}

impl CaughtSignals {
    /// Catches the signals that interrupt a wait, from now on.
    pub(crate) fn that_interrupt() -> io::Result<Self> {
        signal_state::unblock_all();
        Self::caught(ignored_signals())
    }

    /// The same for what runs until it is ended, also where they were ignored; and the others that would end it without a
    /// chance to set back a terminal.
    pub(crate) fn that_end() -> io::Result<Self> {
        let mut signals = Self::caught(0)?;
        signals.add(&END)?;
        Ok(signals)
    }

    fn caught(ignored: u64) -> io::Result<Self> {
        let streams = Vec::new();
        let mut signals = Self { streams, ignored };
        signals.add(&INTERRUPT)?;
        Ok(signals)
    }

    /// The same, for a command that has not asked for its lock yet.
    pub(crate) fn before_the_lock() -> Result<Self, Failure> {
        Self::that_interrupt().map_err(|error| {
            Failure::failed(format!(
                "cannot listen for signals: {error}; nothing was taken"
            ))
        })
    }

    /// Catches these signals too.
    pub(crate) fn add(&mut self, signals: &[Signal]) -> io::Result<()> {
        for wanted in signals {
            if self.ignored >> (wanted.as_raw() - 1) & 1 == 1 {
                continue;
            }
            let stream = signal(SignalKind::from_raw(wanted.as_raw()))?;
            self.streams.push((*wanted, stream));
        }
        Ok(())
    }

    /// The next signal somebody sent to this process. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// From the process's own entry in `/proc`. Where there is none, no signal counts as ignored.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

const INTERRUPT: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
const END: [Signal; 4] = [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM];
