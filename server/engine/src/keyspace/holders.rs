//! Who took the keys of a node: since when each is held in this run, how often it was extended, and by which connection. What
//! LOCK.INFO and LOCK.LIST say beside the key itself.
//!
//! Every key that is written gets a record, since a lock of any library is a key: a small one at the number of its slot, so that
//! a SET allocates nothing for it. What a connection says about itself is asked of the node when somebody wants to know it.
//!
//! Invariant: a record describes the key that its slot holds now. It begins anew where another value is
//! written over the key, and where another key gets the slot; the same token over a lock is an extension. Nothing of it is logged,
//! so a restart forgets all records, and a key without one is a key of which nothing is known. Memory is bounded: where more keys are held than there are records, the newer key has the record of the older one.
//! No lock depends on any of this.

use std::collections::BTreeMap;
use std::fmt;

use crate::keyspace::entry::{NONE, Slot};
use crate::time::NodeTime;

/// What is known of who took a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) since: NodeTime,
    /// The connection that wrote the key.
    pub(crate) client_id: u64,
    /// When its deadline was last moved to a later time.
    last_extension: NodeTime,
    /// How often that was.
    pub(crate) extensions: u32,
    /// Which key it is about; [`NONE`] where it is about none.
    slot: Slot,
}

impl Holder {
    const VACANT: Holder = Holder {
        since: NodeTime::ZERO,
        client_id: 0,
        last_extension: NodeTime::ZERO,
        extensions: 0,
        slot: NONE,
    };

    pub(crate) fn last_extension(&self) -> Option<NodeTime> {
        (self.extensions > 0).then_some(self.last_extension)
    }
}

/// What a connection says about itself, or has said before it was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientDescription {
    /// The name that CLIENT SETNAME gave it, or nothing.
    pub name: String,
    /// The address it came from.
    pub address: String,
    /// The library that CLIENT SETINFO named, or nothing.
    pub library_name: String,
    /// Its version, or nothing.
    pub library_version: String,
    /// Whether it is still there.
    pub is_connected: bool,
}

/// What is known of who took which key.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// Made as slots are used.
    chunks: Vec<Vec<Holder>>,
    /// What holders say about themselves (LOCK.ACQUIRE OWNER), by the slots of their keys.
    owners: BTreeMap<Slot, Box<str>>,
    /// What these texts take.
    owner_bytes: usize,
    directory: ClientDirectory,
}

impl Holders {
    /// Notes that a connection has written a key. What was known of the key in this slot is forgotten.
    // Nothing is read: a load of what is not in the cache would be waited for.
    #[inline]
    pub(crate) fn note_taken(&mut self, slot: Slot, now: NodeTime, client_id: u64) {
        self.put(Holder {
            since: now,
            client_id,
            slot,
            ..Holder::VACANT
        });
    }

    /// Keeps what the holder says about itself, unless the texts of all holders would take too much. Says whether it is kept.
    pub(crate) fn note_owner(&mut self, slot: Slot, owner: &str) -> bool {
        let bytes = self.owner_bytes.saturating_add(bytes_of(owner));
        if bytes > OWNER_BYTES_MAX || self.of(slot).is_none() {
            return false;
        }
        self.put_owner(slot, owner.into());
        true
    }

    /// What the holder of the key in a slot says about itself.
    pub(crate) fn owner(&self, slot: Slot) -> Option<&str> {
        self.owners.get(&slot).map(|owner| &**owner)
    }

    /// Notes that the deadline of a key was moved to a later time.
    pub(crate) fn note_extended(&mut self, slot: Slot, now: NodeTime) {
        if let Some(holder) = self.known_mut(slot) {
            holder.extensions = holder.extensions.saturating_add(1);
            holder.last_extension = now;
        }
    }

    /// What is known of the key in a slot.
    pub(crate) fn of(&self, slot: Slot) -> Option<&Holder> {
        let (chunk, offset) = place_of(slot);
        let holder = self.chunks.get(chunk)?.get(offset)?;
        (holder.slot == slot).then_some(holder)
    }

    /// The key of a slot is gone, or is being overwritten. Its record is of nobody's interest then, and stays until the next.
    #[inline]
    pub(crate) fn end(&mut self, slot: Slot) {
        if !self.owners.is_empty() {
            self.take_owner(slot);
        }
    }

