//! A key's value as bytes, and back: DUMP and RESTORE.
//!
//! The bytes are this node's own: the mutation that would write the value, and the beginning of its
//! SHA-1. Redis's snapshots have another form, which is refused as one that is damaged.

use sha1_smol::Sha1;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{TimeForm, integer, is_option};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::mutation::{self, Mutation, Mutations, NewValue};
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[&DUMP, &RESTORE];

const DUMP: Spec = Spec::on_key("dump", 2, dump)
    .flags(Flags::READ_KEYS)
    .about(Categories::KEYSPACE, &[KeyAccess::READ]);

fn dump(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let Some(slot) = found.live else {
        return Ok(Reply::Nil);
    };
    if let ValueRef::Collection(Collection::SharedLock(_)) = context.value(slot) {
        return Err(SHARED_LOCK);
    }
    let bytes = context.value(slot).bytes();
    context
        .effects
        .charge(bytes.saturating_add(CHECKSUM_BYTES))?;
    let mut payload = Vec::with_capacity(bytes);
    let value = context.value(slot);
    mutation::encode_replace(&mut payload, 0, b"", value, Deadline::NEVER);
    let checksum = checksum_of(&payload);
    payload.extend_from_slice(&checksum);
    Ok(Reply::Bulk(payload))
}

const RESTORE: Spec = Spec::on_key("restore", -4, restore)
    .flags(Flags::GROW_KEYS)
    .about(
        Categories::KEYSPACE.with(Categories::DANGEROUS),
        &[KeyAccess::OVERWRITE],
    );

fn restore(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, payload) = (arguments[1], arguments[3]);
    let options = RestoreOptions::parse(&arguments[4..])?;
    let found = context.lookup_to_write(key);
    if found.live.is_some() && !options.replaces {
        return Err(ErrorReply::fixed("BUSYKEY Target key name already exists."));
    }
    let deadline = options.deadline(arguments[2], context)?;
    let value = value_of(payload, context.keyspace.seed())?;
    let Some(deadline) = deadline else {
        // Its time has passed: nothing is there afterwards.
        if context.delete(&found, key)? {
            context.notify(Class::Generic, "del", key);
        }
        return Ok(Reply::Ok);
    };
    match value {
        NewValue::String(string) => context.put_string(&found, key, string, deadline)?,
        NewValue::Collection(Collection::SharedLock(_)) => return Err(SHARED_LOCK),
        NewValue::Collection(value) => context.put_collection(&found, key, value, deadline)?,
    }
    if found.live.is_some() {
        // As in Redis, where it takes the other key's place.
        context.notify(Class::New, "new", key);
    }
    context.notify(Class::Generic, "restore", key);
    Ok(Reply::Ok)
}

/// RESTORE's options.
#[derive(Default)]
struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
}

impl RestoreOptions {
    fn parse(arguments: &[&[u8]]) -> Result<RestoreOptions, ErrorReply> {
        let mut options = RestoreOptions::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if is_option(word, "replace") {
                options.replaces = true;
            } else if is_option(word, "absttl") {
                options.is_absolute = true;
            } else if is_option(word, "idletime") || is_option(word, "freq") {
                // Neither is tracked here: no key is evicted.
                let number = integer(words.next().ok_or(ErrorReply::SYNTAX)?)?;
                if is_option(word, "idletime") && number < 0 {
                    return Err(ErrorReply::fixed(
                        "ERR Invalid IDLETIME value, must be >= 0",
                    ));
                }
                if is_option(word, "freq") && !(0..=255).contains(&number) {
                    return Err(ErrorReply::fixed(
                        "ERR Invalid FREQ value, must be >= 0 and <= 255",
                    ));
                }
            } else {
                return Err(ErrorReply::SYNTAX);
            }
        }
        Ok(options)
    }

    /// `None` where it has passed.
    fn deadline(
        &self,
        ttl: &[u8],
        context: &CommandContext<'_>,
    ) -> Result<Option<Deadline>, ErrorReply> {
        let ttl = integer(ttl)?;
        if ttl < 0 {
            return Err(INVALID_TTL);
        }
        if ttl == 0 {
            return Ok(Some(Deadline::NEVER));
        }
        let form = match self.is_absolute {
            true => TimeForm::UNIX_MILLISECONDS,
            false => TimeForm::MILLISECONDS,
        };
        form.deadline(ttl, context.now).map_err(|_| INVALID_TTL)
    }
}

/// The value in bytes that DUMP has made.
fn value_of(payload: &[u8], seed: u64) -> Result<NewValue<'_>, ErrorReply> {
    let length = payload.len().checked_sub(CHECKSUM_BYTES);
    let (body, checksum) = payload.split_at(length.ok_or(NOT_OURS)?);
    if checksum != checksum_of(body) {
        return Err(NOT_OURS);
    }
    let mut mutations = Mutations::of(body, seed).map_err(|_| NOT_OURS)?;
    match (mutations.next(), mutations.next()) {
        (Some(Ok(Mutation::Replace { value, .. })), None) => Ok(value),
        _ => Err(ErrorReply::fixed("ERR Bad data format")),
    }
}

fn checksum_of(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha1::from(bytes).digest().bytes();
    std::array::from_fn(|index| digest[index])
}

const CHECKSUM_BYTES: usize = 8;

const INVALID_TTL: ErrorReply = ErrorReply::fixed("ERR Invalid TTL value, must be >= 0");

const SHARED_LOCK: ErrorReply = ErrorReply::fixed(
    "ERR a lock that is held shared is no value to be dumped or restored: its holders' ends are those of this node",
);

const NOT_OURS: ErrorReply = ErrorReply::fixed("ERR DUMP payload version or checksum are wrong");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::sorted_set::SortedSet;

    fn with_checksum(mut body: Vec<u8>) -> Vec<u8> {
        let checksum = checksum_of(&body);
        body.extend_from_slice(&checksum);
        body
    }

    fn error_of(payload: &[u8]) -> String {
        value_of(payload, 0).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn only_whole_and_unchanged_bytes_become_a_value() {
        let mut set = SortedSet::default();
        for number in 0..100_u8 {
            set.set(&[number], f64::from(number) / 3.0, 0);
        }
        let (mut body, set) = (Vec::new(), Collection::from(set));
        mutation::encode_replace(
            &mut body,
            0,
            b"",
            ValueRef::Collection(&set),
            Deadline::NEVER,
        );
        let payload = with_checksum(body.clone());
        match value_of(&payload, 0) {
            Ok(NewValue::Collection(read)) => assert_eq!(read.len(), 100),
            other => panic!("{other:?}"),
        }
        let refused = NOT_OURS.to_string();
        for length in 0..payload.len() {
            assert_eq!(error_of(&payload[..length]), refused, "{length}");
        }
        for place in 0..payload.len() {
            let mut changed = payload.clone();
            changed[place] ^= 1 << (place % 8);
            assert_eq!(error_of(&changed), refused, "{place}");
        }
        // A checksum proves no origin: anybody can compute it.
        let twice = [&body[..], &body[1..]].concat();
        mutation::encode_flush(&mut body, None);
        let mut deletion = Vec::new();
        mutation::encode_delete(&mut deletion, 0, b"key");
        for forged in [twice, body, deletion, Vec::new(), vec![3], vec![3, 1, 0]] {
            let error = error_of(&with_checksum(forged));
            assert_eq!(error, "ERR Bad data format");
        }
        assert_eq!(error_of(&with_checksum(vec![200, 1])), refused);
    }
}
