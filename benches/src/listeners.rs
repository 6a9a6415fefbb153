//! Clients that listen to a channel and throw away what comes, each in a thread of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;

use crate::failure::{Doing, Failure};
use crate::server::Server;

/// They listen until this is dropped.
pub(crate) struct Listeners(Vec<(TcpStream, JoinHandle<()>)>);

impl Listeners {
    pub(crate) fn start(server: &Server, channel: &str, count: u32) -> Result<Self, Failure> {
        let mut listeners = Vec::new();
        for _ in 0..count {
            let mut stream = server.connect()?;
            stream
                .write_all(&quorlock_testkit::request(&["SUBSCRIBE", channel]))
                .doing("subscribing")?;
            let mut first = [0; 1];
            stream.read_exact(&mut first).doing("subscribing")?;
            let mut reader = stream.try_clone().doing("subscribing")?;
            let thread = std::thread::spawn(move || {
                let mut buffer = [0; 64 * 1024];
                while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
            listeners.push((stream, thread));
        }
        Ok(Self(listeners))
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for (stream, thread) in self.0.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}
