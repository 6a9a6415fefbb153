//! COMMAND: what the node says of its commands, those of the engine and its own, this one included.

use std::collections::BTreeMap;

use quorlock_engine::{
    Categories, Description, Documentation, ErrorReply, GlobBudget, KeyPositions,
    PATTERN_BYTES_MAX, PATTERN_TOO_EXPENSIVE, PATTERN_TOO_LONG, Reply, ReplyBudget, ReplyTooLarge,
    Spec, all_specs, spec_named,
};

use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::made_once::MadeOnce;
use crate::session::named_request::NamedRequest;
use crate::session::request_keys::keys_of;
use crate::session::syntax;

/// Redis's name of a subcommand: `client|kill`.
fn full_name(command: &Description, part: &Description) -> String {
    format!("{}|{}", command.name, part.name)
}

/// All commands, without their parts.
pub(crate) fn descriptions() -> impl Iterator<Item = Description> {
    all_specs().map(Spec::description)
}

/// The command of this name, in any case.
fn described(name: &[u8]) -> Option<Description> {
    spec_named(name).map(Spec::description)
}

pub(crate) fn command(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    if arguments.len() < 2 {
        return Ok(Answer::Made(&EVERYTHING));
    }
    let request = NamedRequest::of(arguments);
    request.check()?;
    let reply = match (request.names().1, &arguments[2..]) {
        ("count", _) => Reply::count(descriptions().count()),
        ("list", filter) => list(filter)?,
        ("info", []) => return Ok(Answer::Made(&EVERYTHING)),
        ("info", names) => {
            let described = describe_all(names, batch.node.settings.reply_budget());
            Reply::Array(described.map_err(ReplyTooLarge::of_command)?)
        }
        ("docs", []) => return Ok(Answer::Made(&ALL_DOCUMENTS)),
        ("docs", names) => documents_of(names),
        ("getkeys", request) => keys_of(described(request[0]), request, false)?,
        ("getkeysandflags", request) => keys_of(described(request[0]), request, true)?,
        _ => Reply::help("COMMAND", HELP),
    };
    Ok(Answer::Reply(reply))
}

/// All commands and subcommands, or those that match.
fn list(filter: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let is = |word: &[u8], expected: &[u8]| word.eq_ignore_ascii_case(expected);
    let (pattern, category) = match filter {
        [] => (None, None),
        [by, kind, value] if is(by, b"filterby") => match *kind {
            // There are none.
            kind if is(kind, b"module") => return Ok(Reply::Array(Vec::new())),
            kind if is(kind, b"pattern") => (Some(*value), None),
            kind if is(kind, b"aclcat") => (None, Some(Categories::named(value))),
            _ => return Err(ErrorReply::SYNTAX),
        },
        _ => return Err(ErrorReply::SYNTAX),
    };
    if pattern.is_some_and(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
        return Err(PATTERN_TOO_LONG);
    }
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let mut budget = GlobBudget::default();
    let mut is_wanted = |name: &str, description: &Description| {
        let is_in = category.is_none_or(|category| {
            category.is_some_and(|category| description.categories().contains(category))
        });
        match &pattern {
            Some(pattern) => match budget.matches(pattern, name.as_bytes()) {
                Ok(is_match) => Ok(is_match && is_in),
                Err(_) => Err(PATTERN_TOO_EXPENSIVE),
            },
            None => Ok(is_in),
        }
    };
    let mut names = Vec::new();
    for command in descriptions() {
        if is_wanted(command.name, &command)? {
            names.push(Reply::bulk(command.name));
        }
        for part in command.about.subcommands {
            let name = full_name(&command, part);
            if is_wanted(&name, part)? {
                names.push(Reply::bulk(name));
            }
        }
    }
    Ok(Reply::Array(names))
}

/// Many clients ask for these two as they connect.
static EVERYTHING: MadeOnce = MadeOnce::new(|| {
    let all = descriptions().map(|one| describe(one.name, &one));
    Reply::Array(all.collect())
});

static ALL_DOCUMENTS: MadeOnce = MadeOnce::new(|| {
    let all = descriptions().map(|one| document(one.name.to_owned(), &one, one.group()));
    Reply::Map(all.collect())
});

/// One description per name, also where a name is given a thousand times.
fn describe_all(names: &[&[u8]], mut budget: ReplyBudget) -> Result<Vec<Reply>, ReplyTooLarge> {
    let mut descriptions = Vec::new();
    for name in names {
        let description = describe_named(name).unwrap_or(Reply::Nil);
        budget.charge_reply(&description)?;
        descriptions.push(description);
    }
    Ok(descriptions)
}

fn describe_named(name: &[u8]) -> Option<Reply> {
    let (command, part) = find(name)?;
    Some(match part {
        None => describe(command.name, &command),
        Some(part) => describe(&full_name(&command, &part), &part),
    })
}

