//! Why a rule of a user is refused, in Redis's words.

use std::fmt;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleError {
    /// No such command, subcommand or category.
    Unknown,
    /// The rule cannot be read.
    Syntax,
    /// A key pattern behind one for all keys.
    BehindAllKeys,
    /// A channel pattern behind one for all channels.
    BehindAllChannels,
    /// A password that is to be removed and is none of the user's.
    NoSuchPassword,
    /// A hash that is no SHA-256 in hexadecimal.
    NotAHash,
    /// A first argument of a subcommand.
    ArgumentOfPart,
    /// More of something than one user may have.
    TooMany,
}

impl fmt::Display for RuleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::BehindAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::BehindAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::NotAHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::ArgumentOfPart => "Allowing first-arg of a subcommand is not supported",
            Self::TooMany => {
                "A user has at most 128 passwords and 64 selectors, and a selector 1024 patterns and 1024 command \
                 rules, each of up to 1024 bytes"
            }
        })
    }
}
