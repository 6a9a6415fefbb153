//! Connections that the node has closed for what the client has sent, and the client not yet: QUIT, or bytes that are no
//! request, with more behind them.
//!
//! A socket that is closed with bytes unread, or that is sent some later, resets its connection, and replies are lost
//! that the client's kernel has not taken (RFC 1122, section 4.2.2.13). So the node first closes its direction only, and
//! discards what comes, as an HTTP server does (RFC 9112, section 9.6).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Those of all workers.
#[derive(Clone)]
pub(crate) struct HalfClosed {
    runtime: Handle,
    places: Arc<Semaphore>,
}

impl HalfClosed {
    /// None; tasks of `runtime` will read them.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Closes the node's direction, and the other once the client has closed it. If there are too many, at once.
    pub(crate) fn add(&self, stream: OwnedFd) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return;
        };
        self.runtime.spawn(async move {
            // Broken or too slow: there is nothing more to be done for it.
            let _ = timeout(AT_MOST, discard(stream)).await;
            drop(place);
        });
    }
}

/// Reads to the end, or to the bound.
async fn discard(stream: OwnedFd) -> io::Result<()> {
    // A Unix socket takes the same calls.
    let mut stream = TcpStream::from_std(stream.into())?;
    stream.shutdown().await?;
    let mut buffer = vec![0; READ_BYTES];
    let mut left = BYTES_MAX;
    while left > 0 {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// So many at once.
pub(crate) const AT_ONCE: usize = 32;

/// How long the client has to take the last replies and to close its direction.
const AT_MOST: Duration = Duration::from_secs(10);

/// What a client may send behind its last request: more than buffers of sockets hold.
const BYTES_MAX: usize = 64 * 1024 * 1024;

const READ_BYTES: usize = 16 * 1024;
