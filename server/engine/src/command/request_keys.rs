//! Which arguments of a request are keys, and what its command does with them.

use crate::command::about::{Description, KeyAccess};
use crate::command::spec::{Flags, is_arity};
use crate::error::ErrorReply;
use crate::number::parse_integer;

/// A key of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestKey<'a> {
    /// The key.
    pub name: &'a [u8],
    /// What the command does with it.
    pub access: KeyAccess,
}

/// The keys that a request of this command names. A script may use others, which it must not.
///
/// # Errors
/// As COMMAND GETKEYS has them: where the command has no keys, or the request is not one of it.
pub fn keys_of_request<'a>(
    command: Description,
    request: &[&'a [u8]],
) -> Result<Vec<RequestKey<'a>>, ErrorReply> {
    let command = match command.is_divided() {
        true => command
            .part(request.get(1).copied().unwrap_or_default())
            .ok_or(INVALID_COMMAND)?,
        false => command,
    };
    let is_channel = command.about.access.contains(&KeyAccess::NOT_KEY);
    let has_fixed = command.keys.first > 0 && !is_channel;
    if !has_fixed && command.about.key_count_at == 0 {
        return Err(NO_KEYS);
    }
    if !is_arity(command.arity, request.len()) {
        return Err(INVALID_ARITY);
    }
    let mut positions = Vec::new();
    if has_fixed {
        positions.extend(fixed(&command, request.len()));
    }
    if command.about.key_count_at > 0 {
        let counted = counted(&command, request);
        if counted.is_none() && !command.flags.contains(Flags::NO_MANDATORY_KEYS) {
            return Err(INVALID_ARGUMENTS);
        }
        positions.extend(counted.unwrap_or_default());
    }
    if command.name == "sort" {
        positions.extend(destination(request));
    }
    let keys = positions
        .into_iter()
        .enumerate()
        .map(|(number, position)| RequestKey {
            name: request[position],
            access: access(&command, number, request),
        });
    Ok(keys.collect())
}

/// Positions below the number of words.
fn fixed(command: &Description, words: usize) -> impl Iterator<Item = usize> {
    let keys = command.keys;
    let position = |position: i8| usize::from(position.unsigned_abs());
    let last = match keys.last < 0 {
        true => words.saturating_sub(position(keys.last)),
        false => position(keys.last).min(words.saturating_sub(1)),
    };
    (position(keys.first)..=last).step_by(position(keys.step).max(1))
}

/// `None` where the count is no number, less than one, or more than there are.
fn counted(command: &Description, request: &[&[u8]]) -> Option<std::ops::Range<usize>> {
    let at = command.about.key_count_at;
    let count = usize::try_from(parse_integer(request.get(at)?)?).ok()?;
    if count == 0 {
        return None;
    }
    let first = at.checked_add(1)?;
    let end = first.checked_add(count)?;
    (end <= request.len()).then_some(first..end)
}

/// The key behind the last STORE of a SORT, which may stand anywhere among its options.
fn destination(request: &[&[u8]]) -> Option<usize> {
    let mut found = None;
    let mut words = request.iter().enumerate().skip(2);
    while let Some((_, word)) = words.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"store") {
            found = words.next().map(|(position, _)| position).or(found);
        } else if is(b"limit") {
            words.nth(1);
        } else if is(b"by") || is(b"get") {
            words.next();
        }
    }
    found
}

/// Whether all operations of a BITFIELD only read. As in Redis one that is garbled may be anything.
fn only_reads(mut operations: &[&[u8]]) -> bool {
    loop {
        let is = |word: &[u8], name: &[u8]| word.eq_ignore_ascii_case(name);
        operations = match operations {
            [] => return true,
            [word, _, _, rest @ ..] if is(word, b"get") => rest,
            [word, _, rest @ ..] if is(word, b"overflow") => rest,
            _ => return false,
        };
    }
}

/// What SET does depends on whether it is to tell what was there, and what BITFIELD does on its operations.
fn access(command: &Description, key: usize, request: &[&[u8]]) -> KeyAccess {
    let tells = || {
        request[3..]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(b"get"))
    };
    match command.name {
        "set" if !tells() => KeyAccess::OVERWRITE,
        "bitfield" if only_reads(&request[2..]) => KeyAccess::READ,
        _ => command.access_to(key),
    }
}

const INVALID_COMMAND: ErrorReply = ErrorReply::fixed("ERR Invalid command specified");
const NO_KEYS: ErrorReply = ErrorReply::fixed("ERR The command has no key arguments");
const INVALID_ARITY: ErrorReply =
    ErrorReply::fixed("ERR Invalid number of arguments specified for command");
const INVALID_ARGUMENTS: ErrorReply =
    ErrorReply::fixed("ERR Invalid arguments specified for command");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec_named;

    fn key_count(request: &str) -> Option<usize> {
        let request: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let command = spec_named(request[0]).expect("it is a command");
        let keys = keys_of_request(command.description(), &request);
        keys.ok().map(|keys| keys.len())
    }

    #[test]
    fn a_request_may_count_no_keys_only_where_it_needs_none() {
        for (request, count) in [
            ("lmpop 1 a left", Some(1)),
            ("lmpop 0 a left", None),
            ("zunionstore d 1 a", Some(2)),
            ("zunionstore d 0 a", None),
            ("sintercard 0 a", None),
            ("eval x 0 a", Some(0)),
        ] {
            assert_eq!(key_count(request), count, "{request}");
        }
    }
}
