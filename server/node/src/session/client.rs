//! CLIENT: names, ids and lists of connections, and what one of them does to others.

use std::collections::HashSet;

use quorlock_engine::{ErrorReply, RawTime, Reply, ReplyTooLarge, parse_integer};

use crate::core::clients::WaitState;
use crate::core::commit::Failure;
use crate::core::deliveries::What;
use crate::core::pause::HeldUp;
use crate::session::answered::{Answered, Unanswered};
use crate::session::batch::{Answer, Batch};
use crate::session::client_kill::{self, ClientType};
use crate::session::greeting::valid_name;
use crate::session::named_request::{NamedRequest, try_help};
use crate::session::{Session, tracking, waitaof};

pub(crate) fn client(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    let now_raw = batch.raw();
    // Who asks is not idle; the iteration notes it only at its end.
    session.client.touch(now_raw);
    NamedRequest::of(arguments).check()?;
    let subcommand = arguments[1].to_ascii_lowercase();
    let reply = match (subcommand.as_slice(), &arguments[2..]) {
        (b"id", []) => {
            Reply::Integer(i64::try_from(session.client.id).expect("clients are counted from 1"))
        }
        (b"getname", []) => match session.client.introduction().name.as_str() {
            "" => Reply::Nil,
            name => Reply::bulk(name),
        },
        (b"setname", [name]) => {
            session.client.introduction().name = valid_name(name)?;
            Reply::Ok
        }
        (b"setinfo", [attribute, value]) => set_information(session, attribute, value)?,
        (b"info", []) => info(session, batch, now_raw)?,
        (b"list", filter) => list(session, batch, filter, now_raw)?,
        (b"no-evict" | b"no-touch", [switch])
            if [b"on".as_slice(), b"off"]
                .iter()
                .any(|word| word.eq_ignore_ascii_case(switch)) =>
        {
            let is_on = switch.eq_ignore_ascii_case(b"on");
            match &*subcommand {
                b"no-evict" => session.client.spare(is_on),
                _ => session.client.introduction().is_untouching = is_on,
            }
            Reply::Ok
        }
        (b"no-evict" | b"no-touch", [_]) => return Err(ErrorReply::SYNTAX.into()),
        (b"kill", [_, ..]) => return client_kill::kill(session, batch, &arguments[2..]),
        (b"pause", [_] | [_, _]) => pause(batch, &arguments[2..], now_raw)?,
        (b"unpause", []) => {
            batch.node.pause.end();
            batch.node.deliveries.wake_all();
            Reply::Ok
        }
        (b"reply", [mode]) => return Ok(session.set_replies(mode)),
        (b"unblock", [id, reason @ ..]) if reason.len() < 2 => unblock(batch, id, reason)?,
        (b"help", []) => Reply::help("CLIENT", HELP),
        (b"tracking", [switch, options @ ..]) => {
            tracking::tracking(session, batch, switch, options)?
        }
        (b"caching", [choice]) => tracking::caching(session, choice)?,
        (b"trackinginfo", []) => tracking::trackinginfo(session, batch)?,
        (b"getredir", []) => Reply::Integer(session.redirection()),
        // PAUSE and UNBLOCK with too many arguments.
        _ => return Err(try_help("CLIENT", arguments[1]).into()),
    };
    Ok(Answer::Reply(reply))
}

fn set_information(session: &Session, attribute: &[u8], value: &[u8]) -> Result<Reply, ErrorReply> {
    let mut introduction = session.client.introduction();
    if attribute.eq_ignore_ascii_case(b"lib-name") {
        introduction.library_name = valid_name(value)?;
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        introduction.library_version = valid_name(value)?;
    } else {
        let attribute = String::from_utf8_lossy(attribute);
        let error = format!("ERR Unrecognized option '{attribute}'");
        return Err(ErrorReply::new(error));
    }
    Ok(Reply::Ok)
}

/// Lines for people.
fn text(lines: String) -> Reply {
    Reply::Verbatim(*b"txt", lines.into_bytes())
}

fn info(session: &Session, batch: &mut Batch<'_>, now_raw: RawTime) -> Result<Reply, Failure> {
    let (_, now) = batch.executor()?;
    let line = session.client.line(now.node, now_raw, session.query);
    Ok(text(line + "\n"))
}

