//! Where a source reaches for the world: runtimes, the system's calls, and what of the standard library is not data.

use crate::scan::code_only;
use crate::tree::Source;

/// Crates, which the manifest of a pure package must not name either.
pub(crate) const PACKAGES: [&str; 8] = [
    "tokio",
    "mio",
    "rustix",
    "libc",
    "socket2",
    "hyper",
    "axum",
    "getrandom",
];

/// Modules and types of the standard library.
const STANDARD: [&str; 11] = [
    "fs",
    "os",
    "env",
    "process",
    "thread",
    "TcpListener",
    "TcpStream",
    "UnixListener",
    "UnixStream",
    "Instant",
    "SystemTime",
];

/// What a binary was built for is data. Locks that try orders of threads stand in for real ones.
const DATA: [&str; 2] = ["std::env::consts", "shuttle::thread"];

/// What of the world a source names, except in its tests.
pub(crate) fn named(source: &Source) -> Vec<&'static str> {
    if source.path.contains("tests.rs") {
        return Vec::new();
    }
    let code = code_only(&source.text);
    let shipped = code.split("#[cfg(test)]\nmod tests {").next();
    let shipped = shipped.unwrap_or_default().to_owned();
    let shipped = DATA
        .iter()
        .fold(shipped, |code, part| code.replace(part, ""));
    let world = PACKAGES.into_iter().chain(STANDARD);
    world.filter(|name| is_named(&shipped, name)).collect()
}

/// Whether the code names a crate, a type, or a module of the standard library: `fs::read`, `std::fs` or `{fs, io}`, not
/// `own::fs::read`.
fn is_named(code: &str, name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = code.as_bytes();
    code.match_indices(name).any(|(at, _)| {
        let end = at + name.len();
        let is_whole =
            (at == 0 || !is_word(bytes[at - 1])) && !bytes.get(end).copied().is_some_and(is_word);
        let before = code[..at].trim_end();
        let is_item = before.ends_with("std::") || !before.ends_with("::");
        let is_path = code[end..].starts_with("::") || before.ends_with("std::") || in_std(before);
        let is_type = name.starts_with(char::is_uppercase);
        is_whole && (is_type || is_item && is_path)
    })
}

/// Whether the text ends inside the braces of `use std::{`.
fn in_std(before: &str) -> bool {
    before
        .rsplit_once("std::{")
        .is_some_and(|(_, inner)| !inner.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_the_world_is_named_and_what_only_sounds_like_it_is_not() {
        let found = |text: &str| {
            named(&Source {
                path: "server/node/src/core/x.rs".into(),
                text: text.into(),
            })
            .len()
        };
        for text in [
            "use tokio::sync::Notify;",
            "use std::{fs, io};",
            "use std::os::fd::OwnedFd;",
            "let text = fs::read(path);",
            "std::thread::yield_now();",
            "use std::time::{Duration, Instant};",
            "getrandom::fill(&mut bytes);",
            "use std::net::{SocketAddr, TcpStream};",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
        for text in [
            "use crate::core::process::Process;",
            "// std::fs is for the shell",
            "fn process(fs: u8) {}",
            "use std::net::SocketAddr;",
            "let os = std::env::consts::OS;",
            "#[cfg(test)]\nmod tests { use std::fs; }",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }
}
