//! Commands about the node as a whole: ROLE, BGREWRITEAOF, SAVE, BGSAVE, MODULE, CLUSTER and its kin,
//! LASTSAVE, SHUTDOWN.

use std::sync::atomic::Ordering;

use quorlock_engine::{ErrorReply, Reply};

use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;

pub(crate) fn cluster(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    Err(ErrorReply::fixed("ERR This instance has cluster support disabled").into())
}

/// SAVE: there are no snapshots to write.
pub(crate) fn save(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    Err(NO_SNAPSHOTS.into())
}

/// BGSAVE, with Redis's grammar.
pub(crate) fn bgsave(_: &mut Session, _: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    match &arguments[1..] {
        [] => Err(NO_SNAPSHOTS.into()),
        [word] if word.eq_ignore_ascii_case(b"schedule") => Err(NO_SNAPSHOTS.into()),
        _ => Err(ErrorReply::SYNTAX.into()),
    }
}

pub(crate) fn role(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let nothing = Reply::Array(Vec::new());
    Ok(Answer::Reply(Reply::Array(vec![
        Reply::bulk("master"),
        Reply::Integer(0),
        nothing,
    ])))
}

/// BGREWRITEAOF: has the log compacted.
pub(crate) fn bgrewriteaof(_: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let node = batch.node;
    let rewrites = &node.rewrites;
    if rewrites.is_running.load(Ordering::Acquire) {
        return Err(REWRITING.into());
    }
    // Maintenance begins at once, except in the restart delay.
    let begins = node.signals.serving.is_set();
    if rewrites.is_asked.swap(true, Ordering::AcqRel) && begins {
        return Err(REWRITING.into());
    }
    node.signals.activity.notify_all();
    Ok(Answer::Reply(Reply::status(if begins {
        "Background append only file rewriting started"
    } else {
        "Background append only file rewriting scheduled"
    })))
}

pub(crate) fn module(_: &mut Session, _: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    if let b"load" | b"loadex" | b"unload" = &*arguments[1].to_ascii_lowercase() {
        return Err(NO_MODULES.into());
    }
    let request = NamedRequest::of(arguments);
    request.check()?;
    Ok(Answer::Reply(match request.names().1 {
        "list" => Reply::Array(Vec::new()),
        _ => Reply::help("MODULE", MODULE_HELP),
    }))
}

/// When everything written was last synced: what LASTSAVE means to a node without snapshots.
pub(crate) fn lastsave(_: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let node = batch.node;
    let (_, now) = batch.executor()?;
    let since_ns = batch.raw().nanos_since(node.commit.last_sync_raw());
    let seconds = (now.wall_us / 1_000_000).saturating_sub(since_ns / 1_000_000_000);
    let seconds = i64::try_from(seconds).expect("microseconds of 64 bits are fewer seconds");
    Ok(Answer::Reply(Reply::Integer(seconds)))
}

pub(crate) fn shutdown(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    let words = &arguments[1..];
    let has = |name: &[u8]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    let is_one_of =
        |known: &[&[u8]], word: &&[u8]| known.iter().any(|one| one.eq_ignore_ascii_case(word));
    let known: &[&[u8]] = match has(b"abort") {
        true => &[b"abort"],
        false => &[b"nosave", b"save", b"now", b"force"],
    };
    let contradicts = has(b"save") && has(b"nosave");
    if contradicts || !words.iter().all(|word| is_one_of(known, word)) {
        return Err(ErrorReply::SYNTAX.into());
    }
    if has(b"abort") {
        return Err(ErrorReply::fixed("ERR No shutdown in progress.").into());
    }
    let address = &session.client.address;
    batch.warn(format!("User requested shutdown... client={address}"));
    batch.node.stop();
    Ok(Answer::Close)
}

const REWRITING: ErrorReply =
    ErrorReply::fixed("ERR Background append only file rewriting already in progress");

const NO_SNAPSHOTS: ErrorReply = ErrorReply::fixed(
    "ERR this node writes no RDB files: its log holds every key. BGREWRITEAOF compacts it, WAITAOF waits until \
     what was written is on disk, and LASTSAVE tells when everything last was",
);

const NO_MODULES: ErrorReply = ErrorReply::fixed(
    "ERR this node loads no modules: code that was not tested with it could break its locks. Remove the module, or \
     run it in a Redis of its own",
);

const MODULE_HELP: &[&str] = &["LIST", "    Return a list of loaded modules: always empty."];
