//! What this process does with signals by itself: ignores one, and lets all of them through.
//!
//! No safe interface does either, hence this file. Which signals were ignored before the start can
//! be read from `/proc`, see `signals`.
#![allow(
    unsafe_code,
    reason = "the only way to ignore or unblock a signal is the C library's"
)]

use std::ptr;

/// Ignores SIGTTOU in this process from now on. Children started later inherit it.
///
/// The kernel sends it to a background process that moves the terminal's foreground. Taking the
/// terminal back from a command that has ended is exactly that. Catching the signal would not do:
/// the call would be begun again and again.
pub(crate) fn ignore_terminal_output_stop() {
    // SAFETY: `signal` with SIG_IGN installs no code to run and touches no memory of ours; the
    // signal number is valid, and nothing else in this process sets a disposition for SIGTTOU.
    let _previous = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// Lets every signal reach this thread. A parent may have left some blocked: without SIGCHLD this
/// process would never hear of its command's end.
pub(crate) fn unblock_all() {
    // SAFETY: a zeroed set is valid memory for `sigemptyset`, which initialises it; the mask is
    // read from it, and no old mask is asked for.
    let _cannot_fail = unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
    };
}
