//! Which arguments of a request are keys, and what is done with them: COMMAND GETKEYS and GETKEYSANDFLAGS.

use quorlock_engine::{Description, ErrorReply, Reply, RequestKey, keys_of_request};

/// The reply to both, about a request of this command, if there is such a one.
pub(super) fn keys_of(
    command: Option<Description>,
    request: &[&[u8]],
    with_flags: bool,
) -> Result<Reply, ErrorReply> {
    let keys = keys_of_request(command.ok_or(INVALID_COMMAND)?, request)?;
    let shown = keys.iter().map(|key| shown(key, with_flags));
    Ok(Reply::Array(shown.collect()))
}

fn shown(key: &RequestKey<'_>, with_flags: bool) -> Reply {
    let name = Reply::bulk(key.name);
    if !with_flags {
        return name;
    }
    let words = key.access.words().into_iter().map(Reply::status);
    Reply::Array(vec![name, Reply::Set(words.collect())])
}

const INVALID_COMMAND: ErrorReply = ErrorReply::fixed("ERR Invalid command specified");
