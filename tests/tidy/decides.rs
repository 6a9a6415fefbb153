//! What decides in a node touches nothing of the world: no runtime, no thread, no socket, no file.
//!
//! Those folders share a package with what carries their decisions out, so no manifest can say it.

use crate::scan;
use crate::tree::Source;

/// What decides in a node; what carries it out is beside it.
const DECIDES: [&str; 9] = [
    "server/src/config",
    "server/src/core",
    "server/src/event_loop",
    "server/src/past",
    "server/src/protocol",
    "server/src/session",
    "server/src/clock.rs",
    "server/src/clock/settable.rs",
    "server/src/sync.rs",
];

/// The file among them that opens the files of a configuration.
const READS_FILES: [&str; 1] = ["server/src/config/files.rs"];

/// What they must not name: runtimes, the system's calls, and what of the standard library is the world.
const OUTSIDE: [&str; 18] = [
    "tokio",
    "mio",
    "rustix",
    "libc",
    "socket2",
    "hyper",
    "axum",
    "getrandom",
    "fs",
    "os",
    "process",
    "thread",
    "TcpListener",
    "TcpStream",
    "UnixListener",
    "UnixStream",
    "Instant",
    "SystemTime",
];

/// Reports where what decides in a node reaches for threads, sockets, files or a runtime. Tests may.
pub(crate) fn decides(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    let is_decider = DECIDES.iter().any(|part| path.starts_with(part));
    let is_test = path.contains("tests.rs");
    if !is_decider || is_test || READS_FILES.contains(&path) || !source.is_rust() {
        return Vec::new();
    }
    let code = scan::code_only(&source.text);
    let code = code.split("#[cfg(test)]\nmod tests {").next();
    let code = code.unwrap_or_default();
    let touched = OUTSIDE.iter().filter(|name| is_named(code, name));
    touched
        .map(|name| format!("{path}: what decides must not use {name}"))
        .collect()
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
    fn what_decides_and_touches_the_world_is_reported() {
        let at = |path: &str, text: &str| {
            decides(&Source {
                path: path.into(),
                text: text.into(),
            })
            .len()
        };
        let core = |text: &str| at("server/src/core/x.rs", text);
        for text in [
            "use tokio::sync::Notify;",
            "use std::{fs, io};",
            "let text = fs::read(path);",
            "std::thread::yield_now();",
            "let page = rustix::param::page_size();",
            "use std::net::{SocketAddr, TcpStream};",
        ] {
            assert_eq!(core(text), 1, "{text}");
        }
        for text in [
            "use crate::core::process::Process;",
            "// std::fs is for the shell",
            "fn process(fs: u8) {}",
            "use std::net::SocketAddr;",
            "#[cfg(test)]\nmod tests { use std::fs; }",
        ] {
            assert_eq!(core(text), 0, "{text}");
        }
        assert_eq!(at("server/src/runtime/worker.rs", "use mio::Poll;"), 0);
    }
}