    /// Forgets what is known of the key in a slot, which stays.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.take(slot);
    }

    /// Takes it out, so that it can be put back.
    pub(crate) fn take(&mut self, slot: Slot) -> (Option<Holder>, Option<Box<str>>) {
        let holder = self.known_mut(slot);
        let holder = holder.map(|holder| std::mem::replace(holder, Holder::VACANT));
        (holder, self.take_owner(slot))
    }

    fn take_owner(&mut self, slot: Slot) -> Option<Box<str>> {
        let owner = self.owners.remove(&slot)?;
        self.owner_bytes = self.owner_bytes.saturating_sub(bytes_of(&owner));
        Some(owner)
    }

    /// Puts a text where the one before was taken out.
    pub(crate) fn put_owner(&mut self, slot: Slot, owner: Box<str>) {
        self.take_owner(slot);
        self.owner_bytes = self.owner_bytes.saturating_add(bytes_of(&owner));
        self.owners.insert(slot, owner);
    }

    /// Puts a record into its slot, whatever was there before.
    #[inline]
    pub(crate) fn put(&mut self, holder: Holder) {
        let (chunk, offset) = place_of(holder.slot);
        match self
            .chunks
            .get_mut(chunk)
            .map(|chunk| chunk.get_mut(offset))
        {
            Some(Some(record)) => *record = holder,
            _ => self.put_first(holder),
        }
    }

    // Once for each record that is made.
    #[cold]
    fn put_first(&mut self, holder: Holder) {
        let (number, offset) = place_of(holder.slot);
        if self.chunks.len() <= number {
            self.chunks
                .resize_with(number.saturating_add(1), Vec::default);
        }
        let chunk = &mut self.chunks[number];
        let capacity = offset.saturating_add(1).next_power_of_two();
        chunk.reserve_exact(capacity.saturating_sub(chunk.len()));
        chunk.resize(offset, Holder::VACANT);
        chunk.push(holder);
    }

    /// The key of one slot is in another one from now on.
    pub(crate) fn follow(&mut self, from: Slot, to: Slot) {
        self.forget(to);
        let (holder, owner) = self.take(from);
        if let Some(holder) = holder {
            self.put(Holder { slot: to, ..holder });
        }
        if let Some(owner) = owner {
            self.put_owner(to, owner);
        }
    }

    /// Takes all memory. No slot holds a key.
    pub(crate) fn take_all(&mut self) -> Vec<Vec<Holder>> {
        debug_assert_eq!(self.owner_bytes, 0, "no owner without a key");
        std::mem::take(&mut self.chunks)
    }

    /// Sets whom to ask about connections.
    pub(crate) fn set_directory(&mut self, directory: Directory) {
        self.directory = ClientDirectory(Some(directory));
    }

    /// What the connection of a holder says about itself.
    pub(crate) fn client(&self, holder: &Holder) -> Option<ClientDescription> {
        self.directory.0.as_ref()?(holder.client_id)
    }

    /// What a connection of this number says about itself.
    pub(crate) fn client_numbered(&self, client_id: u64) -> Option<ClientDescription> {
        self.directory.0.as_ref()?(client_id)
    }

    fn known_mut(&mut self, slot: Slot) -> Option<&mut Holder> {
        let (chunk, offset) = place_of(slot);
        let holder = self.chunks.get_mut(chunk)?.get_mut(offset)?;
        (holder.slot == slot).then_some(holder)
    }
}

/// What the node knows of a connection, by its number.
pub(crate) type Directory = Box<dyn Fn(u64) -> Option<ClientDescription> + Send>;

/// Whom to ask about connections.
#[derive(Default)]
struct ClientDirectory(Option<Directory>);

impl fmt::Debug for ClientDirectory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientDirectory")
    }
}

fn bytes_of(owner: &str) -> usize {
    owner.len().saturating_add(OWNER_OVERHEAD_BYTES)
}

/// The chunk of a slot's record, and the offset in it.
fn place_of(slot: Slot) -> (usize, usize) {
    let index = slot % RECORDS_MAX;
    let chunk = index / CHUNK_RECORDS;
    (chunk as usize, (index % CHUNK_RECORDS) as usize)
}

/// 16 MiB of records.
const RECORDS_MAX: u32 = 1 << 19;
const CHUNK_RECORDS: u32 = 4096;
/// What a text takes beside its bytes.
const OWNER_OVERHEAD_BYTES: usize = 64;
/// More than that of owners' texts is not kept.
const OWNER_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(size_of::<Holder>() == 32, "what is said of memory");

#[cfg(test)]
#[path = "holders_tests.rs"]
mod tests;
