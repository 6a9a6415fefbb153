//! How long the times of a lock may be, and what its holder says about itself.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::settings::Drift;

/// Nodes count in milliseconds: a part of one counts as a whole one.
pub(crate) fn whole_milliseconds(ttl: Duration) -> Duration {
    let above = ttl.subsec_nanos() % 1_000_000;
    if above == 0 {
        return ttl;
    }
    ttl.saturating_add(Duration::from_nanos(u64::from(1_000_000 - above)))
}

pub(crate) fn check_ttl(
    ttl: Duration,
    drift: Drift,
    min_validity: Duration,
) -> Result<(), Arc<str>> {
    if ttl > TTL_MAX {
        return Err(Arc::from("the ttl is at most 365 days"));
    }
    let validity = drift.validity(ttl);
    if validity.is_zero() || validity < min_validity {
        return Err(Arc::from(format!(
            "a ttl of {} ms leaves {} ms after drift ({} ms), which is too short",
            ttl.as_millis(),
            validity.as_millis(),
            drift.of(ttl).as_millis()
        )));
    }
    Ok(())
}

/// Nodes keep the lock for both together.
pub(crate) fn check_lock_delay(delay: Duration, ttl: Duration) -> Result<(), Arc<str>> {
    if ttl.saturating_add(delay) > TTL_MAX {
        return Err(Arc::from(
            "the ttl and the lock delay are together at most 365 days",
        ));
    }
    Ok(())
}

/// A renewal comes back after it was sent: less than the whole validity is left then.
pub(crate) fn check_reserve(
    reserve: Duration,
    ttl: Duration,
    drift: Drift,
) -> Result<(), Arc<str>> {
    let validity = drift.validity(ttl);
    if reserve >= validity {
        return Err(Arc::from(format!(
            "a reserve of {} ms is not less than the {} ms that a ttl of {} ms leaves after drift",
            reserve.as_millis(),
            validity.as_millis(),
            ttl.as_millis(),
        )));
    }
    Ok(())
}

const TTL_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_millisecond_counts_as_a_whole_one() {
        for (micros, whole_ms) in [(0, 0), (1, 1), (1_000, 1), (5_500, 6), (999_001, 1_000)] {
            let ttl = whole_milliseconds(Duration::from_micros(micros));
            assert_eq!(ttl, Duration::from_millis(whole_ms), "{micros} us");
        }
        assert_eq!(whole_milliseconds(Duration::from_nanos(1)).as_millis(), 1);
        assert!(whole_milliseconds(Duration::MAX) > TTL_MAX);
    }

    #[test]
    fn a_lock_delay_and_its_ttl_fit_into_what_nodes_keep() {
        let ttl = Duration::from_secs(30);
        let longest = TTL_MAX - ttl;
        for (delay, good) in [
            (Duration::ZERO, true),
            (longest, true),
            (longest + Duration::from_millis(1), false),
            (whole_milliseconds(Duration::MAX), false),
        ] {
            assert_eq!(check_lock_delay(delay, ttl).is_ok(), good, "{delay:?}");
        }
    }

    #[test]
    fn a_ttl_must_leave_validity() {
        let drift = Drift::default();
        let none = Duration::ZERO;
        let millis = Duration::from_millis;
        for (ttl, least, good) in [
            (none, none, false),
            (millis(1), none, false),
            (millis(2), none, false),
            (millis(3), none, true),
            (millis(500), none, true),
            (millis(500), millis(493), true),
            (millis(500), millis(494), false),
            (TTL_MAX, none, true),
            (TTL_MAX + millis(1), none, false),
            (Duration::MAX, none, false),
        ] {
            assert_eq!(
                check_ttl(ttl, drift, least).is_ok(),
                good,
                "{ttl:?} {least:?}"
            );
        }
    }
}
