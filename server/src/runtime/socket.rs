//! A client's socket, of TCP or of this machine, non-blocking: one system call for each call.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use quorlock_node::event_loop::stream::{Stream, StreamError};

/// A client's socket.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) OwnedFd);

impl Stream for Socket {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        uninterrupted(|| recv(&self.0, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        uninterrupted(|| send(&self.0, bytes, SendFlags::NOSIGNAL))
    }

    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        let mut no_descriptors = SendAncillaryBuffer::default();
        uninterrupted(|| sendmsg(&self.0, runs, &mut no_descriptors, SendFlags::NOSIGNAL))
    }
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, StreamError> {
    loop {
        return match call() {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Err(StreamError::WouldBlock),
            Err(_) => Err(StreamError::Broken),
        };
    }
}
