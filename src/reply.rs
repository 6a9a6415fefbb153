//! Reads a node's reply from a connection.
//!
//! Bounded in size and in depth: a node that babbles is one that gives no reply. In time the caller bounds it.

use std::io;
use std::pin::Pin;

pub(crate) use quorlock_client_rules::inspection::node_reply::NodeReply;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Reads one reply, which takes so many bytes at most: each of its own is charged, and so is each of its parts.
pub(crate) async fn read(
    stream: &mut (impl AsyncBufRead + Unpin),
    bytes_max: usize,
) -> io::Result<NodeReply> {
    let mut budget = bytes_max;
    read_part(stream, &mut budget, 0).await
}

fn read_part<'s, S: AsyncBufRead + Unpin>(
    stream: &'s mut S,
    budget: &'s mut usize,
    depth: usize,
) -> Pin<Box<dyn Future<Output = io::Result<NodeReply>> + 's>> {
    Box::pin(async move {
        let mut line = Vec::new();
        stream
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .await?;
        charge(budget, line.len() + PART_BYTES)?;
        let line = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| odd("a reply has no end"))?;
        let (kind, rest) = line.split_first().ok_or_else(|| odd("a reply is empty"))?;
        let text = String::from_utf8_lossy(rest);
        let number = || {
            text.parse::<i64>()
                .map_err(|_| odd("a reply has no length"))
        };
        match kind {
            b'+' => Ok(NodeReply::Text(rest.to_vec())),
            b'-' => Ok(NodeReply::Error(text.into_owned())),
            b':' => number().map(NodeReply::Integer),
            b'$' | b'*' if number()? == -1 => Ok(NodeReply::Nil),
            b'$' => {
                let length = usize::try_from(number()?).map_err(|_| odd("a length is negative"))?;
                charge(budget, length)?;
                let mut bytes = vec![0; length];
                stream.read_exact(&mut bytes).await?;
                stream.read_exact(&mut [0; 2]).await?;
                Ok(NodeReply::Text(bytes))
            }
            b'*' if depth < DEPTH_MAX => {
                let mut parts = Vec::new();
                for _ in 0..number()? {
                    parts.push(read_part(stream, budget, depth + 1).await?);
                }
                Ok(NodeReply::Array(parts))
            }
            _ => Err(odd("it does not speak Redis's protocol")),
        }
    })
}

fn charge(budget: &mut usize, bytes: usize) -> io::Result<()> {
    let left = budget.checked_sub(bytes);
    *budget = left.ok_or_else(|| odd("a reply is longer than it may be"))?;
    Ok(())
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const LINE_BYTES_MAX: u64 = 64 << 10;
/// What a part of an array takes in memory beside its bytes.
const PART_BYTES: usize = 32;
/// LOCK.LIST has rows with maps of holders, which are maps.
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut bytes: &[u8]) -> io::Result<NodeReply> {
        read(&mut bytes, 256 << 20).await
    }

    #[tokio::test]
    async fn replies_of_all_kinds_are_read() {
        let text = |text: &str| NodeReply::Text(text.as_bytes().to_vec());
        for (bytes, reply) in [
            (&b"+OK\r\n"[..], text("OK")),
            (b"$3\r\na\nb\r\n", text("a\nb")),
            (b"$-1\r\n", NodeReply::Nil),
            (b"*-1\r\n", NodeReply::Nil),
            (b":-2\r\n", NodeReply::Integer(-2)),
            (b"-ERR no\r\n", NodeReply::Error("ERR no".to_owned())),
            (
                b"*2\r\n$1\r\n0\r\n*1\r\n:1\r\n",
                NodeReply::Array(vec![
                    text("0"),
                    NodeReply::Array(vec![NodeReply::Integer(1)]),
                ]),
            ),
        ] {
            assert_eq!(read_all(bytes).await.expect("it is a reply"), reply);
        }
    }

    #[tokio::test]
    async fn what_is_no_reply_or_has_no_bounds_is_refused() {
        let nested = b"*1\r\n".repeat(1_000);
        for bytes in [
            &b""[..],
            b"\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"$x\r\n",
            b"$-7\r\n",
            b"$9\r\ncut",
            b"$99999999999\r\n",
            b"*99999999999\r\n:1\r\n",
            &nested,
        ] {
            assert!(read_all(bytes).await.is_err(), "{}", bytes.escape_ascii());
        }
        let endless = b"*99999999\r\n"
            .iter()
            .chain(b":1\r\n".iter().cycle().take(4_000));
        let bytes = endless.copied().collect::<Vec<u8>>();
        let cut = read(&mut &bytes[..], 1_000).await;
        assert!(cut.is_err_and(|error| error.to_string().contains("longer")));
    }
}
