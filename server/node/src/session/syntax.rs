//! The syntax of a command's arguments: one line in a table of commands, and the tree that COMMAND DOCS makes of it.
//!
//! The notation is that of Redis's documentation, `key value [condition: NX|XX] [GET] [key [key ...]]`:
//!
//! * A word in capitals is sent as it stands. It belongs to the argument behind it, if there is one: `EX seconds`. Of
//!   several arguments in brackets it belongs to all of them: `[LIMIT offset count]`.
//! * Another word is the name of an argument. Redis's type for such a name is in [`TYPES`], or stands behind a colon
//!   where Redis is of two minds: `timeout:double`.
//! * `[a]` may be left out, of `<a|b>` one is sent, and of `[a|b]` one or none.
//! * `[a ...]` repeats what stands before it, which is written again, and `[...]` repeats the argument before it.
//! * A word with a colon behind it, first in brackets, is the name of what they hold. Without it the parts' names are
//!   joined: `score_member`.
//!
//! A line is parsed only when it is asked for. One that cannot be parsed is left out; a test holds that there is none.

use quorlock_engine::Reply;

/// An argument in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    name: String,
    /// Redis's word.
    kind: &'static str,
    /// The word in capitals before it, or all there is to it.
    token: Option<String>,
    is_optional: bool,
    is_multiple: bool,
    /// The token is sent again with each repetition.
    repeats_token: bool,
    parts: Vec<Argument>,
}

/// The `arguments` of COMMAND DOCS; none where nothing can be said.
pub(crate) fn document(syntax: &str) -> Option<Reply> {
    let arguments = parse(syntax).filter(|arguments| !arguments.is_empty())?;
    Some(replies(&arguments, &mut 0))
}

/// The tree; none where a line is garbled.
pub(crate) fn parse(syntax: &str) -> Option<Vec<Argument>> {
    let mut parser = SyntaxReader {
        rest: syntax,
        depth: 0,
    };
    let mut group = parser.group("")?;
    let is_sequence = group.alternatives.len() == 1 && group.name.is_none() && !group.repeats;
    group.alternatives.pop().filter(|_| is_sequence)
}

/// All arguments; keys among them are numbered.
fn replies(arguments: &[Argument], keys: &mut i64) -> Reply {
    let replies = arguments.iter().map(|argument| argument.reply(keys));
    Reply::Array(replies.collect())
}

impl Argument {
    fn new(name: &str, kind: &'static str) -> Argument {
        Argument {
            name: name.to_owned(),
            kind,
            token: None,
            is_optional: false,
            is_multiple: false,
            repeats_token: false,
            parts: Vec::new(),
        }
    }

    /// A word that is not in capitals.
    fn named(word: &str) -> Argument {
        let of_name = |name: &str| {
            let mut types = TYPES.iter();
            types.find(|(_, names)| names.split(' ').any(|one| one == name))
        };
        let stated = word.rsplit_once(':').and_then(|(name, kind)| {
            let kind = TYPES
                .iter()
                .map(|(known, _)| *known)
                .find(|known| *known == kind);
            Some((name, kind?))
        });
        let (name, kind) =
            stated.unwrap_or_else(|| (word, of_name(word).map_or(STRING, |(kind, _)| kind)));
        Argument::new(name, kind)
    }

    fn pure_token(token: &str) -> Argument {
        let mut argument = Argument::new(&token.to_lowercase(), PURE_TOKEN);
        argument.token = Some(token.to_owned());
        argument
    }

    /// One argument of several.
    fn joined(kind: &'static str, parts: Vec<Argument>) -> Argument {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let mut argument = Argument::new(&names.join("_"), kind);
        argument.parts = parts;
        argument
    }

    /// What is sent together: the argument itself if it is the only one. None if there is none.
    fn block(mut parts: Vec<Argument>) -> Option<Argument> {
        if parts.len() < 2 {
            return parts.pop();
        }
        let first = &mut parts[0];
        let has_argument = first.kind != PURE_TOKEN && !first.is_optional;
        let token = first.token.take_if(|_| has_argument);
        let mut block = Argument::joined(BLOCK, parts);
        block.token = token;
        Some(block)
    }

