//! CLIENT KILL: closing connections, one by its address or all that match.

use std::sync::Arc;

use quorlock_engine::{ErrorReply, Reply, parse_integer};

use crate::acl::Users;
use crate::core::clients::Client;
use crate::core::commit::Failure;
use crate::core::deliveries::What;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};

/// Which connections are meant; all that is given must be so.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<&'a [u8]>,
    /// At least so many seconds old.
    age: Option<u64>,
    spares_caller: bool,
}

/// Redis's kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    /// One that listens.
    Listening,
    /// A replica, or a master. A node has neither.
    Replication,
}

impl ClientType {
    pub(super) fn named(name: &[u8]) -> Result<Self, ErrorReply> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::Listening),
            b"master" | b"slave" | b"replica" => Ok(Self::Replication),
            _ => Err(quoting("Unknown client type", name)),
        }
    }

    pub(super) fn is_of(self, client: &Client) -> bool {
        let listens = client.introduction().listening.is_any();
        match self {
            Self::Normal => !listens,
            Self::Listening => listens,
            Self::Replication => false,
        }
    }
}

impl<'a> Filter<'a> {
    fn parse(options: &[&'a [u8]], users: &Users) -> Result<Self, ErrorReply> {
        let mut filter = Filter {
            spares_caller: true,
            ..Filter::default()
        };
        for option in options.chunks(2) {
            let [name, value] = *option else {
                return Err(ErrorReply::SYNTAX);
            };
            match name.to_ascii_lowercase().as_slice() {
                b"id" => filter.id = Some(positive(value).ok_or(NOT_AN_ID)?),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local = Some(value),
                b"type" => filter.kind = Some(ClientType::named(value)?),
                b"user" if users.named(value).is_some() => filter.user = Some(value),
                b"user" => return Err(quoting("No such user", value)),
                b"maxage" => filter.age = Some(positive(value).ok_or(NOT_AN_AGE)?),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_caller = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_caller = false,
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        Ok(filter)
    }

    fn matches(&self, client: &Client, caller: u64, now_raw: quorlock_engine::RawTime) -> bool {
        let age = now_raw.nanos_since(client.connected_raw()) / 1_000_000_000;
        let is_at = |wanted: Option<&[u8]>, address: String| {
            wanted.is_none_or(|wanted| wanted == address.as_bytes())
        };
        self.id.is_none_or(|id| id == client.id)
            && self.age.is_none_or(|seconds| age >= seconds)
            && self
                .user
                .is_none_or(|user| client.introduction().user_name() == user)
            && self.kind.is_none_or(|kind| kind.is_of(client))
            && is_at(self.address, client.address.to_string())
            && is_at(self.local, client.local.to_string())
            && !(self.spares_caller && client.id == caller)
    }
}

/// `arguments` are what follows the subcommand, at least one.
pub(super) fn kill(session: &Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let is_old_form = arguments.len() == 1;
    let filter = match arguments {
        [address] => Filter {
            address: Some(address),
            ..Filter::default()
        },
        options => Filter::parse(options, &batch.node.access.users())?,
    };
    let node = batch.node;
    let now_raw = batch.raw();
    let caller = session.client.id;
    let mut killed: Vec<Arc<Client>> = node.clients.all();
    killed.retain(|client| filter.matches(client, caller, now_raw));
    let closed = close(session, batch, killed)?;
    let reply = match (is_old_form, closed.count) {
        (true, 0) => Reply::Error(ErrorReply::fixed("ERR No such client")),
        (true, _) => Reply::Ok,
        (false, count) => Reply::count(count),
    };
    // The caller hears of it before it goes.
    Ok(match closed.is_caller_closed {
        true => Answer::Last(reply),
        false => Answer::Reply(reply),
    })
}

/// What became of connections that were to be closed.
pub(super) struct Closed {
    count: usize,
    /// The caller is among them, and is to be closed behind its reply.
    pub(super) is_caller_closed: bool,
}

/// Closes connections; the caller's own is left to it.
pub(super) fn close(
    session: &Session,
    batch: &mut Batch<'_>,
    mut killed: Vec<Arc<Client>>,
) -> Result<Closed, Failure> {
    let (node, caller) = (batch.node, session.client.id);
    let is_caller = |client: &Arc<Client>| client.id == caller;
    let (executor, _) = batch.executor()?;
    // One that has gone meanwhile, or that another client has killed, is not found.
    killed.retain(|client| is_caller(client) || node.clients.remove(client.id));
    for client in killed.iter().filter(|client| !is_caller(client)) {
        // Nobody finds it any more when the reply is sent, though its worker has yet to close it.
        client.kill();
        executor.forget_client(client);
        client.discount_as_blocked(&node.statistics.blocked);
        node.deliveries.order(client, What::Close);
    }
    if executor.engine.tracking().has_departed() {
        node.signals.activity.notify_all();
    }
    node.deliveries.wake();
    Ok(Closed {
        count: killed.len(),
        is_caller_closed: killed.iter().any(is_caller),
    })
}

fn positive(word: &[u8]) -> Option<u64> {
    let number = parse_integer(word).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0)
}

fn quoting(what: &str, word: &[u8]) -> ErrorReply {
    let word = String::from_utf8_lossy(&word[..word.len().min(BYTES_SHOWN)]);
    ErrorReply::new(format!("ERR {what} '{word}'"))
}

const BYTES_SHOWN: usize = 128;
const NOT_AN_ID: ErrorReply = ErrorReply::fixed("ERR client-id should be greater than 0");
const NOT_AN_AGE: ErrorReply = ErrorReply::fixed("ERR maxage is not an integer or out of range");
