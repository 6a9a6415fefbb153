//! Reads a node's reply from a connection.
//!
//! Bounded in size and in depth: a node that babbles is one that gives no reply. In time the caller bounds it.

use std::io;

use quorlock_client_rules::inspection::node_reply::NodeReplies;
pub(crate) use quorlock_client_rules::inspection::node_reply::{InfoText, NodeReply};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Reads one reply, which takes so many bytes at most. What follows it stays in the stream.
pub(crate) async fn read(
    stream: &mut (impl AsyncBufRead + Unpin),
    bytes_max: usize,
) -> io::Result<NodeReply> {
    let mut replies = NodeReplies::new(bytes_max);
    loop {
        let mut bytes = stream.fill_buf().await?;
        let count = bytes.len();
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = replies.read(&mut bytes);
        let used = count - bytes.len();
        stream.consume(used);
        let odd = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
        if let Some(reply) = read.map_err(odd)? {
            return Ok(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn replies_are_read_one_after_the_other_and_end_where_the_connection_does() {
        // Of a reply, the buffer holds less or more.
        for capacity in [1, 4, 100] {
            let bytes = &b"*1\r\n$3\r\na\nb\r\n:1\r\n+cut"[..];
            let mut stream = BufReader::with_capacity(capacity, bytes);
            let array = NodeReply::Array(vec![NodeReply::Text(b"a\nb".to_vec())]);
            assert_eq!(read(&mut stream, 100).await.expect("a reply"), array);
            let number = NodeReply::Integer(1);
            assert_eq!(read(&mut stream, 100).await.expect("a reply"), number);
            let error = read(&mut stream, 100)
                .await
                .expect_err("its end is missing");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        let error = read(&mut &b"*9999\r\n:1\r\n"[..], 1_000).await;
        assert!(error.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData));
    }
}
