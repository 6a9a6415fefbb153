//! The signals that somebody sends to a command while it waits for a lock and while it holds one.
//!
//! They are listened to from before the lock is asked for until the end, by one listener, so that
//! none is lost between the wait and the start of what the lock protects.

use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit_code::Failure;

/// Signals that are caught, and not yet looked at.
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Catches the signals that break a wait off, from now on.
    pub(crate) fn that_interrupt() -> Result<Self, Failure> {
        let mut signals = Self {
            streams: Vec::new(),
        };
        signals.add(&BREAK_OFF).map_err(|error| {
            Failure::failed(format!(
                "cannot listen for signals: {error}; nothing was taken"
            ))
        })?;
        Ok(signals)
    }

    /// Catches these signals too.
    pub(crate) fn add(&mut self, signals: &[Signal]) -> io::Result<()> {
        for wanted in signals {
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

const BREAK_OFF: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
