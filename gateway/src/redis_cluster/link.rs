//! A connection to one server: requests go out in their order, and replies come back in it.
//!
//! Invariants: what is asked at once is written at once, so nothing comes between ASKING and the request that it is about. Nothing is
//! sent twice.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use quorlock_client_rules::inspection::node_reply::{NodeReplies, NodeReply};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};

/// Where requests to the server are handed in.
#[derive(Clone)]
pub(super) struct Link {
    questions: mpsc::UnboundedSender<Question>,
    /// Why the connection has ended.
    reason: Rc<RefCell<String>>,
}

struct Question {
    bytes: Vec<u8>,
    replies: Vec<Asker>,
}

type Asker = oneshot::Sender<NodeReply>;
type Askers = RefCell<VecDeque<Asker>>;

/// What moves a connection on. It resolves when the connection has ended.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()>>>;

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The request was not sent.
    NotSent(String),
    /// The server may have carried it out.
    Lost(String),
}

impl Unanswered {
    pub(super) fn words(self) -> String {
        let (Self::NotSent(words) | Self::Lost(words)) = self;
        words
    }
}

impl Link {
    /// Begins to speak to a server. The channels of messages that it publishes go to `published`.
    pub(super) fn start<S>(stream: S, published: mpsc::UnboundedSender<Bytes>) -> (Self, Driver)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (questions, asked) = mpsc::unbounded_channel();
        let reason = Rc::new(RefCell::new(String::new()));
        let link = Self {
            questions,
            reason: Rc::clone(&reason),
        };
        let driver = Box::pin(async move {
            let askers = Askers::default();
            let (reading, writing) = tokio::io::split(stream);
            let ended = tokio::select! {
                ended = write(writing, asked, &askers) => ended,
                ended = read(reading, &askers, &published) => ended,
            };
            // Before the askers are gone, who read it.
            *reason.borrow_mut() = ended.to_string();
        });
        (link, driver)
    }

    /// Whether both are one connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.questions.same_channel(&other.questions)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.questions.is_closed()
    }

    /// Asks this, which has so many replies.
    pub(super) async fn ask(
        &self,
        bytes: Vec<u8>,
        count: usize,
    ) -> Result<Vec<NodeReply>, Unanswered> {
        let (replies, waiting): (Vec<_>, Vec<_>) = (0..count).map(|_| oneshot::channel()).unzip();
        let question = Question { bytes, replies };
        if self.questions.send(question).is_err() {
            return Err(Unanswered::NotSent(self.reason.borrow().clone()));
        }
        let mut told = Vec::with_capacity(count);
        for reply in waiting {
            let reply = reply.await;
            told.push(reply.map_err(|_| Unanswered::Lost(self.reason.borrow().clone()))?);
        }
        Ok(told)
    }
}

async fn write(
    mut writing: impl AsyncWrite + Unpin,
    mut asked: mpsc::UnboundedReceiver<Question>,
    askers: &Askers,
) -> io::Error {
    let mut out = Vec::new();
    loop {
        let mut next = asked.recv().await;
        if next.is_none() {
            return ended("it is not used any more");
        }
        while let Some(question) = next {
            out.extend(question.bytes);
            askers.borrow_mut().extend(question.replies);
            next = asked.try_recv().ok();
        }
        if let Err(error) = writing.write_all(&out).await {
            return error;
        }
        if let Err(error) = writing.flush().await {
            return error;
        }
        out.clear();
    }
}

async fn read(
    mut reading: impl AsyncRead + Unpin,
    askers: &Askers,
    published: &mpsc::UnboundedSender<Bytes>,
) -> io::Error {
    let mut replies = NodeReplies::new(REPLY_BYTES_MAX);
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        match reading.read_buf(&mut buffer).await {
            Ok(0) => return ended("it has closed the connection"),
            Ok(_) => {}
            Err(error) => return error,
        }
        let mut bytes = &buffer[..];
        loop {
            let reply = match replies.read(&mut bytes) {
                Ok(None) => break,
                Ok(Some(reply)) => reply,
                Err(_) => return ended("it does not speak Redis's protocol"),
            };
            if let Some(channel) = channel(&reply) {
                let _nobody_listens = published.send(channel);
                continue;
            }
            let asker = askers.borrow_mut().pop_front();
            match (asker, reply) {
                (Some(asker), reply) => drop(asker.send(reply)),
                // What a server says before it closes.
                (None, NodeReply::Error(text)) => return ended(&text),
                (None, _) => return ended("it answers more than it was asked"),
            }
        }
    }
}

/// The channel of a published message, if this is one.
fn channel(reply: &NodeReply) -> Option<Bytes> {
    match reply.parts()? {
        [kind, channel, _] if kind.text() == Some(b"message") => {
            channel.text().map(Bytes::copy_from_slice)
        }
        _ => None,
    }
}

fn ended(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, words)
}

/// A page of names that are longer than those of locks.
const REPLY_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 8 << 10;
