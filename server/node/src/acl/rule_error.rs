//! Why a rule of a user is refused, in Redis's words.

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    /// No such command, subcommand or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// The rule cannot be read.
    #[error("Syntax error")]
    Syntax,
    /// A key pattern behind one for all keys.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' \
         to start with an empty list of patterns"
    )]
    BehindAllKeys,
    /// A channel pattern behind one for all channels.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    BehindAllChannels,
    /// A password that is to be removed and is none of the user's.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// A hash that is no SHA-256 in hexadecimal.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NotAHash,
    /// A first argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    ArgumentOfPart,
    /// More of something than one user may have.
    #[error(
        "A user has at most 128 passwords and 64 selectors, and a selector 1024 patterns and 1024 command rules, each of up to \
         1024 bytes"
    )]
    TooMany,
}
