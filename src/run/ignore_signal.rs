//! Ignoring SIGTTOU, which the kernel sends to a background process that moves the foreground.
//!
//! Taking the terminal back from a command that has ended is exactly that. Catching the signal
//! would not do: the call would be begun again and again. No safe interface sets a signal to be
//! ignored, hence this file.
#![allow(
    unsafe_code,
    reason = "the only way to ignore a signal is the C library's"
)]

/// Ignores SIGTTOU in this process from now on. Children started later inherit it.
pub(super) fn ignore_terminal_output_stop() {
    // SAFETY: `signal` with SIG_IGN installs no code to run and touches no memory of ours; the
    // signal number is valid, and nothing else in this process sets a disposition for SIGTTOU.
    let _previous = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}