    /// As Redis says it, its fields in Redis's order.
    fn reply(&self, keys: &mut i64) -> Reply {
        let mut fields = vec![
            (Reply::bulk("name"), Reply::bulk(&self.name)),
            (Reply::bulk("type"), Reply::bulk(self.kind)),
        ];
        if self.kind == KEY {
            fields.push((Reply::bulk("key_spec_index"), Reply::Integer(*keys)));
            *keys += 1;
        }
        if let Some(token) = &self.token {
            fields.push((Reply::bulk("token"), Reply::bulk(token)));
        }
        let flags = [
            (self.is_optional, "optional"),
            (self.is_multiple, "multiple"),
            (self.repeats_token, "multiple_token"),
        ];
        let flags = flags.iter().filter(|(is_so, _)| *is_so);
        let flags: Vec<Reply> = flags.map(|(_, word)| Reply::status(word)).collect();
        if !flags.is_empty() {
            fields.push((Reply::bulk("flags"), Reply::Set(flags)));
        }
        if !self.parts.is_empty() {
            fields.push((Reply::bulk("arguments"), replies(&self.parts, keys)));
        }
        Reply::Map(fields)
    }
}

/// What stands in brackets, or the whole line.
struct Group {
    name: Option<String>,
    alternatives: Vec<Vec<Argument>>,
    /// It ends with dots.
    repeats: bool,
}

impl Group {
    fn into_argument(self) -> Option<Argument> {
        let alternatives = self.alternatives.into_iter().map(Argument::block);
        let mut alternatives = alternatives.collect::<Option<Vec<_>>>()?;
        let mut argument = match alternatives.len() {
            1 => alternatives.pop()?,
            _ => Argument::joined(ONE_OF, alternatives),
        };
        if let Some(name) = self.name {
            argument.name = name;
        }
        Some(argument).filter(|_| !self.repeats)
    }

    /// Makes one repeated argument of the last ones, which are the same as these.
    fn repeat(mut self, arguments: &mut Vec<Argument>) -> Option<()> {
        let again = self.alternatives.pop()?;
        if !self.alternatives.is_empty() || self.name.is_some() {
            return None;
        }
        let count = again.len().max(1);
        let mut before = arguments.split_off(arguments.len().checked_sub(count)?);
        let is_same = again.is_empty() || before == again;
        if !is_same {
            let token = before[0].token.take();
            if before != again {
                return None;
            }
            before[0].token = token;
        }
        let mut repeated = Argument::block(before)?;
        repeated.is_multiple = true;
        repeated.repeats_token = is_same && !again.is_empty() && repeated.token.is_some();
        arguments.push(repeated);
        Some(())
    }
}

struct SyntaxReader<'a> {
    rest: &'a str,
    /// How many brackets are open.
    depth: usize,
}

impl<'a> SyntaxReader<'a> {
    /// The next word or bracket; empty at the end.
    fn symbol(&mut self) -> &'a str {
        let rest = self.rest.trim_start_matches(' ');
        let end = match rest.find([' ', '[', ']', '<', '>', '|']) {
            Some(0) => 1,
            Some(end) => end,
            None => rest.len(),
        };
        let (symbol, rest) = rest.split_at(end);
        self.rest = rest;
        symbol
    }

    /// What stands before this bracket, or before the end of the line.
    fn group(&mut self, close: &str) -> Option<Group> {
        let mut group = Group {
            name: None,
            alternatives: Vec::new(),
            repeats: false,
        };
        let mut sequence = Sequence::default();
        let mut is_first = true;
        loop {
            let symbol = self.symbol();
            if group.repeats && symbol != close {
                return None;
            }
            match symbol {
                _ if symbol == close => {
                    group.alternatives.push(sequence.finish());
                    return Some(group);
                }
                "|" => group
                    .alternatives
                    .push(std::mem::take(&mut sequence).finish()),
                "[" => {
                    let inner = self.inner("]")?;
                    sequence.end_token();
                    if inner.repeats {
                        inner.repeat(&mut sequence.arguments)?;
                    } else {
                        let mut argument = inner.into_argument()?;
                        argument.is_optional = true;
                        sequence.arguments.push(argument);
                    }
                }
                "<" => sequence.push(self.inner(">")?.into_argument()?)?,
                "..." => group.repeats = true,
                _ => match symbol.strip_suffix(':') {
                    Some(name) if is_first && is_word(name) => group.name = Some(name.to_owned()),
                    _ if is_token(symbol) => {
                        sequence.end_token();
                        sequence.token = Some(symbol);
                    }
                    _ if is_word(symbol) => sequence.push(Argument::named(symbol))?,
                    _ => return None,
                },
            }
            is_first = false;
        }
    }

    fn inner(&mut self, close: &str) -> Option<Group> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let group = self.group(close);
        self.depth -= 1;
        group
    }
}

