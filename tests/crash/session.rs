//! One client: what it has asked for, what was executed of it, and what has come back.
//!
//! Invariant: it is told of a write by bytes that have left the node, and by nothing else.

use std::collections::VecDeque;

use quorlock_server::simulation::Client;

use super::check::Violation;
use super::oracle::Told;
use super::request::Request;
use super::workload::Mode;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) database: u8,
    /// What was sent and not executed yet.
    sent: VecDeque<Request>,
    /// What was executed and not answered yet.
    waiting: VecDeque<Waiting>,
    /// The beginning of a reply.
    received: Vec<u8>,
    /// It was told that the log has failed.
    is_lost: bool,
    /// What this client was or will be told of.
    known: Vec<Told>,
    /// It sends no more.
    pub(crate) has_ended: bool,
    /// What was queued since MULTI.
    queued: Option<Queued>,
}

/// The requests of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
    /// One of them was refused: none may be executed.
    pub(crate) is_spoilt: bool,
}

/// What a request is to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is executed by itself.
    None,
    /// It waits for EXEC.
    Queued,
    /// It executes these.
    Exec(Queued),
}

/// A reply that the client has not received.
#[derive(Debug)]
struct Waiting {
    /// Empty where the client is blocked.
    reply: Vec<u8>,
    is_for_sync: bool,
    tells_of: Vec<Told>,
    /// The mode it was executed in.
    mode: Mode,
}

/// What a client has learnt from a reply.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    pub(crate) tells_of: Vec<Told>,
    pub(crate) mode: Mode,
}

impl Session {
    pub(crate) fn new(number: u64, client: Client) -> Session {
        Session {
            number,
            client,
            database: 0,
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            received: Vec::new(),
            is_lost: false,
            known: Vec::new(),
            has_ended: false,
            queued: None,
        }
    }

    /// Notes what a request that was executed is to a transaction.
    pub(crate) fn note_part(&mut self, request: &Request, reply: &[u8]) -> Part {
        if let Some(queued) = self.queued.take_if(|_| request.is_exec()) {
            return Part::Exec(queued);
        }
        if request.is_multi() {
            self.queued = Some(Queued::default());
            return Part::Queued;
        }
        let Some(queued) = &mut self.queued else {
            return Part::None;
        };
        match reply == QUEUED {
            true => queued.requests.push(request.words.clone()),
            false => queued.is_spoilt = true,
        }
        Part::Queued
    }

    pub(crate) fn note_sent(&mut self, request: Request) {
        self.sent.push_back(request);
    }

    /// The request that was executed now: those of one client are in the order in which it has sent them.
    pub(crate) fn take_executed(&mut self, words: &[Vec<u8>]) -> Result<Request, Violation> {
        match self.sent.pop_front() {
            Some(request) if request.words == words => Ok(request),
            other => {
                let detail = format!("{words:?}, and not {other:?}");
                Err(Violation::new("a request is executed out of order", detail))
            }
        }
    }

    /// Notes what the reply to a request will tell.
    pub(crate) fn note_executed(
        &mut self,
        request: &Request,
        reply: &[u8],
        mut tells_of: Vec<Told>,
        mode: Mode,
    ) {
        let is_for_sync = request.is_for_sync();
        if is_for_sync {
            tells_of.clone_from(&self.known);
        } else {
            self.known.extend(tells_of.iter().cloned());
        }
        self.waiting.push_back(Waiting {
            reply: reply.to_vec(),
            is_for_sync,
            tells_of,
            // Such an answer promises as much as `always`.
            mode: if is_for_sync && mode != Mode::Volatile {
                Mode::Always
            } else {
                mode
            },
        });
    }

    /// Takes in bytes; returns what the replies that are whole now tell.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Learnt>, Violation> {
        if self.is_lost {
            return Ok(Vec::new());
        }
        self.received.extend_from_slice(bytes);
        let mut learnt = Vec::new();
        while !self.received.is_empty() {
            let expected = self.waiting.front();
            let is_blocked = expected.is_some_and(|waiting| waiting.reply.is_empty());
            let reply = match expected {
                Some(waiting) if !is_blocked => waiting.reply.as_slice(),
                Some(_) if NOT_SYNCED.starts_with(&self.received) => NOT_SYNCED,
                Some(_) if self.received.starts_with(NOT_SYNCED) => NOT_SYNCED,
                _ => SYNCED,
            };
            if self.received.starts_with(reply) && expected.is_some() {
                let is_synced = reply == SYNCED;
                self.received.drain(..reply.len());
                if let Some(waiting) = self.waiting.pop_front()
                    && (is_synced || !waiting.is_for_sync)
                {
                    learnt.push(Learnt {
                        tells_of: waiting.tells_of,
                        mode: waiting.mode,
                    });
                }
            } else if reply.starts_with(&self.received) && expected.is_some() {
                break;
            } else if is_prefix(WITHHELD, &self.received) {
                // Nothing that waits will be answered.
                self.is_lost = true;
                self.waiting.clear();
                self.received.clear();
            } else {
                let received = String::from_utf8_lossy(&self.received);
                let detail = format!("{received:?}, not {expected:?}");
                return Err(Violation::new("bytes that are no reply left", detail));
            }
        }
        Ok(learnt)
    }
}

/// Whether one of them begins with the other.
fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// What a request is answered that waits for EXEC.
const QUEUED: &[u8] = b"+QUEUED\r\n";

/// What WAITAOF answers once everything is synced, and if its time is over before.
const SYNCED: &[u8] = b"*2\r\n:1\r\n:0\r\n";
const NOT_SYNCED: &[u8] = b"*2\r\n:0\r\n:0\r\n";

/// How a reply begins that stands for those that a failed log has not made durable.
const WITHHELD: &[u8] = b"-MISCONF the log failed";
