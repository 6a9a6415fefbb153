//! COMMAND: what the node says of its commands, those of the engine and its own, this one included.

use std::collections::HashSet;

use quorlock_engine::{
    ErrorReply, Flags, Reply, ReplyBudget, ReplyTooLarge, Spec, all_specs, spec_named,
};

use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::table::{ROWS, Row, row};
use crate::session::{subscriptions, transaction};

/// All commands about the connection and the node.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let others = transaction::ROWS.iter().chain(subscriptions::ROWS);
    ROWS.iter().chain(others).chain([&COMMAND])
}

/// The row for a name in any case.
pub(crate) fn named(name: &[u8]) -> Option<&'static Row> {
    rows().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
}

/// It tells of the table, and so stands above it.
const COMMAND: Row = row("command", -1, command);

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
        (Some(b"count"), []) => Reply::count(all_specs().count() + rows().count()),
        (Some(b"list"), []) => {
            let own = rows().map(|row| row.name);
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
        .chain(rows().map(describe_row))
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
    match (spec_named(name), named(name)) {
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
        (Flags::MOVABLE_KEYS, "movablekeys"),
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
            let own = || named(name).map(|row| row.name);
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
    let own = rows().filter(|row| wanted(row.name));
    Reply::Map(
        keys.map(|spec| document(spec.name, spec.summary, "generic"))
            .chain(own.map(|row| document(row.name, "See the Quorlock book.", "connection")))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_lists_every_command() {
        let book = include_str!("../../../docs/book/compatibility.md");
        let (_, rest) = book.split_once("## Commands").expect("the section");
        let (section, _) = rest.split_once("\n## ").expect("a section after it");
        let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
        let listed: Vec<&str> = section.split(|c: char| !is_part(c)).collect();
        let own = rows().map(|row| row.name);
        for name in all_specs().map(|spec| spec.name).chain(own) {
            assert!(listed.contains(&name.to_uppercase().as_str()), "{name}");
        }
    }
}
