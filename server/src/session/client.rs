//! CLIENT: names, ids and lists of connections.

use std::collections::BTreeSet;

use quorlock_engine::{ErrorReply, RawTime, Reply, parse_integer};

use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::greeting::valid_name;
use crate::session::tracking;

pub(crate) fn client(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let now_raw = batch.node.clock.raw();
    // Who asks is not idle; the iteration notes it only at its end.
    session.client.touch(now_raw);
    let subcommand = arguments[1].to_ascii_lowercase();
    let reply = match (subcommand.as_slice(), &arguments[2..]) {
        (b"id", []) => {
            Reply::Integer(i64::try_from(session.client.id).expect("clients are counted from 1"))
        }
        (b"getname", []) => match session.client.introduction().name.as_str() {
            "" => Reply::Nil,
            name => Reply::bulk(name),
        },
        (b"setname", [name]) => set(name, |name| session.client.introduction().name = name),
        (b"setinfo", [attribute, value]) => set_information(session, attribute, value),
        (b"info", []) => Reply::bulk(session.client.line(now_raw) + "\n"),
        (b"list", filter) => list(batch, filter, now_raw),
        (b"no-evict" | b"no-touch", [switch])
            if [b"on".as_slice(), b"off"]
                .iter()
                .any(|word| word.eq_ignore_ascii_case(switch)) =>
        {
            // There is no access time to leave untouched.
            if subcommand == b"no-evict" {
                session.client.spare(switch.eq_ignore_ascii_case(b"on"));
            }
            Reply::Ok
        }
        (b"no-evict" | b"no-touch", [_]) => Reply::Error(ErrorReply::SYNTAX),
        (b"id" | b"getname" | b"setname" | b"setinfo" | b"info" | b"no-evict" | b"no-touch", _) => {
            let name = String::from_utf8_lossy(&subcommand).into_owned();
            Reply::Error(ErrorReply::wrong_arity(&format!("client|{name}")))
        }
        (b"tracking", [switch, options @ ..]) => {
            tracking::tracking(session, batch, switch, options)?
        }
        (b"caching", [choice]) => tracking::caching(session, choice),
        (b"trackinginfo", []) => tracking::trackinginfo(session, batch)?,
        (b"getredir", []) => Reply::Integer(session.redirection()),
        (b"tracking" | b"caching" | b"trackinginfo" | b"getredir", _) => {
            let name = String::from_utf8_lossy(&subcommand).into_owned();
            Reply::Error(ErrorReply::wrong_arity(&format!("client|{name}")))
        }
        _ => Reply::Error(ErrorReply::unknown_subcommand("client", arguments[1])),
    };
    Ok(Answer::Reply(reply))
}

fn set(value: &[u8], store: impl FnOnce(String)) -> Reply {
    match valid_name(value) {
        Ok(value) => {
            store(value);
            Reply::Ok
        }
        Err(error) => Reply::Error(error),
    }
}

fn set_information(session: &Session, attribute: &[u8], value: &[u8]) -> Reply {
    let mut introduction = session.client.introduction();
    if attribute.eq_ignore_ascii_case(b"lib-name") {
        set(value, |value| introduction.library_name = value)
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        set(value, |value| introduction.library_version = value)
    } else {
        let attribute = String::from_utf8_lossy(attribute).into_owned();
        Reply::Error(ErrorReply::new(format!(
            "ERR Unrecognized option '{attribute}'"
        )))
    }
}

fn list(batch: &Batch<'_>, filter: &[&[u8]], now_raw: RawTime) -> Reply {
    let clients = &batch.node.clients;
    let listed = match filter {
        [] => clients.all(),
        // There are no replicas.
        [word, kind] if word.eq_ignore_ascii_case(b"type") => {
            let listens = kind.eq_ignore_ascii_case(b"pubsub");
            let mut of_kind = clients.all();
            if !listens && !kind.eq_ignore_ascii_case(b"normal") {
                of_kind.clear();
            }
            of_kind.retain(|client| client.introduction().listening.is_any() == listens);
            of_kind
        }
        [word, ids @ ..] if word.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
            let ids: Option<BTreeSet<u64>> = ids
                .iter()
                .map(|id| u64::try_from(parse_integer(id)?).ok())
                .collect();
            match ids {
                Some(ids) => clients.with_ids(&ids),
                None => return Reply::Error(ErrorReply::fixed("ERR Invalid client ID")),
            }
        }
        _ => return Reply::Error(ErrorReply::SYNTAX),
    };
    let mut budget = batch.node.settings.reply_budget();
    let mut lines = String::new();
    for client in listed {
        let line = client.line(now_raw);
        if let Err(error) = budget.charge_memory(line.len() + 1) {
            return Reply::Error(error.of_command());
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    Reply::bulk(lines)
}
