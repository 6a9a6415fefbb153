//! Changes of several keys: admitted as one before the first of them is made.

use crate::context::{CommandContext, MUTATION_OVERHEAD_BYTES, TOO_MANY_KEYS};
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::entry::Body;
use crate::keyspace::members::Members;
use crate::mutation;
use crate::notifications::Class;
use crate::time::Deadline;

impl CommandContext<'_> {
    /// Writes strings without a TTL, whatever was there before: keys and strings alternate. All of them
    /// or, with an error, none.
    pub(crate) fn put_strings(&mut self, pairs: &[&[u8]]) -> Result<(), ErrorReply> {
        let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        self.admit_deadline(Deadline::NEVER)?;
        let (mut bytes, mut new_keys) = (0_usize, 0_usize);
        for (key, value) in pairs.clone() {
            let found = self.peek(key);
            self.admit_key(&found, key, value.len())?;
            self.admit_value(value.len())?;
            bytes = bytes.saturating_add(mutation::bytes_of_replace(key, value.len()));
            new_keys = new_keys.saturating_add(usize::from(found.stored.is_none()));
        }
        if new_keys > 1 && !self.keyspace.has_slots(new_keys) {
            return Err(TOO_MANY_KEYS);
        }
        self.admit_bytes(bytes)?;
        for (key, value) in pairs {
            let found = self.peek(key);
            self.put_string(&found, key, value, Deadline::NEVER)?;
            self.notify(Class::String, "set", key);
        }
        Ok(())
    }

    /// Gives a key that exists another name.
    pub(crate) fn rename(
        &mut self,
        from: &KeySlot,
        key: &[u8],
        other: &[u8],
    ) -> Result<(), ErrorReply> {
        let Some(slot) = from.live else { return Ok(()) };
        let entry = self.keyspace.entry(slot);
        let (value_bytes, deadline) = (entry.value().bytes(), entry.deadline);
        // The key's own slot is free again for the other one, so that there is room for it.
        self.admit_name(other)?;
        self.admit_deadline(deadline)?;
        let bytes = mutation::bytes_of_replace(other, value_bytes);
        self.admit_bytes(bytes.saturating_add(mutation::bytes_of(&[key])))?;
        let body = self.keyspace.entry(slot).body.renamed(other);
        self.delete(from, key)?;
        let to = self.peek(other);
        self.write_body(&to, other, body, deadline)
    }

    /// Writes a copy of a key that exists.
    pub(crate) fn copy(
        &mut self,
        from: &KeySlot,
        to: &KeySlot,
        other: &[u8],
    ) -> Result<(), ErrorReply> {
        let Some(slot) = from.live else { return Ok(()) };
        let entry = self.keyspace.entry(slot);
        let (value_bytes, deadline) = (entry.value().bytes(), entry.deadline);
        self.admit_key(to, other, value_bytes)?;
        self.admit_deadline(deadline)?;
        let body = self.keyspace.entry(slot).body.renamed(other);
        self.write_body(to, other, body, deadline)
    }

    /// Moves a member that the set of a key has to the set of another key, which need not exist.
    pub(crate) fn move_member(
        &mut self,
        from: &KeySlot,
        key: &[u8],
        to: &KeySlot,
        other: &[u8],
        member: &[u8],
    ) -> Result<(), ErrorReply> {
        let removal = [Change::SetRemove { member }];
        let addition = [Change::SetAdd { member }];
        let mut added = Members::default();
        added.add(member, self.keyspace.seed());
        let set = self.collection::<Members>(to)?;
        let bytes_of_addition = match set {
            Some(set) if set.contains(member) => None,
            Some(_) => Some(mutation::bytes_of_change(other, &addition[0])),
            None => Some(added.bytes()),
        };
        let is_new = set.is_none();
        let removed = key
            .len()
            .saturating_add(mutation::bytes_of_change(key, &removal[0]));
        let added_bytes = bytes_of_addition.map_or(0, |bytes| {
            let named = bytes.saturating_add(other.len());
            named.saturating_add(MUTATION_OVERHEAD_BYTES)
        });
        self.admit_bytes(removed.saturating_add(added_bytes))?;
        // The addition may be refused for other reasons. After it the removal has nothing left that
        // could refuse it.
        if is_new {
            self.put_collection(to, other, added, Deadline::NEVER)?;
        } else {
            self.change(to, other, addition.into_iter())?;
        }
        self.change(from, key, removal.into_iter())?;
        Ok(())
    }

    /// Moves a key that exists to another database.
    pub(crate) fn move_to(
        &mut self,
        from: &KeySlot,
        to: &KeySlot,
        key: &[u8],
    ) -> Result<(), ErrorReply> {
        let Some(slot) = from.live else { return Ok(()) };
        let bytes = mutation::bytes_of_replace(key, self.value(slot).bytes());
        let both = bytes.saturating_add(mutation::bytes_of(&[key]));
        self.admit_bytes(both.saturating_add(MUTATION_OVERHEAD_BYTES))?;
        self.copy(from, to, key)?;
        self.delete(from, key)?;
        Ok(())
    }

    /// Writes a whole key that has been admitted.
    fn write_body(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        body: Body,
        deadline: Deadline,
    ) -> Result<(), ErrorReply> {
        let journal = &mut self.effects.journal;
        mutation::encode_replace(journal, found.database, key, body.value(), deadline);
        if found.live.is_some() && self.keyspace.events.contain(Class::New) {
            // As in Redis, where it takes the other key's place.
            self.notify_in(found.database, Class::New, "new", key);
        }
        self.store(found, body, deadline)
    }
}
