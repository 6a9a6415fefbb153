//! Users as in Redis: who may run which command, on which keys and channels, and with which passwords.
//!
//! Invariant: rules are data. A list of rules is applied to a user whole or not at all, and nothing here knows of
//! connections, files or the time. Sessions ask [`User::check`] before a command runs, and scripts before each command
//! that they call.

mod check;
mod commands;
mod denials;
mod password;
mod rule_error;
mod selector;
#[cfg(test)]
mod tests;
mod user;
mod users;

pub(crate) use check::{CheckedRequest, Denial};
pub(crate) use denials::{AclLogEntry, DenialContext, Denials, Denied};
pub(crate) use rule_error::RuleError;
pub(crate) use selector::Selector;
pub(crate) use user::{DEFAULT, User};
pub(crate) use users::{Users, line_of};
