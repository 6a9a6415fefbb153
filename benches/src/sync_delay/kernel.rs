//! The kernel's interface to system calls that wait for a decision: seccomp user notification.
//!
//! No safe interface installs a filter with a listener or reads from one, hence this file. It only
//! passes structures on; which calls are meant and what is answered is decided elsewhere.
#![allow(
    unsafe_code,
    reason = "no safe interface installs a seccomp filter with a listener"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

const GROUP: u8 = b'!';
const RECEIVE: Opcode = opcode::read_write::<libc::seccomp_notif>(GROUP, 0);
const SEND: Opcode = opcode::read_write::<libc::seccomp_notif_resp>(GROUP, 1);

/// Where the notifications of all processes arrive that the filtered thread starts.
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// Filters the system calls of this thread, and of what it starts, from now on.
    ///
    /// A notified call waits until it is answered, even through signals other than deadly ones, so
    /// that no call is delayed twice.
    pub(super) fn install(program: &[libc::sock_filter]) -> io::Result<Self> {
        rustix::thread::set_no_new_privs(true)?;
        let program = libc::sock_fprog {
            len: u16::try_from(program.len()).map_err(io::Error::other)?,
            // The kernel only reads it; the type of the C library knows no const.
            filter: program.as_ptr().cast_mut(),
        };
        let flags =
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        // SAFETY: `program` points to `len` instructions that live through the call, which copies
        // and checks them.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        let descriptor = RawFd::try_from(descriptor).map_err(io::Error::other)?;
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor, and nothing else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// The number of the next call that waits. To be called when the listener is readable; an error of the kind
    /// not found means that the caller has died meanwhile.
    pub(super) fn receive(&self) -> io::Result<u64> {
        // SAFETY: the structure consists of integers, for which zero is a value; the kernel
        // demands zeroes.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the opcode is the kernel's for this structure.
        unsafe { ioctl(&self.0, Updater::<RECEIVE, _>::new(&mut notification)) }?;
        Ok(notification.id)
    }

    /// Lets the call with this number go on as it was meant. An error means that the caller has died meanwhile.
    pub(super) fn resume(&self, id: u64) -> io::Result<()> {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE);
        let mut response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: flags.map_err(io::Error::other)?,
        };
        // SAFETY: the opcode is the kernel's for this structure.
        unsafe { ioctl(&self.0, Updater::<SEND, _>::new(&mut response)) }?;
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until a file's pages are written: no safe interface of the standard library or rustix does.
#[cfg(test)]
pub(super) fn sync_file_range(file: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the call takes numbers only, and the descriptor is open.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
