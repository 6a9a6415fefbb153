//! A TCP connection, plain or with TLS, a Unix connection, one of the program's own making, or one to a master that Sentinels
//! name, as one type.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::connector::ProgramStream;
use super::tls::TlsStream;

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
    /// With the node's name.
    Program(String, ProgramStream),
    /// Breaks when another server is the master.
    Master(Box<Stream>, Until),
}

/// Resolves to the reason why a connection must be given up.
pub(super) struct Until(pub(super) Pin<Box<dyn Future<Output = io::Error>>>);

impl fmt::Debug for Until {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Until")
    }
}

impl Stream {
    /// The address of a TCP connection, of which a name may have others.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.tcp()?.peer_addr().ok()
    }

    /// The TCP connection, also where TLS is spoken on it.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.tcp()),
            Self::Master(stream, _) => stream.tcp(),
            Self::Unix(_) | Self::Program(..) => None,
        }
    }

    /// The address that the connection leads to.
    pub(super) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(|address| address.to_string()),
            Self::Tls(stream) => stream.tcp().peer_addr().map(|address| address.to_string()),
            Self::Unix(stream) => stream.peer_addr().map(|address| {
                let path = address.as_pathname().map(std::path::Path::to_string_lossy);
                path.unwrap_or_default().into_owned()
            }),
            Self::Program(name, _) => Ok(name.clone()),
            Self::Master(stream, _) => Ok(stream.peer()),
        }
        // It ended already.
        .unwrap_or_default()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Program(_, stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Master(stream, until) => match until.0.as_mut().poll(context) {
                Poll::Ready(moved) => Poll::Ready(Err(moved)),
                Poll::Pending => Pin::new(&mut **stream).poll_read(context, buffer),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Program(_, stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Master(stream, _) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Program(_, stream) => Pin::new(stream).poll_flush(context),
            Self::Master(stream, _) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Program(_, stream) => Pin::new(stream).poll_shutdown(context),
            Self::Master(stream, _) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
