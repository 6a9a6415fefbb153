//! What the harness asks a node itself, beside all clients: one command on a connection of its own.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sends one command to a node on this machine. The reply is the text of its first line, or that of a bulk reply, or
/// nothing where that is null.
///
/// # Errors
/// If nothing listens, the node does not answer in time, or it answers with an error, whose text is the error's.
pub(super) async fn ask(port: u16, words: &[&[u8]]) -> io::Result<Option<Vec<u8>>> {
    let asked = async {
        let mut stream = connect(port).await?;
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
        let mut stream = connect(port).await?;
        // It waits for what its own connection has written, and a log is synced up to there.
        exchange(&mut stream, &[b"SET", b"synced", b"yes", b"PX", b"100"]).await?;
        exchange(&mut stream, &[b"WAITAOF", b"1", b"0", b"0"]).await
    };
    timeout(ANSWER_MAX, synced).await?.map(drop)
}

async fn connect(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    Ok(BufReader::new(stream))
}

async fn exchange(
    stream: &mut BufReader<TcpStream>,
    words: &[&[u8]],
) -> io::Result<Option<Vec<u8>>> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    stream.write_all(&request).await?;
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let text = line.get(1..).unwrap_or_default();
    match line.as_bytes().first() {
        Some(b'-') => Err(io::Error::other(text.to_owned())),
        Some(b'$') => match text.parse::<i64>() {
            Ok(-1) => Ok(None),
            Ok(length @ 0..=REPLY_BYTES_MAX) => {
                let mut bulk = vec![0; usize::try_from(length).unwrap_or_default()];
                stream.read_exact(&mut bulk).await?;
                Ok(Some(bulk))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        },
        _ => Ok(Some(text.as_bytes().to_vec())),
    }
}

const ANSWER_MAX: Duration = Duration::from_secs(5);
const REPLY_BYTES_MAX: i64 = 1 << 20;