/// Arguments in turn, as far as they were read.
#[derive(Default)]
struct Sequence<'a> {
    arguments: Vec<Argument>,
    /// It may belong to the next argument.
    token: Option<&'a str>,
}

impl Sequence<'_> {
    /// Adds an argument, with the token before it. None if it has one of its own.
    fn push(&mut self, mut argument: Argument) -> Option<()> {
        if let Some(token) = self.token.take() {
            if argument.token.is_some() {
                return None;
            }
            argument.token = Some(token.to_owned());
        }
        self.arguments.push(argument);
        Some(())
    }

    /// The token before belongs to nothing.
    fn end_token(&mut self) {
        let token = self.token.take().map(Argument::pure_token);
        self.arguments.extend(token);
    }

    fn finish(mut self) -> Vec<Argument> {
        self.end_token();
        self.arguments
    }
}

fn is_token(symbol: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    !symbol.is_empty() && symbol.bytes().all(is_part)
}

/// A name in Redis's documentation, such as `ip:port` and `sha1`.
fn is_word(symbol: &str) -> bool {
    let is_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_:/".contains(&byte);
    let has_ends =
        symbol.starts_with(|first: char| first.is_ascii_lowercase()) && !symbol.ends_with(':');
    has_ends && symbol.bytes().all(is_part)
}

/// The deepest line of Redis's has four.
const DEPTH_MAX: usize = 8;

const STRING: &str = "string";
const KEY: &str = "key";
const PURE_TOKEN: &str = "pure-token";
const ONE_OF: &str = "oneof";
const BLOCK: &str = "block";

/// The type of arguments that are not strings, by their names.
const TYPES: &[(&str, &str)] = &[
    (KEY, "key newkey source destination src dst"),
    ("pattern", "pattern"),
    ("unix-time", "unix-time-seconds unix-time-milliseconds"),
    ("double", "score"),
    (
        "integer",
        "client-id count cursor db decrement destination-db end frequency increment index len limit maxage \
         milliseconds num-matches numkeys numlocal numreplicas offset protover rank seconds start stop ttl weight",
    ),
    (STRING, ""),
];

#[cfg(test)]
impl Argument {
    /// The least number of words that it takes.
    pub(crate) fn words_min(&self) -> usize {
        let parts = || self.parts.iter().map(Argument::words_min);
        let own = match self.kind {
            PURE_TOKEN => 0,
            // One of them is sent, also where each may be left out.
            ONE_OF => parts().min().unwrap_or_default().max(1),
            BLOCK => parts().sum(),
            _ => 1,
        };
        match self.is_optional {
            true => 0,
            false => own + usize::from(self.token.is_some()),
        }
    }

    /// Whether it always takes as many.
    pub(crate) fn is_fixed(&self) -> bool {
        let mut parts = self.parts.iter();
        let first = self.parts.first().map(Argument::words_min);
        let is_same = |part: &Argument| self.kind != ONE_OF || Some(part.words_min()) == first;
        !self.is_optional && !self.is_multiple && parts.all(|part| part.is_fixed() && is_same(part))
    }
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
