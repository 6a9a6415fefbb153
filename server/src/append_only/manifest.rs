//! Which files an append-only directory consists of, in which order.
//!
//! A manifest has a line for each file: `file NAME seq NUMBER type b|i|h`, for the base, the increments behind it, and files
//! that are history. A name is that of a file in the same directory: nothing else is opened, whatever the manifest says. A
//! single append-only file of Redis before version 7 has none.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use quorlock_engine::words;

use super::{ImportError, open};

/// The files to be read for what a path names: an append-only directory, the directory of a redis-server, or one file.
pub(super) fn files_of(source: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let unreadable = |cause| ImportError::Unreadable {
        path: source.to_owned(),
        cause,
    };
    if !fs::metadata(source).map_err(unreadable)?.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let inner = source.join(DIRECTORY);
    let inside = |directory: &Path| match directory.is_dir() {
        true => manifests(directory).map_err(unreadable),
        false => Ok(Vec::new()),
    };
    let mut found = inside(source)?;
    found.extend(inside(&inner)?);
    let single = source.join(SINGLE_FILE);
    match (found.as_slice(), single.is_file()) {
        ([manifest], false) => listed(manifest),
        ([], true) => Ok(vec![single]),
        ([], false) => Err(ImportError::NoSource {
            path: source.to_owned(),
        }),
        _ => Err(ImportError::SeveralSources {
            path: source.to_owned(),
        }),
    }
}

fn manifests(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // Redis writes a new one under another name first.
        if name.ends_with(SUFFIX.as_bytes()) && !name.starts_with(b"temp-") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The files that a manifest lists and that hold data, in order.
fn listed(manifest: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut text = Vec::new();
    let file = open(manifest)?;
    let read = file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|cause| ImportError::Unreadable {
        path: manifest.to_owned(),
        cause,
    })?;
    let refused = |line: usize, what: &'static str| ImportError::Manifest {
        file: manifest.to_owned(),
        line,
        what,
    };
    if text.len() as u64 == MANIFEST_BYTES_MAX {
        return Err(refused(1, "it is longer than any that Redis writes"));
    }
    let mut files = Vec::new();
    let mut last = None;
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let entry = entry(line).map_err(|what| refused(number, what))?;
        match (entry.kind, last) {
            (Kind::History, _) => continue,
            (Kind::Base, None) => last = Some(0),
            (Kind::Base, Some(_)) => {
                return Err(refused(
                    number,
                    "the base has to be the first file, and the only base",
                ));
            }
            (Kind::Increment, Some(before)) if entry.sequence <= before => {
                return Err(refused(
                    number,
                    "the numbers of the increments have to rise",
                ));
            }
            (Kind::Increment, _) => last = Some(entry.sequence),
        }
        files.push(manifest.with_file_name(entry.name));
    }
    match files.is_empty() {
        true => Err(refused(1, "it lists no file")),
        false => Ok(files),
    }
}

struct Entry {
    name: String,
    sequence: u64,
    kind: Kind,
}

enum Kind {
    Base,
    Increment,
    History,
}

fn entry(line: &[u8]) -> Result<Entry, &'static str> {
    let mut line = line.to_vec();
    let mut ranges = Vec::new();
    words::split(&mut line, |range| ranges.push(range)).map_err(|_| "its quotes do not match")?;
    let words: Vec<&[u8]> = ranges.into_iter().map(|range| &line[range]).collect();
    let (mut name, mut sequence, mut kind) = (None, None, None);
    for pair in words.chunks(2) {
        match pair {
            [b"file", value] => name = Some(file_name(value)?),
            [b"seq", value] => {
                sequence = std::str::from_utf8(value)
                    .ok()
                    .and_then(|it| it.parse().ok())
            }
            [b"type", b"b"] => kind = Some(Kind::Base),
            [b"type", b"i"] => kind = Some(Kind::Increment),
            [b"type", b"h"] => kind = Some(Kind::History),
            _ => return Err("it is not of the form: file NAME seq NUMBER type b|i|h"),
        }
    }
    match (name, sequence, kind) {
        (Some(name), Some(sequence), Some(kind)) => Ok(Entry {
            name,
            sequence,
            kind,
        }),
        _ => Err("it does not name a file, its number and its type"),
    }
}

/// A name of a file in the directory of the manifest, and no path to anywhere else.
fn file_name(name: &[u8]) -> Result<String, &'static str> {
    let name = std::str::from_utf8(name).ok().map(str::to_owned);
    let is_plain = |name: &String| {
        !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
    };
    name.filter(is_plain)
        .ok_or("the name is not that of a file in the same directory")
}

/// Where a redis-server keeps its append-only files, unless `appenddirname` says otherwise.
pub(super) const DIRECTORY: &str = "appendonlydir";
/// The end of a manifest's name.
pub(super) const SUFFIX: &str = ".manifest";
/// The only file of Redis before version 7, unless `appendfilename` says otherwise.
pub(super) const SINGLE_FILE: &str = "appendonly.aof";

const MANIFEST_BYTES_MAX: u64 = 1 << 20;
