//! The first requests on a connection: who we are, who the node is, and what it can do.
//!
//! Invariant: a connection serves requests only after every reply of its login has been read, so
//! the identity that votes are counted by belongs to this connection and to no other.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use redis_protocol::resp2::types::OwnedFrame;

use crate::address::NodeAddress;
use crate::outcome::Cause;
use crate::protocol::meaning;
use crate::protocol::reply::{Incoming, Replies};
use crate::protocol::request::{self, EXTEND_SCRIPT, RELEASE_SCRIPT, ScriptHash};
use crate::protocol::sentinel;
use crate::register::{LogState, Membership};
use crate::votes::Identity;

/// What was learned when the connection was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Who the node says it is, or why it does not vote.
    pub(crate) identity: Result<Identity, Cause>,
    pub(crate) membership: Membership,
    /// Whether it is counted by its address and answered no INFO for now, so that its cluster is not known.
    pub(crate) lacks_info: bool,
    /// Whether it is no node but an agent in front of nodes.
    pub(crate) is_agent: bool,
    /// How far its log had come, where the node tells it.
    pub(crate) log: Option<LogState>,
    pub(crate) takes_get: bool,
    /// Whether it may know `LOCK.WAIT ... TURN`.
    pub(crate) takes_turns: bool,
    /// Whether it takes what a holder says about itself, and tells it to others.
    pub(crate) takes_text: bool,
    pub(crate) tells_holders: bool,
    pub(crate) release_hash: Option<ScriptHash>,
    pub(crate) extend_hash: Option<ScriptHash>,
}

impl Peer {
    fn known(identity: Option<Identity>) -> Self {
        let unknown = || Cause::Unidentified(Arc::from("INFO names no run_id"));
        Self {
            identity: identity.ok_or_else(unknown),
            membership: Membership::default(),
            lacks_info: false,
            is_agent: false,
            log: None,
            takes_get: true,
            takes_turns: true,
            takes_text: true,
            tells_holders: true,
            release_hash: None,
            extend_hash: None,
        }
    }
}

/// What a reply of the login is for.
#[derive(Clone, Copy, Debug)]
enum LoginQuestion {
    /// A failure means that requests would go to the wrong place.
    Must,
    May,
    Info,
    /// Whether it is the master that the Sentinels take it for.
    Role,
    /// A failure means that no lock could be freed.
    Scripts,
    ReleaseScript,
    ExtendScript,
}

/// A login under way.
#[derive(Debug)]
pub(super) struct Login {
    /// Its password is in nothing that the node is reported to have said.
    address: NodeAddress,
    asked: VecDeque<LoginQuestion>,
    replies: Replies,
    peer: Peer,
    is_counted_by_address: bool,
}

impl Login {
    /// Writes the login's requests, all at once.
    ///
    /// With an identity, what the node says of its own does not matter.
    pub(super) fn start(
        address: &NodeAddress,
        client_name: &str,
        identity: Option<Identity>,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut asked = VecDeque::new();
        let mut ask = |what: LoginQuestion, arguments: &[&[u8]]| {
            request::write(out, arguments);
            asked.push_back(what);
        };
        match address.requested_login() {
            Some((Some(user), password)) => ask(
                LoginQuestion::Must,
                &[b"AUTH", user.as_bytes(), password.as_bytes()],
            ),
            Some((None, password)) => ask(LoginQuestion::Must, &[b"AUTH", password.as_bytes()]),
            None => {}
        }
        if address.database != 0 {
            let database = address.database.to_string();
            ask(LoginQuestion::Must, &[b"SELECT", database.as_bytes()]);
        }
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        ask(
            LoginQuestion::May,
            &[b"CLIENT", b"SETNAME", client_name.as_bytes()],
        );
        ask(
            LoginQuestion::May,
            &[b"CLIENT", b"SETINFO", b"LIB-NAME", b"quorlock-client"],
        );
        ask(
            LoginQuestion::May,
            &[b"CLIENT", b"SETINFO", b"LIB-VER", version],
        );
        ask(LoginQuestion::Info, &[b"INFO", b"server"]);
        if address.endpoint.fails_over() {
            ask(LoginQuestion::Role, &[b"INFO", b"replication"]);
        }
        ask(LoginQuestion::Scripts, &[b"EVAL", b"return 1", b"0"]);
        ask(
            LoginQuestion::ReleaseScript,
            &[b"SCRIPT", b"LOAD", RELEASE_SCRIPT],
        );
        ask(
            LoginQuestion::ExtendScript,
            &[b"SCRIPT", b"LOAD", EXTEND_SCRIPT],
        );
        Self {
            address: address.clone(),
            asked,
            replies: Replies::with_capacity(READ_BYTES),
            is_counted_by_address: identity.is_some(),
            peer: Peer::known(identity),
        }
    }

