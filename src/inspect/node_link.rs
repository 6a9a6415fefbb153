//! A connection to one node, for questions that an operator asks.
//!
//! Bounded in time and in size: a node that hangs or babbles is one that does not answer. Behind an error nothing is asked
//! any more, because a late reply would be taken for that to another question.

use std::io;
use std::slice;
use std::time::Duration;

use quorlock_client::{Dialer, TlsOptions};
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::reply;

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
            .map_err(|_| format!("no connection in time{}", over_tls(address)))?
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

    /// Connects for a single request of these words.
    pub(super) async fn ask_once(
        address: &NodeAddress,
        tls: TlsOptions,
        words: &[&[u8]],
        patience: Duration,
    ) -> Result<NodeReply, String> {
        let dialer = Dialer::new(slice::from_ref(address), tls)?;
        let mut link = Self::open(address, &dialer, patience).await?;
        link.ask_one(question::request(words)).await
    }

    /// Asks this.
    pub(super) async fn ask_one(&mut self, question: Vec<u8>) -> Result<NodeReply, String> {
        let mut replies = self.ask(&[question]).await?;
        Ok(replies.pop().expect("each question has a reply"))
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
            replies.push(reply::read(&mut self.stream, REPLY_BYTES_MAX).await?);
        }
        Ok(replies)
    }

    /// Gives the node up, for this reason: an answer that may still come would be taken for that to another question.
    pub(super) fn fail(&mut self, words: String) -> String {
        self.failed = Some(words.clone());
        words
    }
}

/// Where a plain port is silent, as that of redis-server is, it waits for the rest of a request.
pub(super) fn over_tls(address: &NodeAddress) -> &'static str {
    if address.speaks_tls { " over TLS" } else { "" }
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

const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// For a page of a node that has much to do.
const REPLY_PATIENCE: Duration = Duration::from_secs(5);
/// A page of 100 names of 1 MB each fits.
const REPLY_BYTES_MAX: usize = 256 << 20;
const BATCH_BYTES_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_sent_in_batches_of_bounded_size() {
        let question = |bytes| vec![0; bytes];
        assert_eq!(batch_length(&[question(1 << 20), question(1)]), 1);
        assert_eq!(batch_length(&vec![question(16 << 10); 5]), 2);
        assert_eq!(batch_length(&vec![question(10); 100]), 100);
    }
}
