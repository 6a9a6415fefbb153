//! What the harness asks a node itself, beside all clients: one command on a connection of its own.

use std::io;
use std::time::Duration;

use quorlock_client_rules::inspection::node_reply::{NodeReplies, NodeReply};
use quorlock_client_rules::inspection::question::request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sends one command to a node on this machine.
///
/// # Errors
/// If nothing listens, the node does not answer in time, or it answers with an error, whose text is the error's.
pub(super) async fn ask(port: u16, words: &[&[u8]]) -> io::Result<NodeReply> {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        exchange(&mut stream, words).await
    };
    timeout(ANSWER_MAX, asked).await?
}

/// Waits until everything that the node has written so far is on its disk.
///
/// # Errors
/// Those of [`ask`]; a server before Redis 7.2 answers with an error.
pub(super) async fn sync(port: u16) -> io::Result<()> {
    let synced = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        // It waits for what its own connection has written, and a log is synced up to there.
        exchange(&mut stream, &[b"SET", b"synced", b"yes", b"PX", b"100"]).await?;
        exchange(&mut stream, &[b"WAITAOF", b"1", b"0", b"0"]).await
    };
    timeout(ANSWER_MAX, synced).await?.map(drop)
}

async fn exchange(stream: &mut TcpStream, words: &[&[u8]]) -> io::Result<NodeReply> {
    stream.write_all(&request(words)).await?;
    let mut replies = NodeReplies::new(REPLY_BYTES_MAX);
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = replies.read(&mut &buffer[..]);
        let odd = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
        match read.map_err(odd)? {
            Some(NodeReply::Error(text)) => return Err(io::Error::other(text)),
            Some(reply) => return Ok(reply),
            None => {}
        }
    }
}

const ANSWER_MAX: Duration = Duration::from_secs(5);
const REPLY_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 8 << 10;
