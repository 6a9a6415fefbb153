//! How often a request looks again at a lock that was not as it had been read, and when.

use std::time::Duration;

use quorlock_clock::ClientInstant;
use rand::Rng;

/// When a request goes on whose votes were split, or whose lock has changed, this often. None where it gives up.
pub(crate) fn pause_until(
    rounds: u32,
    now: ClientInstant,
    random: &mut dyn Rng,
) -> Option<ClientInstant> {
    if rounds > ROUNDS_MAX {
        return None;
    }
    let part = f64::from(random.next_u32()) / f64::from(u32::MAX);
    // Longer with each round: others who are in the way must have had time to give up.
    let most = PAUSE_STEP.saturating_mul(rounds);
    Some(now.after(most.mul_f64(0.25 + 0.75 * part)))
}

/// How often a request is executed because the lock was not as it had been read.
pub(crate) const ROUNDS_MAX: u32 = 8;
/// By how much a pause for votes that are split may last longer than the one before.
const PAUSE_STEP: Duration = Duration::from_millis(15);
