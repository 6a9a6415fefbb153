//! In place of TLS, in a build without the feature `tls`: a client of nodes that speak it is not built.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::tls_options::TlsOptions;

/// There is none.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// # Errors
    /// Always.
    pub(crate) fn new(_: TlsOptions) -> Result<Self, String> {
        Err(
            "this program was built without TLS: build quorlock-client with the feature tls, or write redis:// over a trusted \
             network or a tunnel"
                .to_owned(),
        )
    }

    /// Never called.
    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TlsStream> {
        match self.0 {}
    }
}

/// There is none.
#[derive(Debug)]
pub(super) struct TlsStream(Infallible);

impl TlsStream {
    pub(super) fn tcp(&self) -> &TcpStream {
        match self.0 {}
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}
