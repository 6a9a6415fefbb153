//! One client's connection that speaks TLS, on a stream that carries its records.
//!
//! Nothing here waits. Bytes count as sent once the stream below has taken their records whole: the limits on replies hold as
//! for a plain connection, and nothing is lost when it closes.
//!
//! Invariant: what is kept is bounded. Before the handshake is complete that is what the client may send for it; afterwards one
//! record in each direction, beside one that has not arrived whole.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use quorlock_node::core::clients::Address;
use quorlock_node::event_loop::stream::{Stream, StreamError};
use rustls::ServerConnection;
use smallvec::SmallVec;

use crate::tls::failures::Failures;

/// A client's connection.
pub(crate) struct TlsStream<S: Stream> {
    socket: S,
    connection: ServerConnection,
    client: Address,
    failures: Arc<Failures>,
    /// Bytes of replies whose records were made, and have not left whole.
    in_flight: usize,
    /// What the client has sent for the handshake.
    handshake_bytes: usize,
    /// The client sends no more, or what it sent is no TLS.
    end: Option<Ended>,
}

/// How a client's bytes end, behind those that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    InOrder,
    Broken,
}

impl<S: Stream> TlsStream<S> {
    /// A connection whose handshake begins.
    pub(super) fn new(
        socket: S,
        connection: ServerConnection,
        client: Address,
        failures: Arc<Failures>,
    ) -> Self {
        Self {
            socket,
            connection,
            client,
            failures,
            in_flight: 0,
            handshake_bytes: 0,
            end: None,
        }
    }

    /// What carries the records.
    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Bytes of replies whose records have not left whole.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes one read of records in, and does what they ask for.
    fn take_records(&mut self) -> Result<(), StreamError> {
        let mut below = Below(&mut self.socket);
        let count = match self.connection.read_tls(&mut below) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(StreamError::WouldBlock);
            }
            Err(_) => return Err(StreamError::Broken),
        };
        if count == 0 {
            self.end = Some(Ended::InOrder);
            return Ok(());
        }
        if self.connection.is_handshaking() {
            self.handshake_bytes += count;
        }
        if let Err(error) = self.connection.process_new_packets() {
            self.failures.note(&self.client, &error);
            // The alert that says why to the client.
            let _ = self.flush();
            return Err(StreamError::Broken);
        }
        if self.handshake_bytes > HANDSHAKE_BYTES_MAX && self.connection.is_handshaking() {
            return Err(StreamError::Broken);
        }
        Ok(())
    }

    /// Reads what was decrypted; 0 when nothing is left of it.
    fn read_decrypted(&mut self, buffer: &mut [u8]) -> usize {
        match self.connection.reader().read(buffer) {
            Ok(0) if !buffer.is_empty() => {
                self.end = Some(Ended::InOrder);
                0
            }
            Ok(count) => count,
            // A client that closes its connection without saying so in TLS has ended all the same.
            Err(_) => 0,
        }
    }

    /// Sends the records that were made.
    fn flush(&mut self) -> Result<(), StreamError> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Below(&mut self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(StreamError::WouldBlock);
                }
                Err(_) => return Err(StreamError::Broken),
            }
        }
        Ok(())
    }
}

impl<S: Stream> Stream for TlsStream<S> {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        // Who does not take what its own messages have asked for is not read further.
        self.flush()?;
        let mut count = 0;
        loop {
            count += self.read_decrypted(&mut buffer[count..]);
            if count == buffer.len() {
                break;
            }
            if self.end.is_some() {
                break;
            }
            match self.take_records() {
                Ok(()) => {}
                Err(StreamError::WouldBlock) => {
                    self.flush().or_else(unless_broken)?;
                    return match count {
                        0 => Err(StreamError::WouldBlock),
                        count => Ok(count),
                    };
                }
                Err(StreamError::Broken) => self.end = Some(Ended::Broken),
            }
        }
        self.flush().or_else(unless_broken)?;
        match (count, self.end) {
            (0, Some(Ended::Broken)) => Err(StreamError::Broken),
            (count, _) => Ok(count),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.send_vectored(&[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        self.flush()?;
        if self.in_flight == 0 {
            let mut left = RECORD_BYTES_MAX;
            let record: SmallVec<[IoSlice<'_>; RUNS_INLINE]> = runs
                .iter()
                .map_while(|run| {
                    let part = &run[..run.len().min(left)];
                    left -= part.len();
                    (!part.is_empty()).then(|| IoSlice::new(part))
                })
                .collect();
            let made = self.connection.writer().write_vectored(&record);
            self.in_flight = made.map_err(|_| StreamError::Broken)?;
            self.flush()?;
        }
        // After a stream that was full, the caller offers the same bytes again.
        let offered: usize = runs.iter().map(|run| run.len()).sum();
        let count = self.in_flight.min(offered);
        self.in_flight -= count;
        Ok(count)
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn has_more(&self) -> bool {
        self.end.is_some() || self.connection.wants_write()
    }

    fn memory(&self) -> usize {
        CONNECTION_BYTES + self.handshake_bytes
    }
}

/// Says in TLS that the node sends no more, as far as the stream below takes it.
impl<S: Stream> Drop for TlsStream<S> {
    fn drop(&mut self) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
        }
        let _ = self.flush();
    }
}

/// What was decrypted is handed on, even if what was to be sent has to wait.
fn unless_broken(error: StreamError) -> Result<(), StreamError> {
    match error {
        StreamError::WouldBlock => Ok(()),
        StreamError::Broken => Err(StreamError::Broken),
    }
}

/// A stream as rustls reads and writes it.
struct Below<'a, S>(&'a mut S);

impl<S: Stream> Read for Below<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer).map_err(as_io)
    }
}

impl<S: Stream> Write for Below<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes).map_err(as_io)
    }

    fn write_vectored(&mut self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(runs).map_err(as_io)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn as_io(error: StreamError) -> io::Error {
    match error {
        StreamError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        StreamError::Broken => io::ErrorKind::ConnectionReset.into(),
    }
}

/// A client sends a hello and perhaps some certificates.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// The longest record. More of a reply is not kept twice.
const RECORD_BYTES_MAX: usize = 16 * 1024;

const RUNS_INLINE: usize = 16;

/// What rustls keeps for a handshake, measured roughly, and the certificates that the node sends.
const CONNECTION_BYTES: usize = 12 * 1024;
