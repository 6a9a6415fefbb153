//! The password of a node and its users, where its configuration names files for them.

use crate::config::{Config, SystemFiles};
use quorlock_node::start::StartError;

/// Reads them, unless they are known.
///
/// # Errors
/// When a file cannot be read, is no password, or has a line that is no user.
pub(super) fn read(config: &mut Config) -> Result<(), StartError> {
    let known = config.notices().len();
    let password = config.read_password(&SystemFiles);
    password.map_err(|problem| StartError::Config(format!("requirepass-file: {problem}")))?;
    let users = config.read_users(&SystemFiles);
    users.map_err(|problem| StartError::Config(format!("aclfile: {problem}")))?;
    // A program that has made the configuration has not seen these: of a file that others can read, for example.
    for notice in config.notices().iter().skip(known) {
        tracing::warn!("{notice}");
    }
    Ok(())
}
