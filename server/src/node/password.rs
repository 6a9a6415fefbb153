//! The password of a node, where its configuration names a file for it.

use crate::config::{Config, SystemFiles};
use quorlock_node::start::StartError;

/// Reads it, unless it is known.
///
/// # Errors
/// When the file cannot be read, or is no password.
pub(super) fn read(config: &mut Config) -> Result<(), StartError> {
    let known = config.notices().len();
    let password = config.read_password(&SystemFiles);
    password.map_err(|problem| StartError::Config(format!("requirepass-file: {problem}")))?;
    // A program that has made the configuration has not seen these: of a file that others can read, for example.
    for notice in config.notices().iter().skip(known) {
        tracing::warn!("{notice}");
    }
    Ok(())
}
