//! A connection to one node, for questions that an operator asks.
//!
//! Bounded in time and in size: a node that hangs or babbles is one that does not answer. Behind an error nothing is asked
//! any more, because a late reply would be taken for that to another question.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use quorlock_client::Dialer;
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::time::timeout;

/// A connection that has logged in.
pub(super) struct NodeLink {
    stream: BufReader<Box<dyn Stream>>,
    /// How long an answer is waited for.
    patience: Duration,
    failed: Option<String>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl NodeLink {
    /// Connects and logs in. Answers are waited for so long at most.
    pub(super) async fn open(
        address: &NodeAddress,
        dialer: &Dialer,
        patience: Duration,
    ) -> Result<Self, String> {
        let dialled = dialer.connect(address, CONNECT_PATIENCE);
        // A handshake has the same time once more.
        let dialled = timeout(2 * CONNECT_PATIENCE, dialled).await;
        let stream = dialled
            .map_err(|_| "no connection in time".to_owned())?
            .map_err(|error| format!("cannot be reached: {error}"))?;
        let mut link = Self {
            stream: BufReader::new(Box::new(stream)),
            patience: patience.min(REPLY_PATIENCE),
            failed: None,
        };
        for reply in link.ask(&question::opening(address)).await? {
            if let NodeReply::Error(text) = reply {
                return Err(format!("refused the login: {text}"));
            }
        }
        Ok(link)
    }

    /// Asks all of these, and gives a reply for each.
    pub(super) async fn ask(&mut self, questions: &[Vec<u8>]) -> Result<Vec<NodeReply>, String> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let mut replies = Vec::with_capacity(questions.len());
        let mut rest = questions;
        while !rest.is_empty() {
            // A node stops reading where what it has to send is not read.
            let (batch, later) = rest.split_at(batch_length(rest));
            rest = later;
            match timeout(self.patience, self.exchange(batch)).await {
                Ok(Ok(more)) => replies.extend(more),
                Ok(Err(error)) => return Err(self.fail(format!("the connection broke: {error}"))),
                Err(_) => return Err(self.fail("does not answer".to_owned())),
            }
        }
        Ok(replies)
    }

    /// Why nothing is asked any more.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    async fn exchange(&mut self, batch: &[Vec<u8>]) -> io::Result<Vec<NodeReply>> {
        self.stream.get_mut().write_all(&batch.concat()).await?;
        let mut replies = Vec::with_capacity(batch.len());
        for _ in batch {
            let mut budget = REPLY_BYTES_MAX;
            replies.push(read(&mut self.stream, &mut budget, 0).await?);
        }
        Ok(replies)
    }

    fn fail(&mut self, words: String) -> String {
        self.failed = Some(words.clone());
        words
    }
}

/// How many of these are sent at once.
fn batch_length(questions: &[Vec<u8>]) -> usize {
    let mut bytes = 0;
    let fits = |question: &&Vec<u8>| {
        bytes += question.len();
        bytes <= BATCH_BYTES_MAX
    };
    questions.iter().take_while(fits).count().max(1)
}

/// Reads one reply. Each byte of it is charged to the budget, and so is each part.
fn read<'s, S: AsyncBufRead + Unpin>(
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
                    parts.push(read(stream, budget, depth + 1).await?);
                }
                Ok(NodeReply::Array(parts))
            }
            _ => Err(odd("it does not speak Redis's protocol")),
        }
    })
}

fn charge(budget: &mut usize, bytes: usize) -> io::Result<()> {
    let left = budget.checked_sub(bytes);
    *budget = left.ok_or_else(|| odd("a reply is longer than 256 MiB"))?;
    Ok(())
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// For a page of a node that has much to do.
const REPLY_PATIENCE: Duration = Duration::from_secs(5);
/// A page of 100 names of 1 MB each fits.
const REPLY_BYTES_MAX: usize = 256 << 20;
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What a part of an array takes in memory beside its bytes.
const PART_BYTES: usize = 32;
const BATCH_BYTES_MAX: usize = 32 << 10;
/// LOCK.LIST has rows with maps of holders, which are maps.
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> io::Result<NodeReply> {
        let (mut bytes, mut budget) = (bytes, REPLY_BYTES_MAX);
        read(&mut bytes, &mut budget, 0).await
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
        let (bytes, mut budget) = (endless.copied().collect::<Vec<u8>>(), 1_000);
        let cut = read(&mut &bytes[..], &mut budget, 0).await;
        assert!(cut.is_err_and(|error| error.to_string().contains("longer")));
    }

    #[test]
    fn questions_are_sent_in_batches_of_bounded_size() {
        let question = |bytes| vec![0; bytes];
        assert_eq!(batch_length(&[question(1 << 20), question(1)]), 1);
        assert_eq!(batch_length(&vec![question(16 << 10); 5]), 2);
        assert_eq!(batch_length(&vec![question(10); 100]), 100);
    }
}
