//! Which lock a request is about.

use bytes::Bytes;
use quorlock_client_rules::name::LockName;
use quorlock_engine::{Categories, Reply, keys_of_request, spec_named};

use crate::commands::Commands;
use crate::refusal::not_a_lock;

/// The lock that a request is about, or several together; none where it needs no key.
///
/// # Errors
/// The refusal, where it is about what an agent has not, or about too many.
pub(crate) fn lock_name(commands: &Commands) -> Result<Option<LockName>, Reply> {
    let refused = |reason: &str| Err(Reply::Error(not_a_lock(reason)));
    let mut names: Vec<Bytes> = Vec::new();
    for command in &commands.all {
        let arguments: Vec<&[u8]> = command.iter().map(|one| &one[..]).collect();
        let Some(spec) = arguments.first().and_then(|name| spec_named(name)) else {
            continue;
        };
        if spec.name.starts_with("lock.") {
            return refused(
                "an agent takes a LOCK command by itself, and none between MULTI and EXEC. Send it outside of the transaction",
            );
        }
        match spec.name {
            // By itself it is no step on a lock, and does not come here.
            "publish" => return refused(PUBLISH_IN_TRANSACTION),
            "spublish" => return refused(NO_SHARDS),
            _ => {}
        }
        if spec.about.categories.intersects(OTHER_TYPES) {
            return refused(&format!(
                "{} is for another type than a string, and an agent keeps nothing but locks. Use a server of its own for other data",
                spec.name.to_uppercase()
            ));
        }
        let keys = keys_of_request(spec.description(), &arguments).unwrap_or_default();
        if keys.is_empty() && spec.about.key_count_at > 0 {
            // A script without keys needs no node. What is wrong with the number of keys its own error says.
            continue;
        }
        if keys.is_empty() && !NEED_NO_KEY.contains(&spec.name) {
            return refused(&format!(
                "{} is about no single lock, and an agent keeps nothing but locks. Use a server of its own for other data",
                spec.name.to_uppercase()
            ));
        }
        names.extend(keys.iter().map(|key| Bytes::copy_from_slice(key.name)));
    }
    if names.is_empty() {
        return Ok(None);
    }
    let name = LockName::of_all(names);
    match name.check() {
        Ok(()) => Ok(Some(name)),
        Err(reason) => refused(&reason),
    }
}

const PUBLISH_IN_TRANSACTION: &str = "an agent takes one step on the nodes for all that stands between MULTI and EXEC, and a message is another one, which could \
     fail alone. Send PUBLISH by itself, behind EXEC";
const NO_SHARDS: &str = "the agent has no sharded channels. Use PUBLISH, which goes through all nodes, outside of a transaction";
const OTHER_TYPES: Categories = Categories::LIST
    .with(Categories::HASH)
    .with(Categories::SET)
    .with(Categories::SORTED_SET)
    .with(Categories::BITMAP)
    .with(Categories::BLOCKING);
/// Commands that name no key and are executed on the scratch keyspace alone.
const NEED_NO_KEY: [&str; 2] = ["script", "time"];
