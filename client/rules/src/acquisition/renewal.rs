//! Whether a lock that has just been taken can be renewed in time, and with which ttl it could.
//!
//! Invariant: a renewal is expected to take as long as the votes took, with a little to spare. What is decided by it is
//! whether a lock is handed out; one that is held is renewed as long as it lasts.

use std::time::Duration;

use super::{Acquisition, Terms};
use crate::clock::ClientInstant;

impl Acquisition {
    /// How long a majority took for its votes until `now`: the longer one of two rounds, where some nodes were asked
    /// first.
    pub(super) fn votes_took(&self, now: ClientInstant) -> Duration {
        // A fence is no part of a renewal.
        let voted = self.voted.unwrap_or(now);
        match self.asked_all {
            Some(at) => at.since(self.started).max(voted.since(at)),
            None => voted.since(self.started),
        }
    }

    /// Whether enough is left of the lease when the first renewal has come back, where there are renewals.
    pub(super) fn can_be_renewed(&self, now: ClientInstant) -> bool {
        let Some(reserve) = self.terms.reserve else {
            return true;
        };
        let Terms { ttl, drift, .. } = self.terms;
        let renewed_after = now.since(self.started).max(ttl / RENEWAL_PART);
        let round_trip = self.votes_took(now);
        let needed = round_trip.saturating_add(round_trip / SPARE_PART);
        let left = drift.validity(ttl).saturating_sub(renewed_after);
        left >= needed.saturating_add(reserve)
    }
}

impl Terms {
    /// The ttl with which a lock can be had, and renewed where it is to be, if the nodes take so long for a round. None
    /// if no longer one would do.
    pub(crate) fn ttl_needed(&self, round_trip: Duration) -> Option<Duration> {
        let drift = f64::from(self.drift.rate_ppm) / 1_000_000.0;
        let constant = self.drift.constant.as_secs_f64();
        let round_trip = round_trip.as_secs_f64();
        let part_of = |needed: f64, part: f64| (part > PART_LEAST).then(|| needed / part);
        let needed = match self.reserve {
            None => {
                let needed = round_trip + constant + self.min_validity.as_secs_f64();
                part_of(needed, 1.0 - drift)?
            }
            // What has to be left is a part of the ttl, or less of a longer one.
            Some(reserve) => {
                let reserve = reserve.as_secs_f64() / self.ttl.as_secs_f64();
                let renewal = round_trip + round_trip / f64::from(SPARE_PART) + constant;
                let at_once = part_of(round_trip + renewal, 1.0 - drift - reserve)?;
                let first = 1.0 / f64::from(RENEWAL_PART);
                at_once.max(part_of(renewal, 1.0 - first - drift - reserve)?)
            }
        };
        let tenths = (needed * 1.1 * 10.0).ceil();
        let ttl = Duration::try_from_secs_f64(tenths / 10.0).ok()?;
        (ttl > self.ttl).then_some(ttl)
    }
}

/// A lock is renewed when this part of its lease is over.
pub(crate) const RENEWAL_PART: u32 = 3;
/// One round trip may take longer than the one before, by this part of it.
const SPARE_PART: u32 = 4;
/// Of less than this part of a lease no renewal would live.
const PART_LEAST: f64 = 0.05;
