//! Bytes that no Redis has written, and the times of keys in this boot and in another.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{self, Read};
use std::path::Path;

use proptest::prelude::*;
use quorlock_engine::NodeTime;
use quorlock_engine::control::Boot;

use super::log::{ClockReadings, write_log};
use super::reader::{CommandReader, FileItem, another_command, is_beginning};
use super::replay::Replay;
use super::target::Target;
use super::{ExportOptions, export};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;

/// Gives so many bytes at a time.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// What is read, each command with its offset, and how it ends.
fn read(bytes: &[u8], at_once: usize) -> Vec<String> {
    let mut reader = CommandReader::of(Path::new("file"), Slowly(bytes, at_once));
    let mut read = Vec::new();
    loop {
        let (line, is_last) = match reader.next_item() {
            Ok(FileItem::Command { offset, arguments }) => {
                (format!("{offset} {arguments:?}"), false)
            }
            Ok(FileItem::Partial { offset }) => (format!("{offset} partial"), true),
            Ok(FileItem::End { offset }) => (format!("{offset} end"), true),
            Err(error) => (error.to_string(), true),
        };
        read.push(line);
        if is_last {
            return read;
        }
    }
}

const FILE: &[u8] =
    b"*1\r\n$5\r\nMULTI\r\n#TS:17\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*1\r\n\r\n*1\r\n$4\r\nEXEC\r\n";

#[test]
fn a_file_reads_the_same_however_its_bytes_come() {
    let whole = read(FILE, usize::MAX);
    assert_eq!(whole.len(), 4, "{whole:?}");
    assert_eq!(whole[3], format!("{} end", FILE.len()));
    for at_once in 1..40 {
        assert_eq!(read(FILE, at_once), whole);
    }
    // A cut at any place gives the commands before it.
    for length in 1..FILE.len() {
        let cut = read(&FILE[..length], 7);
        let (last, before) = cut.split_last().unwrap();
        assert_eq!(before, &whole[..before.len()], "{length}");
        let is_end = last.ends_with("partial") || last.ends_with("end");
        assert!(is_end, "{length}: {last}");
    }
}

#[test]
fn a_length_reserves_nothing() {
    for claim in [
        "*1048576\r\n$1\r\nx\r\n",
        "*2\r\n$7000000\r\nx",
        "*2\r\n$536870912\r\n",
    ] {
        let mut reader = CommandReader::of(Path::new("file"), claim.as_bytes());
        let _ = reader.next_item();
        assert!(reader.memory() < 1 << 20, "{claim}: {}", reader.memory());
    }
    // What is larger than a node takes ends the reading before it is read.
    let claim = b"*2\r\n$3\r\nSET\r\n$536870912\r\n".as_slice();
    let mut endless = CommandReader::of(Path::new("file"), claim.chain(io::repeat(b'x')));
    let error = endless.next_item().unwrap_err().to_string();
    assert!(error.contains("offset 0: this command claims"), "{error}");
}

#[test]
fn another_command_is_found_behind_a_line_end_only() {
    assert_eq!(another_command(b"$3\r\nabc\r\n*1\r\n$4\r\nEXEC"), Some(9));
    for none in [
        &b"*1\r\n$4\r\nEXEC"[..],
        b"\r\n*1\r\n",
        b"\r\n*x\r\n$1\r\n",
        b"",
        b"\r\n",
    ] {
        assert_eq!(another_command(none), None, "{none:?}");
    }
}

#[test]
fn what_is_left_of_a_file_that_was_cut_off_begins_a_command_and_nothing_else_does() {
    let command = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n*1\r\n$4\r\nEXEC\r\n";
    for length in 1..command.len() {
        assert!(is_beginning(&command[..length]), "{length}");
    }
    assert!(is_beginning(b"#TS:17"));
    for none in [
        &b"*3\r\n$3\nSET\r\n$5\r"[..],
        b"*2\r\n$3\r\nGET\n$1\r\nk\r",
        b"*2\r\n$3\r\nGET\r\n:1",
        b"*x",
        b"*1\r1",
        b"*1\r\n$1\r\nx\r\n",
    ] {
        assert!(!is_beginning(none), "{}", none.escape_ascii());
    }
}

