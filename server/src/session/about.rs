//! Commands about the node as a whole: COMMAND, ROLE, BGREWRITEAOF, MODULE, CLUSTER, LASTSAVE,
//! SHUTDOWN.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use quorlock_engine::{
    ErrorReply, Flags, Reply, ReplyBudget, ReplyTooLarge, Spec, all_specs, spec_named,
};

use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::table::{self, ROWS, Row};

pub(crate) fn command(
    _: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let subcommand = arguments.get(1).map(|word| word.to_ascii_lowercase());
    let reply = match (
        subcommand.as_deref(),
        arguments.get(2..).unwrap_or_default(),
    ) {
        (None, _) => Reply::Array(everything()),
        (Some(b"count"), []) => Reply::count(all_specs().count() + ROWS.len()),
        (Some(b"list"), []) => {
            let own = ROWS.iter().map(|row| row.name);
            Reply::Array(
                all_specs()
                    .map(|spec| spec.name)
                    .chain(own)
                    .map(Reply::bulk)
                    .collect(),
            )
        }
        (Some(b"info"), []) => Reply::Array(everything()),
        (Some(b"info"), names) => match describe_all(names, batch.node.settings.reply_budget()) {
            Ok(descriptions) => Reply::Array(descriptions),
            Err(error) => Reply::Error(error.of_command()),
        },
        (Some(b"docs"), names) => docs(names),
        (Some(name @ (b"count" | b"list")), _) => {
            let name = String::from_utf8_lossy(name).into_owned();
            Reply::Error(ErrorReply::wrong_arity(&format!("command|{name}")))
        }
        _ => Reply::Error(ErrorReply::unknown_subcommand("command", arguments[1])),
    };
    Ok(Answer::Reply(reply))
}

fn everything() -> Vec<Reply> {
    all_specs()
        .map(describe_spec)
        .chain(ROWS.iter().map(describe_row))
        .collect()
}

/// One description per name, also where a name is given a thousand times.
fn describe_all(names: &[&[u8]], mut budget: ReplyBudget) -> Result<Vec<Reply>, ReplyTooLarge> {
    let mut descriptions = Vec::new();
    for name in names {
        let description = describe(name);
        budget.charge_reply(&description)?;
        descriptions.push(description);
    }
    Ok(descriptions)
}

fn describe(name: &[u8]) -> Reply {
    match (spec_named(name), table::named(name)) {
        (Some(spec), _) => describe_spec(spec),
        (None, Some(row)) => describe_row(row),
        (None, None) => Reply::Nil,
    }
}

fn describe_spec(spec: &'static Spec) -> Reply {
    let keys = spec.keys;
    let flags = [
        (Flags::WRITE, "write"),
        (Flags::READ, "readonly"),
        (Flags::DENY_OOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::NO_SCRIPT, "noscript"),
        (Flags::FAST, "fast"),
    ];
    let flags: Vec<&'static str> = flags
        .iter()
        .filter(|(flag, _)| spec.flags.contains(*flag))
        .map(|(_, name)| *name)
        .collect();
    describe_words(
        spec.name,
        spec.arity,
        &flags,
        [keys.first, keys.last, keys.step],
    )
}

fn describe_row(row: &'static Row) -> Reply {
    describe_words(row.name, row.arity, row.flags, [0, 0, 0])
}