/// The command and subcommand of a name such as `get` or `client|kill`.
fn find(name: &[u8]) -> Option<(Description, Option<Description>)> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let command = described(words.next()?)?;
    let part = match words.next() {
        None => None,
        Some(part) => Some(command.part(part)?),
    };
    Some((command, part))
}

/// As Redis describes it; without hints and key specifications, which no client needs.
fn describe(name: &str, command: &Description) -> Reply {
    let keys = match command.is_divided() {
        true => KeyPositions::NONE,
        false => command.keys,
    };
    let [first, last, step] =
        [keys.first, keys.last, keys.step].map(|position| Reply::Integer(position.into()));
    let words =
        |words: Vec<&'static str>| Reply::Set(words.into_iter().map(Reply::status).collect());
    let parts = command.about.subcommands.iter();
    let parts = parts.map(|part| describe(&full_name(command, part), part));
    Reply::Array(vec![
        Reply::bulk(name),
        Reply::Integer(i64::from(command.arity)),
        words(command.flag_words()),
        first,
        last,
        step,
        words(command.category_words()),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
        Reply::Set(parts.collect()),
    ])
}

/// What redis-cli shows as a hint while one types; each command once, however often it is named.
fn documents_of(names: &[&[u8]]) -> Reply {
    let mut documents = BTreeMap::new();
    for (command, part) in names.iter().filter_map(|name| find(name)) {
        let part_name = part.as_ref().map(|part| part.name);
        let make = || match &part {
            None => document(command.name.to_owned(), &command, command.group()),
            Some(part) => document(full_name(&command, part), part, command.group()),
        };
        documents
            .entry((command.name, part_name))
            .or_insert_with(make);
    }
    Reply::Map(documents.into_values().collect())
}

fn document(name: String, command: &Description, group: &'static str) -> (Reply, Reply) {
    let read = Documentation::of(&name);
    let mut fields = vec![
        (Reply::bulk("summary"), Reply::bulk(read.summary)),
        (Reply::bulk("since"), Reply::bulk(read.since)),
        (Reply::bulk("group"), Reply::bulk(group)),
    ];
    if let Some(arguments) = syntax::document(read.syntax) {
        fields.push((Reply::bulk("arguments"), arguments));
    }
    if !command.about.subcommands.is_empty() {
        let parts = command.about.subcommands.iter();
        let parts = parts.map(|part| document(full_name(command, part), part, group));
        fields.push((Reply::bulk("subcommands"), Reply::Map(parts.collect())));
    }
    (Reply::bulk(name), Reply::Map(fields))
}

const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this node.",
    "LIST",
    "    Return a list of all commands in this node.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full command.",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// With this the syntax of no command can have been forgotten: where it is empty there are no arguments.
    #[test]
    fn the_syntax_of_every_command_agrees_with_its_arity() {
        let check = |name: &str, words: usize, command: &Description| {
            let syntax = Documentation::of(name).syntax;
            let Some(arguments) = syntax::parse(syntax) else {
                panic!("{name}: {syntax}");
            };
            let least = arguments.iter().map(syntax::Argument::words_min);
            let least = words + least.sum::<usize>();
            assert_eq!(usize::from(command.arity.unsigned_abs()), least, "{name}");
            let is_fixed = arguments.iter().all(syntax::Argument::is_fixed);
            assert_eq!(command.arity > 0, is_fixed, "{name}");
        };
        for command in descriptions() {
            match command.name {
                // As in Redis it takes any arguments, and does nothing with them.
                "quit" => assert_eq!(Documentation::of("quit").syntax, ""),
                name if command.about.subcommands.is_empty() => check(name, 1, &command),
                name => assert_eq!(Documentation::of(name).syntax, "", "{name}"),
            }
            for part in command.about.subcommands {
                check(&full_name(&command, part), 2, part);
            }
        }
    }

    #[test]
    fn the_book_lists_every_command() {
        let book = include_str!("../../../../docs/book/compatibility.md");
        let (_, rest) = book.split_once("## Commands").expect("the section");
        let (section, _) = rest.split_once("\n## ").expect("a section after it");
        let is_part = |c: char| c.is_ascii_uppercase() || matches!(c, '_' | '.' | '-');
        let words = section.split(|c: char| !is_part(c));
        let listed: Vec<&str> = words.map(|word| word.trim_matches('.')).collect();
        for name in all_specs().map(|spec| spec.name) {
            assert!(listed.contains(&name.to_uppercase().as_str()), "{name}");
        }
    }

    #[test]
    fn a_command_that_is_named_a_thousand_times_is_told_of_once() {
        let names: Vec<&[u8]> =
            [&b"get"[..], b"GET", b"client|kill", b"none", b"client|none"].repeat(200);
        let Reply::Map(documents) = documents_of(&names) else {
            panic!("it tells of them in a map");
        };
        let names: Vec<&Reply> = documents.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&Reply::bulk("client|kill"), &Reply::bulk("get")]);
    }
}