#[test]
fn lines_that_end_with_lf_alone_are_named() {
    let text: Vec<u8> = FILE.iter().copied().filter(|byte| *byte != b'\r').collect();
    for at_once in [1, 4, usize::MAX] {
        let read = read(&text, at_once);
        assert!(read[0].contains("end with LF alone"), "{read:?}");
    }
}

proptest! {
    /// Whatever the bytes are, they end somewhere, and not in a panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..FILE.len(), at_once in 1..64_usize) {
        read(&bytes, at_once);
        let mut damaged = FILE.to_vec();
        damaged.splice(at..(at + bytes.len() / 20).min(FILE.len()), bytes);
        read(&damaged, at_once);
    }

    /// Nor do any commands, whatever their arguments are.
    #[test]
    fn any_commands_are_executed_or_refused(
        words in prop::collection::vec(prop::sample::select(WORDS), 1..6),
        skips in any::<bool>(),
    ) {
        let mut replay = Replay::new(0, skips);
        let arguments: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let _ = replay.execute(&arguments);
        replay.finish(NodeTime::from_nanos(1_700_000_000_000_000_000));
    }
}

const WORDS: &[&str] = &[
    "SET",
    "RPUSH",
    "ZADD",
    "HSET",
    "SELECT",
    "MULTI",
    "EXEC",
    "XADD",
    "PEXPIREAT",
    "EVAL",
    "SORT",
    "STORE",
    "COPY",
    "MOVE",
    "SWAPDB",
    "FLUSHALL",
    "RESTORE",
    "BITFIELD",
    "SETRANGE",
    "SPOP",
    "key",
    "0",
    "1",
    "-1",
    "16",
    "9223372036854775807",
    "1e309",
    "nan",
    "PXAT",
    "",
    "\r\n",
    "*",
];

/// Makes the directory of a node that stopped then, with a lock that had 30 s left.
fn stopped(directory: &Path, boot: Boot, seconds_ago: u64) -> u64 {
    let clock = SystemClock;
    let ago_ns = seconds_ago * 1_000_000_000;
    let wall_us = clock.wall_us() - seconds_ago * 1_000_000;
    let now = ClockReadings {
        node: NodeTime::from_nanos(wall_us * 1000),
        // A machine may run for less than that.
        raw: quorlock_engine::RawTime::from_nanos(clock.raw().as_nanos().saturating_sub(ago_ns)),
        boottime: clock.boottime(),
        boot,
        wall_us,
    };
    let mut replay = Replay::new(0, false);
    let end = (wall_us / 1000 + 30_000).to_string();
    replay
        .execute(&[b"SET", b"lock", b"token", b"PXAT", end.as_bytes()])
        .unwrap();
    let mut replayed = replay.finish(now.node);
    let target = Target::of(directory).unwrap();
    write_log(target, &Config::default(), &mut replayed.engine, &now).unwrap();
    clock.wall_us() / 1000
}

/// The wall time at which the lock ends in the exported files.
fn exported_end(directory: &Path, target: &Path) -> Option<u64> {
    export(directory, target, ExportOptions::default()).unwrap();
    let base = target.join("appendonlydir/appendonly.aof.1.base.aof");
    let text = std::fs::read_to_string(base).unwrap();
    text.contains("PEXPIREAT")
        .then(|| text.lines().last().unwrap().parse().unwrap())
}

/// In the same boot the time since the stop counts. After another one nothing tells how long that was: too long, and never
/// too short.
#[test]
fn an_exported_key_lives_as_long_as_a_start_would_let_it() {
    let home = tempfile::tempdir().unwrap();
    let own = SystemClock.boot();
    for (name, boot, seconds_ago, left_ms) in [
        ("now", own, 0, Some(30_000)),
        ("a while ago", own, 10, Some(20_000)),
        ("it has ended", own, 31, None),
        ("another boot", Boot([7; 16]), 10, Some(30_000)),
        ("long ago", Boot([7; 16]), 3600, Some(30_000)),
    ] {
        let (directory, target) = (
            home.path().join(name),
            home.path().join(format!("{name} out")),
        );
        let now_ms = stopped(&directory, boot, seconds_ago);
        let end = exported_end(&directory, &target);
        assert_eq!(end.is_some(), left_ms.is_some(), "{name}: {end:?}");
        if let (Some(end), Some(left_ms)) = (end, left_ms) {
            let left = end - now_ms;
            assert!(
                (left_ms - 100..left_ms + 5000).contains(&left),
                "{name}: {left}"
            );
        }
    }
}