fn describe_words(name: &str, arity: i8, flags: &[&'static str], keys: [i8; 3]) -> Reply {
    let [first, last, step] = keys.map(|position| Reply::Integer(i64::from(position)));
    Reply::Array(vec![
        Reply::bulk(name),
        Reply::Integer(i64::from(arity)),
        Reply::Set(flags.iter().map(|flag| Reply::status(flag)).collect()),
        first,
        last,
        step,
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}

/// What redis-cli shows as a hint while one types.
fn docs(names: &[&[u8]]) -> Reply {
    // Each command once, however often it is named.
    let named: HashSet<&str> = names
        .iter()
        .filter_map(|name| {
            let own = || table::named(name).map(|row| row.name);
            spec_named(name).map(|spec| spec.name).or_else(own)
        })
        .collect();
    let wanted = |name: &str| names.is_empty() || named.contains(name);
    let document = |name: &'static str, summary: &'static str, group: &'static str| {
        let fields = vec![
            (Reply::bulk("summary"), Reply::bulk(summary)),
            (Reply::bulk("since"), Reply::bulk("1.0.0")),
            (Reply::bulk("group"), Reply::bulk(group)),
        ];
        (Reply::bulk(name), Reply::Map(fields))
    };
    let keys = all_specs().filter(|spec| wanted(spec.name));
    let own = ROWS.iter().filter(|row| wanted(row.name));
    Reply::Map(
        keys.map(|spec| document(spec.name, spec.summary, "generic"))
            .chain(own.map(|row| document(row.name, "See the Quorlock book.", "connection")))
            .collect(),
    )
}

pub(crate) fn cluster(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Result<Answer, Failure> {
    Ok(Answer::Reply(Reply::Error(ErrorReply::fixed(
        "ERR This instance has cluster support disabled",
    ))))
}

pub(crate) fn role(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Result<Answer, Failure> {
    let nothing = Reply::Array(Vec::new());
    Ok(Answer::Reply(Reply::Array(vec![
        Reply::bulk("master"),
        Reply::Integer(0),
        nothing,
    ])))
}

/// BGREWRITEAOF: has the log compacted.
pub(crate) fn bgrewriteaof(
    _: &mut Session,
    batch: &mut Batch<'_>,
    _: &[&[u8]],
) -> Result<Answer, Failure> {
    let node = batch.node;
    let rewrites = &node.rewrites;
    if rewrites.is_running.load(Ordering::Acquire) {
        return Ok(Answer::Reply(Reply::Error(REWRITING)));
    }
    // Maintenance begins at once, except in the restart delay.
    let begins = *node.signals.serving.borrow();
    if rewrites.is_asked.swap(true, Ordering::AcqRel) && begins {
        return Ok(Answer::Reply(Reply::Error(REWRITING)));
    }
    node.signals.activity.notify_one();
    Ok(Answer::Reply(Reply::status(if begins {
        "Background append only file rewriting started"
    } else {
        "Background append only file rewriting scheduled"
    })))
}

pub(crate) fn module(
    _: &mut Session,
    _: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    Ok(Answer::Reply(
        if arguments[1].eq_ignore_ascii_case(b"list") {
            Reply::Array(Vec::new())
        } else {
            Reply::Error(ErrorReply::unknown_subcommand("module", arguments[1]))
        },
    ))
}

/// When everything written was last synced: what LASTSAVE means to a node without snapshots.
pub(crate) fn lastsave(
    _: &mut Session,
    batch: &mut Batch<'_>,
    _: &[&[u8]],
) -> Result<Answer, Failure> {
    let node = batch.node;
    let (_, now) = batch.executor()?;
    let since_ns = node
        .clock
        .raw_ns()
        .saturating_sub(node.commit.last_sync_raw_ns());
    let seconds = (now.wall_us / 1_000_000).saturating_sub(since_ns / 1_000_000_000);
    Ok(Answer::Reply(Reply::Integer(
        i64::try_from(seconds).expect("microseconds of 64 bits are fewer seconds"),
    )))
}

pub(crate) fn shutdown(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let known: [&[u8]; 4] = [b"nosave", b"save", b"now", b"force"];
    let is_known = |word: &&[u8]| known.iter().any(|one| one.eq_ignore_ascii_case(word));
    if let [_, abort] = arguments
        && abort.eq_ignore_ascii_case(b"abort")
    {
        return Ok(Answer::Reply(Reply::Error(ErrorReply::fixed(
            "ERR No shutdown in progress.",
        ))));
    }
    if !arguments[1..].iter().all(is_known) {
        return Ok(Answer::Reply(Reply::Error(ErrorReply::SYNTAX)));
    }
    let address = session.client.address;
    batch.warn(format!("User requested shutdown... client={address}"));
    batch.node.stop();
    Ok(Answer::Close)
}

const REWRITING: ErrorReply =
    ErrorReply::fixed("ERR Background append only file rewriting already in progress");
