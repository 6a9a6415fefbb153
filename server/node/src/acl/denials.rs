//! What ACL LOG shows: requests and logins that were refused, those that are alike as one.

use std::collections::VecDeque;

/// Where a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialContext {
    /// As it came.
    TopLevel,
    /// When it was queued, or by EXEC.
    Multi,
    /// When a script called it.
    Script,
}

impl DenialContext {
    /// Redis's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DenialContext::TopLevel => "toplevel",
            DenialContext::Multi => "multi",
            DenialContext::Script => "lua",
        }
    }
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// Redis's word: `command`, `key`, `channel` or `auth`.
    pub(crate) reason: &'static str,
    pub(crate) context: DenialContext,
    /// The command, the key or the channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// Refusals that are alike.
#[derive(Clone, Debug)]
pub(crate) struct AclLogEntry {
    pub(crate) denied: Denied,
    pub(crate) count: u64,
    pub(crate) id: u64,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// As in CLIENT LIST, of the last one.
    pub(crate) client: String,
}

/// The newest refusals, the last one first.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    entries: VecDeque<AclLogEntry>,
    next_id: u64,
    /// All refusals, by the reason's place in [`REASONS`].
    counts: [u64; REASONS.len()],
}

impl Denials {
    /// Notes a refusal at this time of the wall clock, and keeps as many entries (`acllog-max-len`).
    pub(crate) fn note(
        &mut self,
        mut denied: Denied,
        client: String,
        now_ms: u64,
        entries_max: usize,
    ) {
        if let Some(place) = REASONS
            .iter()
            .position(|(reason, _)| *reason == denied.reason)
        {
            self.counts[place] += 1;
        }
        denied.object.truncate(OBJECT_BYTES_MAX);
        denied.user.truncate(OBJECT_BYTES_MAX);
        let is_alike = |entry: &AclLogEntry| {
            let since_ms = now_ms.abs_diff(entry.updated_ms);
            entry.denied == denied && since_ms <= GROUPED_MS
        };
        let known = self.entries.iter().take(LOOKED_AT).position(is_alike);
        if let Some(mut entry) = known.and_then(|place| self.entries.remove(place)) {
            (entry.client, entry.updated_ms) = (client, now_ms);
            entry.count += 1;
            self.entries.push_front(entry);
            self.entries.truncate(entries_max);
            return;
        }
        self.entries.push_front(AclLogEntry {
            denied,
            count: 1,
            id: self.next_id,
            created_ms: now_ms,
            updated_ms: now_ms,
            client,
        });
        self.next_id += 1;
        self.entries.truncate(entries_max);
    }

    /// The newest, at most as many.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &AclLogEntry> {
        self.entries.iter().take(count)
    }

    /// How many there were since this was last asked to count anew, by the word that INFO has for the reason.
    pub(crate) fn counts(&self) -> [(&'static str, u64); REASONS.len()] {
        std::array::from_fn(|place| (REASONS[place].1, self.counts[place]))
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn count_anew(&mut self) {
        self.counts = Default::default();
    }

    /// ACL LOG RESET.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// Why something is refused: the word in ACL LOG, and the one in INFO.
const REASONS: [(&str, &str); 4] = [
    ("auth", "auth"),
    ("command", "cmd"),
    ("key", "key"),
    ("channel", "channel"),
];
/// How many entries are looked at for one that is alike, and how old it may be, as in Redis.
const LOOKED_AT: usize = 10;
const GROUPED_MS: u64 = 60_000;
const OBJECT_BYTES_MAX: usize = 1024;
