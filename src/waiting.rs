//! Waiting for a lock in a way that people can follow and break off.
//!
//! A signal drops the attempt; the client then releases what it took on single nodes. On a
//! terminal the wait is announced once it is long enough to be noticed.

use std::ffi::OsStr;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit_code::{Failure, SIGNAL_BASE};
use crate::output::remark;

/// Waits for `attempt` to end, or for somebody to break it off.
pub(crate) async fn acquiring<T>(
    name: &OsStr,
    attempt: impl Future<Output = T>,
) -> Result<T, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut notice = std::pin::pin!(tokio::time::sleep(NOTICE_AFTER));
    let mut is_announced = !io::stderr().is_terminal();
    let mut attempt = std::pin::pin!(attempt);
    let number = loop {
        tokio::select! {
            outcome = &mut attempt => return Ok(outcome),
            _ = interrupt.recv() => break SignalKind::interrupt(),
            _ = terminate.recv() => break SignalKind::terminate(),
            _ = hangup.recv() => break SignalKind::hangup(),
            () = &mut notice, if !is_announced => {
                is_announced = true;
                remark(format_args!("waiting for '{}'; Ctrl-C gives up", name.display()));
            }
        }
    };
    let code = u8::try_from(number.as_raw_value())
        .unwrap_or(0)
        .saturating_add(SIGNAL_BASE);
    let shown = name.display();
    Err(Failure::new(
        code,
        format!("broken off while waiting for '{shown}'; it is not held"),
    ))
}

const NOTICE_AFTER: Duration = Duration::from_secs(1);
