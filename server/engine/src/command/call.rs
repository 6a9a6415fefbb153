//! A command on keys with what follows from it for clients that keep keys: whom its changes concern, and what its
//! caller keeps from now on.

use crate::command::about::Categories;
use crate::command::spec::{Flags, KeysFunction, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

/// Runs a command of a client or of a script.
pub(crate) fn call(
    context: &mut CommandContext<'_>,
    spec: &Spec,
    function: KeysFunction,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    context.effects.grows = spec.flags.contains(Flags::DENY_OOM);
    if !context.is_anybody_told() {
        return function(context, arguments);
    }
    for key in spec.keys_of(arguments) {
        context.tell_if_expired(key);
    }
    let journal_bytes = context.effects.journal.len();
    let told_before = context.effects.published.len();
    let reply = function(context, arguments);
    context.invalidate_since(journal_bytes, told_before);
    let keeps_all = context.caller.keeps_all;
    if context.caller.keeps_reads && (keeps_all || spec.flags.contains(Flags::READ)) {
        // Also where the reply is an error: what it tells of the key changes with it.
        let mut keys = spec.keys_of(arguments).peekable();
        if keeps_all && keys.peek().is_none() && spec.about.categories.contains(KEYSPACE) {
            context.remember_read(EVERYTHING);
        }
        for key in keys {
            context.remember_read(key);
        }
    }
    reply
}

const KEYSPACE: Categories = Categories::KEYSPACE;
/// The name under which a client keeps everything; no key is empty where this matters.
const EVERYTHING: &[u8] = b"";