    /// Takes bytes in. Returns what was learned once the last reply is there.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Peer>, Cause> {
        self.replies.append(bytes);
        while let Some(&what) = self.asked.front() {
            match self.replies.next() {
                Ok(Some(Incoming::Reply(OwnedFrame::Error(text)))) => {
                    let text = self.address.without_secrets(&text).into_owned();
                    self.learn(what, &OwnedFrame::Error(text))?;
                }
                Ok(Some(Incoming::Reply(reply))) => self.learn(what, &reply)?,
                Ok(Some(Incoming::Push(_))) => return Err(foreign("a push during the login")),
                Ok(None) => return Ok(None),
                Err(error) => return Err(foreign(&format!("protocol error: {error}"))),
            }
            self.asked.pop_front();
        }
        if !self.replies.is_empty() {
            return Err(unreachable("the node answers more than it was asked"));
        }
        Ok(Some(self.peer.clone()))
    }

    fn learn(&mut self, what: LoginQuestion, reply: &OwnedFrame) -> Result<(), Cause> {
        let peer = &mut self.peer;
        match what {
            // A node that serves nobody says so in reply to whatever comes first.
            _ if let Some(cause) = meaning::login_refused(reply) => return Err(cause),
            LoginQuestion::Must | LoginQuestion::Role if matches!(reply, OwnedFrame::Error(_)) => {
                return Err(meaning::refusal(reply));
            }
            LoginQuestion::Info => match meaning::info(reply) {
                Ok(info) => {
                    peer.membership = info.membership;
                    peer.is_agent = info.is_agent;
                    if let Some(identity) = info.identity.filter(|_| !self.is_counted_by_address) {
                        peer.identity = Ok(identity);
                        peer.log = info.log;
                    }
                }
                Err(cause) if !self.is_counted_by_address => {
                    let text = format!("INFO is {cause}");
                    peer.identity = Err(Cause::Unidentified(Arc::from(text)));
                }
                // One that refuses INFO by its settings names no cluster.
                Err(cause) => peer.lacks_info = !cause.is_permanent(),
            },
            LoginQuestion::Role if sentinel::is_master(reply) != Some(true) => {
                return Err(unreachable(
                    "the server that the Sentinels name is not the master: a failover is under way",
                ));
            }
            LoginQuestion::Scripts => {
                if let OwnedFrame::Error(text) = reply
                    && (text.starts_with("NOPERM") || text.starts_with("ERR unknown command"))
                {
                    peer.identity = Err(Cause::Refused(Arc::from(format!(
                        "EVAL, without which no lock could be freed: {text}"
                    ))));
                }
            }
            LoginQuestion::ReleaseScript => peer.release_hash = hash(reply),
            LoginQuestion::ExtendScript => peer.extend_hash = hash(reply),
            LoginQuestion::Must | LoginQuestion::May | LoginQuestion::Role => {}
        }
        Ok(())
    }
}

fn hash(reply: &OwnedFrame) -> Option<ScriptHash> {
    let OwnedFrame::BulkString(text) = reply else {
        return None;
    };
    let hash = ScriptHash::try_from(text.as_slice()).ok()?;
    hash.iter().all(u8::is_ascii_hexdigit).then_some(hash)
}

/// What answers does not speak the protocol.
fn foreign(text: &str) -> Cause {
    Cause::Unreachable(io::Error::new(io::ErrorKind::InvalidData, text).into())
}

pub(super) fn unreachable(text: &str) -> Cause {
    Cause::Unreachable(text.into())
}

const READ_BYTES: usize = 4096;
