//! The configuration of a node, and the files of the machine that it is read from.

#[cfg(test)]
mod command_line_tests;
mod files;
#[cfg(test)]
mod password_tests;

pub(crate) use files::SystemFiles;
pub use files::{parse_command_line, read_password_file};
pub use quorlock_node::config::*;
