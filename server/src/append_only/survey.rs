//! How far an append-only file is whole: read once before any of it is executed.
//!
//! A server that is killed leaves the last file cut off within its last command, or within a transaction. As Redis does with
//! `aof-load-truncated yes`, what is not complete at the end of the last file is left out, a transaction as a whole. Anything
//! else that is not whole is damage.

use std::path::{Path, PathBuf};

use super::ImportError;
use super::reader::{CommandReader, FileItem, NOT_CANONICAL, another_command, is_beginning};
use super::replay::{begins_transaction, ends_transaction, is_logged, shown};

/// The end of a file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// The file.
    pub file: PathBuf,
    /// Where what was left out begins.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// It is a transaction without its end, and not one command.
    pub is_transaction: bool,
}

/// A file, and up to where it is executed.
#[derive(Debug)]
pub(super) struct WholePart {
    pub(super) file: PathBuf,
    pub(super) end: u64,
}

/// Reads a file to its end. Only the last one may be cut off.
pub(super) fn survey(
    file: &Path,
    is_last: bool,
) -> Result<(WholePart, Option<CutTail>), ImportError> {
    let mut reader = CommandReader::open(file)?;
    let mut transaction = None;
    let (end, is_partial) = loop {
        let (offset, mark) = match reader.next_item()? {
            FileItem::Command { offset, arguments } => (offset, TransactionMark::of(arguments[0])),
            FileItem::Partial { offset } => break (offset, true),
            FileItem::End { offset } => break (offset, false),
        };
        if let (TransactionMark::NotLogged(name), true) = (&mark, transaction.is_some()) {
            // Its end may be what was damaged: then all behind it would be left out as one transaction.
            let what = format!("{name} stands within a transaction, and no server logs that");
            return Err(reader.damaged(offset, what));
        }
        transaction = match (mark, transaction) {
            (TransactionMark::None | TransactionMark::NotLogged(_), within) => within,
            (TransactionMark::Begin, None) => Some(offset),
            (TransactionMark::End, Some(_)) => None,
            (TransactionMark::Begin, Some(_)) | (TransactionMark::End, None) => {
                let what = "MULTI and EXEC do not match".to_owned();
                return Err(reader.damaged(offset, what));
            }
        };
    };
    let bytes = end + reader.rest().len() as u64;
    let whole = transaction.unwrap_or(end);
    let part = WholePart {
        file: file.to_owned(),
        end: whole,
    };
    if !is_partial && transaction.is_none() {
        return Ok((part, None));
    }
    if let Some(at) = another_command(reader.rest()) {
        let what = format!(
            "this command is not complete, and another one seems to begin behind it, at offset {}. A crash cuts the end off \
             and leaves nothing behind it",
            end + at as u64
        );
        return Err(reader.damaged(end, what));
    }
    // Where it is none, more than the end is missing.
    if !reader.rest().is_empty() && !is_beginning(reader.rest()) {
        return Err(reader.damaged(end, NOT_CANONICAL.to_owned()));
    }
    if !is_last {
        let what = "the file ends within a command or a transaction, and another file follows it";
        return Err(reader.damaged(whole, what.to_owned()));
    }
    let cut = CutTail {
        file: file.to_owned(),
        offset: whole,
        bytes: bytes - whole,
        is_transaction: transaction.is_some(),
    };
    Ok((part, Some(cut)))
}

/// What a command does to a transaction.
enum TransactionMark {
    None,
    Begin,
    End,
    /// Nothing that a server logs, by its name.
    NotLogged(String),
}

impl TransactionMark {
    fn of(name: &[u8]) -> Self {
        match () {
            () if begins_transaction(name) => Self::Begin,
            () if ends_transaction(name) => Self::End,
            () if !is_logged(name) => Self::NotLogged(shown(name)),
            () => Self::None,
        }
    }
}
