//! Names, tokens and what holders say about themselves, for people and for programs.
//!
//! Invariant: bytes of a node reach no terminal as they are. Control characters are escaped, and so are characters that change
//! the direction of a line. For programs they are exact: as text where they are UTF-8, as hexadecimal digits where they are not.

use std::fmt::Write as _;
use std::time::Duration;

use quorlock_client_rules::inspection::lock_view::{HolderView, LockState, LockView, Mark};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use crate::duration::whole_ms;

/// A name, up to a length that fits a table.
pub(super) fn name(bytes: &[u8]) -> String {
    cut(bytes, NAME_CHARACTERS)
}

/// The beginning of a token: enough to tell it from others, not enough to use it.
pub(super) fn token(bytes: &[u8]) -> String {
    let kept = bytes.get(..TOKEN_BYTES).unwrap_or(bytes);
    let dots = if kept.len() < bytes.len() { "..." } else { "" };
    format!("{}{dots}", cut(kept, TOKEN_BYTES))
}

/// What a node has said, or a holder of itself.
pub(super) fn words(text: &str) -> String {
    cut(text.as_bytes(), WORDS_CHARACTERS)
}

/// Who holds a lock, in the words of the holder, or as its connection shows it, or by its token.
pub(super) fn holder(holder: &HolderView) -> String {
    let token = token(&holder.token);
    match holder_words(holder) {
        Some(words) => format!("{words} (token {token})"),
        None => format!("token {token}"),
    }
}

/// The words of the holder, or how its connection is shown.
pub(super) fn holder_words(holder: &HolderView) -> Option<String> {
    let about = &holder.about;
    let library = about.library.iter().map(|name| format!(" ({name})"));
    let address = about.client_address.iter().cloned().chain(library);
    let connection: String = match &about.client_name {
        Some(name) => std::iter::once(format!("{name} ")).chain(address).collect(),
        None => address.collect(),
    };
    let words = about.owner.as_ref().unwrap_or(&connection);
    let shown = || cut(words.as_bytes(), OWNER_CHARACTERS);
    (!words.is_empty()).then(shown)
}

/// The time left, or that there is no end.
pub(super) fn left(left: Option<Duration>) -> String {
    left.map_or_else(|| "no ttl".to_owned(), show_duration)
}

/// A lock, for a program.
pub(super) fn value(name: &[u8], view: &LockView, nodes: &[&str]) -> Value {
    let first = view.holders.first();
    let holders = view
        .holders
        .iter()
        .map(|holder| holder_value(holder, nodes));
    let silent = view.silent.iter();
    let silent = silent.map(|(node, why)| json!({ "node": nodes.get(*node), "why": why }));
    let marks: Vec<&str> = view.marks.iter().map(|mark| mark.name()).collect();
    let mut value = json!({
        "state": state(view),
        "kind": view.kind.name(),
        "votes": first.map_or(0, |holder| holder.votes),
        "answered": view.answered,
        "nodes": view.nodes,
        "silent": silent.collect::<Value>(),
        "marks": marks,
        "waiters": view.waiters,
        "holders": holders.collect::<Value>(),
        "holder_count": view.holder_count(),
    });
    add_bytes(&mut value, "name", name);
    value
}

/// The word for how it is held. What is no lock is not free to be taken either.
fn state(view: &LockView) -> &'static str {
    match view.state {
        LockState::Free if view.marks.contains(&Mark::NoLock) => Mark::NoLock.name(),
        state => state.name(),
    }
}

fn holder_value(holder: &HolderView, nodes: &[&str]) -> Value {
    let about = &holder.about;
    let on: Vec<&str> = holder
        .nodes
        .iter()
        .filter_map(|node| nodes.get(*node).copied())
        .collect();
    let mut value = json!({
        "votes": holder.votes,
        "on": on,
        "left_ms": holder.left.map(whole_ms),
        "held_ms": about.held.map(whole_ms),
        "extensions": about.extensions,
        "owner": about.owner,
        "client_name": about.client_name,
        "client_address": about.client_address,
        "connected": about.is_connected,
        "library": about.library,
        "fence": about.fence,
    });
    add_bytes(&mut value, "token", &holder.token);
    if !holder.clients.is_empty() {
        let tokens = holder.clients.iter();
        let tokens = tokens.map(|client| String::from_utf8_lossy(client));
        value["tokens"] = tokens.collect();
    }
    value
}

/// Bytes under this name, or as digits under the name with `_hex` behind it.
pub(super) fn add_bytes(value: &mut Value, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => value[name] = text.into(),
        Err(_) => {
            let mut digits = String::with_capacity(bytes.len() * 2);
            for byte in bytes {
                write!(digits, "{byte:02x}").expect("writing to memory cannot fail");
            }
            value[format!("{name}_hex")] = digits.into();
        }
    }
}

/// Escaped, and cut behind so many characters.
fn cut(bytes: &[u8], characters_max: usize) -> String {
    let mut text = String::new();
    let mut left = characters_max;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if left == 0 {
                return format!("{text}... ({} bytes)", bytes.len());
            }
            left -= 1;
            match character {
                '"' | '\'' => text.push(character),
                _ => text.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            if left == 0 {
                return format!("{text}... ({} bytes)", bytes.len());
            }
            left -= 1;
            write!(text, "\\x{byte:02x}").expect("writing to memory cannot fail");
        }
    }
    text
}

const NAME_CHARACTERS: usize = 64;
const OWNER_CHARACTERS: usize = 80;
const WORDS_CHARACTERS: usize = 300;
const TOKEN_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal_and_long_names_are_cut() {
        assert_eq!(name(b"lock:a b'\"\\"), "lock:a b'\"\\\\");
        assert_eq!(name(b"a\x1b[2J\r\n\xff"), "a\\u{1b}[2J\\r\\n\\xff");
        assert_eq!(name("\u{fc}ber\u{202e}x".as_bytes()), "\u{fc}ber\\u{202e}x");
        let long = name(&vec![b'\x07'; 1_000_000]);
        assert!(
            long.len() < 500 && long.ends_with("... (1000000 bytes)"),
            "{long}"
        );
        assert_eq!(token(b"7f3c9a81"), "7f3c9a...");
        assert_eq!(token(b"t"), "t");
    }

    #[test]
    fn programs_get_each_byte() {
        let of = |bytes: &[u8]| {
            let mut value = json!({});
            add_bytes(&mut value, "name", bytes);
            value.to_string()
        };
        assert_eq!(of(b"a\x1b\n"), "{\"name\":\"a\\u001b\\n\"}");
        assert_eq!(of(b"a\xff"), "{\"name_hex\":\"61ff\"}");
    }
}
