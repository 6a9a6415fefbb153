//! Where a command about users and configuration runs in a transaction: at its own place, or behind the transaction.

use quorlock_engine::NodeCommand;

use crate::session::config;

/// Where a command of the node runs in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At its own.
    Own,
    /// Behind the transaction.
    Behind,
    /// Behind it as well, where that makes no difference: no ACL and no CONFIG SET at its own place comes after.
    BehindChanges,
    /// The same for what all commands at their own place go by.
    BehindAll,
}

/// Where an ACL or a CONFIG runs. What waits for the disk, or writes a record of its own into the log, cannot run while the
/// transaction holds the engine.
pub(super) fn place(command: NodeCommand, arguments: &[&[u8]]) -> Place {
    let subcommand = arguments.get(1).copied().unwrap_or_default();
    match (command, subcommand.to_ascii_lowercase().as_slice()) {
        (NodeCommand::Acl, b"load") => Place::BehindAll,
        (NodeCommand::Acl, b"save") | (NodeCommand::Config, b"rewrite") => Place::BehindChanges,
        (NodeCommand::Config, b"resetstat") => Place::Behind,
        (NodeCommand::Config, b"set") if config::needs_more_than_the_engine(&arguments[2..]) => {
            Place::BehindChanges
        }
        _ => Place::Own,
    }
}

/// Whether it is a command that others may have to be in front of.
pub(super) fn is_change(command: NodeCommand, arguments: &[&[u8]]) -> bool {
    let is = |words: &[&[u8]]| {
        let subcommand = arguments.get(1).copied().unwrap_or_default();
        words
            .iter()
            .any(|word| subcommand.eq_ignore_ascii_case(word))
    };
    match command {
        NodeCommand::Acl => is(&[b"setuser", b"deluser"]),
        NodeCommand::Config => is(&[b"set", b"get"]),
        _ => false,
    }
}
