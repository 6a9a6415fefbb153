//! What a request needs of its agent.

use std::time::Duration;

use quorlock_client_rules::settings::Drift;
use quorlock_clock::ClientInstant;
use rand::Rng;

use crate::channels::Channels;
use crate::known_holders::KnownHolders;
use crate::scratch::Scratch;
use crate::sessions::Sessions;
use crate::watched_names::WatchedNames;

/// What a request needs of its agent.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: ClientInstant,
    pub(crate) wall_us: u64,
    pub(crate) drift: Drift,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) known: &'a mut KnownHolders,
    pub(crate) watched: &'a mut WatchedNames,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) channels: &'a mut Channels,
    /// Whose request it is.
    pub(crate) client: u64,
    /// How long a try may be held back now, if it may.
    pub(crate) hold_back: Option<Duration>,
    pub(crate) random: &'a mut dyn Rng,
}
