//! The bytes of one file in memory, and those a power loss would leave.
//!
//! Invariant: a sector that is not in `unsynced` is durable as it is read. Where nothing is remembered
//! (`remembers` is false) the map stays empty and costs nothing. Zeros at the end are counted, not stored: a log fills
//! megabytes with them for each segment. Whatever is not stored was zero when it was last synced, too.

use super::loss::{Fate, SECTOR_BYTES};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct FileContent {
    bytes: Vec<u8>,
    /// How many zeros follow `bytes`.
    zeros: usize,
    /// The sectors written since they were last synced.
    unsynced: BTreeMap<u64, SyncedSector>,
    /// The length a power loss would leave, if no sector beyond it survives.
    synced_length: usize,
}

/// What a sector held when it was last synced.
#[derive(Clone, Debug)]
struct SyncedSector {
    /// `None` where there was nothing: it reads as zeros.
    bytes: Option<Box<[u8]>>,
    /// A sync of it has failed. Linux calls such a page clean: no later sync writes it.
    is_abandoned: bool,
}

impl FileContent {
    /// The same bytes, none of them synced.
    pub(super) fn copy(&self) -> FileContent {
        FileContent {
            bytes: self.bytes.clone(),
            zeros: self.zeros,
            ..FileContent::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.zeros
    }

    /// Fills the buffer with what is there from `offset` on; how much it was.
    pub(super) fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let length = buffer.len().min(self.len().saturating_sub(offset));
        let stored = self.bytes.get(offset..).unwrap_or_default();
        let stored = &stored[..stored.len().min(length)];
        buffer[..stored.len()].copy_from_slice(stored);
        buffer[stored.len()..length].fill(0);
        length
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], remembers: bool) {
        let end = offset + bytes.len();
        if remembers && !bytes.is_empty() {
            self.remember(offset, end);
        }
        let length = self.len().max(end);
        if offset < self.bytes.len() || !is_zero(bytes) {
            if self.bytes.len() < end {
                self.bytes.resize(end, 0);
            }
            self.bytes[offset..end].copy_from_slice(bytes);
        }
        self.zeros = length - self.bytes.len();
    }

    /// Everything is durable, except what a failed sync has abandoned.
    pub(super) fn sync(&mut self) {
        self.unsynced.retain(|_, old| old.is_abandoned);
        self.synced_length = self.len();
    }

    /// A sync failed: what it should have written counts as clean, and is not durable.
    pub(super) fn abandon(&mut self) {
        for old in self.unsynced.values_mut() {
            old.is_abandoned = true;
        }
    }

    /// Whatever it was: from now on this is what is on the disk.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.resize(self.len(), 0);
        self.zeros = 0;
        change(&mut self.bytes);
        self.unsynced.clear();
        self.synced_length = self.len();
    }

    pub(super) fn has_abandoned(&self) -> bool {
        self.unsynced.values().any(|old| old.is_abandoned)
    }

    pub(super) fn has_unsynced_length(&self) -> bool {
        self.synced_length != self.len()
    }

    /// The unsynced sectors whose loss could be told, by number.
    pub(super) fn unsynced_sectors(&self) -> impl Iterator<Item = u64> {
        self.unsynced
            .iter()
            .filter(|(sector, old)| self.differs(**sector, old))
            .map(|(sector, _)| *sector)
    }

    /// The pages that a failed sync has abandoned leave the page cache: they read as before.
    pub(super) fn evict_abandoned(&mut self) {
        let is_abandoned = |old: &SyncedSector| old.is_abandoned;
        self.lose(true, |content, sector| {
            match content.unsynced.get(&sector).is_some_and(is_abandoned) {
                true => Fate::Lost,
                false => Fate::Kept,
            }
        });
        self.unsynced.retain(|_, old| !old.is_abandoned);
    }

    /// What a power loss leaves, all of it durable.
    pub(super) fn settle(&mut self, keeps_length: bool, fate: impl Fn(u64) -> Fate) {
        self.lose(keeps_length, |_, sector| fate(sector));
        self.unsynced.clear();
        self.synced_length = self.len();
    }

    fn lose(&mut self, keeps_length: bool, fate: impl Fn(&FileContent, u64) -> Fate) {
        let mut left = self.bytes.clone();
        let mut length = match keeps_length {
            true => self.len(),
            false => self.synced_length,
        };
        for (&sector, old) in &self.unsynced {
            let from = start_of(sector).min(left.len());
            let to = start_of(sector + 1).min(left.len());
            let fate = fate(self, sector);
            if fate != Fate::Lost && self.differs(sector, old) {
                length = length.max(start_of(sector + 1).min(self.len()));
            }
            for (index, byte) in left[from..to].iter_mut().enumerate() {
                let old = old.byte(index);
                *byte = fate.byte(index, old, *byte);
            }
        }
        let length = length.min(self.len());
        left.truncate(length);
        self.zeros = length - left.len();
        self.bytes = left;
    }

    fn remember(&mut self, from: usize, to: usize) {
        for sector in sector_of(from)..=sector_of(to - 1) {
            let old = self.unsynced.entry(sector).or_insert_with(|| {
                let from = start_of(sector).min(self.bytes.len());
                let to = start_of(sector + 1).min(self.bytes.len());
                SyncedSector {
                    bytes: (from < to).then(|| self.bytes[from..to].into()),
                    is_abandoned: false,
                }
            });
            // Written again, its page is dirty again.
            old.is_abandoned = false;
        }
    }

    fn differs(&self, sector: u64, old: &SyncedSector) -> bool {
        let from = start_of(sector).min(self.bytes.len());
        let to = start_of(sector + 1).min(self.bytes.len());
        let mut bytes = self.bytes[from..to].iter().enumerate();
        bytes.any(|(index, byte)| *byte != old.byte(index))
    }
}

impl SyncedSector {
    fn byte(&self, index: usize) -> u8 {
        let bytes = self.bytes.as_ref();
        bytes
            .and_then(|bytes| bytes.get(index))
            .copied()
            .unwrap_or(0)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let mut blocks = bytes.chunks(ZEROS.len());
    blocks.all(|block| *block == ZEROS[..block.len()])
}

fn sector_of(offset: usize) -> u64 {
    (offset / SECTOR_BYTES) as u64
}

fn start_of(sector: u64) -> usize {
    usize::try_from(sector)
        .expect("it was counted in memory")
        .saturating_mul(SECTOR_BYTES)
}

/// As many as are compared at once.
static ZEROS: [u8; 4096] = [0; 4096];