fn list(
    session: &Session,
    batch: &mut Batch<'_>,
    filter: &[&[u8]],
    now_raw: RawTime,
) -> Result<Reply, Unanswered> {
    let (_, now) = batch.executor()?;
    // Others may execute while many clients are listed.
    batch.release();
    let clients = &batch.node.clients;
    let listed = match filter {
        [] => clients.all(),
        [word, kind] if word.eq_ignore_ascii_case(b"type") => {
            let kind = ClientType::named(kind)?;
            let mut of_kind = clients.all();
            of_kind.retain(|client| kind.is_of(client));
            of_kind
        }
        [word, ids @ ..] if word.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
            let ids: Option<Vec<i64>> = ids.iter().map(|id| parse_integer(id)).collect();
            let ids = ids.ok_or(ErrorReply::fixed("ERR Invalid client ID"))?;
            // Each once, in the order given: a list of names must not multiply what it names.
            let mut named = HashSet::new();
            let ids = ids.into_iter().filter_map(|id| u64::try_from(id).ok());
            let ids = ids.filter(|id| named.insert(*id));
            clients.with_ids_in(&ids.collect::<Vec<_>>())
        }
        _ => return Err(ErrorReply::SYNTAX.into()),
    };
    let mut budget = batch.node.settings.reply_budget();
    let mut lines = String::new();
    for client in listed {
        let query = match client.id == session.client.id {
            // What it asks with is not noted: it is gone at the end of the iteration.
            true => session.query,
            false => client.query(),
        };
        let line = client.line(now.node, now_raw, query);
        let charged = budget.charge_memory(line.len() + 1);
        charged.map_err(ReplyTooLarge::of_command)?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(text(lines))
}

fn pause(batch: &Batch<'_>, arguments: &[&[u8]], now_raw: RawTime) -> Result<Reply, ErrorReply> {
    let holds_up = match arguments.get(1) {
        None => HeldUp::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"all") => HeldUp::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"write") => HeldUp::Writes,
        Some(_) => return Err(PAUSE_MODE),
    };
    let timeout_ms = waitaof::timeout(arguments[0])?;
    let until_raw = now_raw.plus_nanos(timeout_ms.saturating_mul(1_000_000));
    batch.node.pause.begin(now_raw, until_raw, holds_up);
    Ok(Reply::Ok)
}

/// What a request asks of: this connection, or others and the node.
pub(super) fn reach(arguments: &[&[u8]]) -> Reach {
    let subcommand = arguments.get(1).copied().unwrap_or_default();
    match &*subcommand.to_ascii_lowercase() {
        b"list" | b"kill" | b"pause" | b"unpause" | b"unblock" => Reach::Others,
        b"id" | b"getname" | b"info" | b"trackinginfo" | b"getredir" | b"help" => Reach::Nothing,
        _ => Reach::Connection,
    }
}

/// What a command may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Nothing,
    /// This connection.
    Connection,
    /// Other connections, or the node; or it looks at many of them.
    Others,
}

/// Whether a request of CLIENT ends a pause. It is executed in one, so that a pause of everything can be ended before its
/// time.
pub(super) fn ends_pause(arguments: &[&[u8]]) -> bool {
    matches!(arguments, [_, subcommand] if subcommand.eq_ignore_ascii_case(b"unpause"))
}

/// Ends what another client waits for. One that a pause holds up is not blocked.
fn unblock(batch: &mut Batch<'_>, id: &[u8], reason: &[&[u8]]) -> Result<Reply, Unanswered> {
    let is_error = match reason.first() {
        None => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"timeout") => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"error") => true,
        Some(_) => return Err(UNBLOCK_REASON.into()),
    };
    let id = parse_integer(id).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let found = u64::try_from(id).map(|id| batch.node.clients.with_ids_in(&[id]));
    let Some(client) = found.ok().and_then(|found| found.into_iter().next()) else {
        return Ok(Reply::Integer(0));
    };
    let (executor, _) = batch.executor()?;
    if executor.engine.stop_waiting(client.id) {
        client.note_waiting(WaitState::Unblocked);
    } else if !client.claim_wait(WaitState::Unblocked) {
        return Ok(Reply::Integer(0));
    }
    let deliveries = &batch.node.deliveries;
    deliveries.order(&client, What::Unblock { is_error });
    deliveries.wake();
    Ok(Reply::Integer(1))
}

const PAUSE_MODE: ErrorReply = ErrorReply::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL");
const UNBLOCK_REASON: ErrorReply =
    ErrorReply::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");

const HELP: &[&str] = &[
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "    * ID <client-id>",
    "      Kill the connection with this ID.",
    "    * MAXAGE <seconds>",
    "      Kill connections that are at least so old.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "    * ID <client-id> [<client-id> ...]",
    "      Return the clients with these IDs.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "NO-EVICT (ON|OFF)",
    "    Close current connection after all others when clients hold too much.",
    "NO-TOUCH (ON|OFF)",
    "    Has no effect: nothing is kept of when a key was used.",
];
