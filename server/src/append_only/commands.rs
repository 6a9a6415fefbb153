//! Keys as the commands of an append-only file.
//!
//! Invariant: a file holds what Redis itself would have written for these keys, in commands of at most 64 elements.

use std::io::{self, Write};

use quorlock_engine::{Stored, StoredValue, double_text};
use quorlock_node::protocol::reply::write_request;

/// Writes commands, those of a database behind one SELECT.
#[derive(Debug)]
pub(super) struct CommandWriter<W> {
    out: W,
    /// The command that is written.
    encoded: Vec<u8>,
    database: Option<u8>,
}

/// A value that Redis has no form for.
#[derive(Debug)]
pub(super) struct SharedLock;

impl<W: Write> CommandWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            encoded: Vec::new(),
            database: None,
        }
    }

    /// Writes a key, which ends at this wall time in milliseconds since the epoch.
    pub(super) fn key(
        &mut self,
        stored: &Stored,
        end_ms: Option<u64>,
    ) -> io::Result<Result<(), SharedLock>> {
        if let StoredValue::SharedLock(_) = stored.value {
            return Ok(Err(SharedLock));
        }
        if self.database != Some(stored.database) {
            self.database = Some(stored.database);
            self.command(&[b"SELECT", stored.database.to_string().as_bytes()])?;
        }
        self.value(&stored.key, &stored.value)?;
        if let Some(end_ms) = end_ms {
            self.command(&[b"PEXPIREAT", &stored.key, end_ms.to_string().as_bytes()])?;
        }
        Ok(Ok(()))
    }

    /// Hands the writer back.
    pub(super) fn into_inner(self) -> W {
        self.out
    }

    fn value(&mut self, key: &[u8], value: &StoredValue) -> io::Result<()> {
        match value {
            StoredValue::String(bytes) => self.command(&[b"SET", key, bytes]),
            StoredValue::List(elements) => {
                let elements = elements.iter().map(|element| [element.as_slice()]);
                self.elements(b"RPUSH", key, elements)
            }
            StoredValue::Set(members) => {
                let members = members.iter().map(|member| [member.as_slice()]);
                self.elements(b"SADD", key, members)
            }
            StoredValue::Hash(fields) => {
                let pairs = fields
                    .iter()
                    .map(|(field, value)| [field.as_slice(), value]);
                self.elements(b"HMSET", key, pairs)
            }
            StoredValue::SortedSet(members) => {
                let texts = members
                    .iter()
                    .map(|(bits, _)| double_text(f64::from_bits(*bits)));
                let texts: Vec<String> = texts.collect();
                let pairs = texts.iter().zip(members);
                let pairs = pairs.map(|(score, (_, member))| [score.as_bytes(), member.as_slice()]);
                self.elements(b"ZADD", key, pairs)
            }
            StoredValue::SharedLock(_) => Ok(()),
        }
    }

    /// A command for each 64 elements, each of which is `N` arguments.
    fn elements<'a, const N: usize>(
        &mut self,
        name: &[u8],
        key: &[u8],
        elements: impl Iterator<Item = [&'a [u8]; N]>,
    ) -> io::Result<()> {
        let mut arguments = vec![name, key];
        for element in elements {
            arguments.extend(element);
            if arguments.len() == 2 + N * ELEMENTS {
                self.command(&arguments)?;
                arguments.truncate(2);
            }
        }
        match arguments.len() {
            2 => Ok(()),
            _ => self.command(&arguments),
        }
    }

    fn command(&mut self, arguments: &[&[u8]]) -> io::Result<()> {
        self.encoded.clear();
        write_request(&mut self.encoded, arguments);
        self.out.write_all(&self.encoded)
    }
}

/// The elements of one command, as Redis has them (`AOF_REWRITE_ITEMS_PER_CMD`).
const ELEMENTS: usize = 64;
