//! For how long nodes are asked to keep a lock, so that its caller may count its ttl from the reply on.

use std::time::Duration;

use quorlock_client_rules::settings::Drift;
use quorlock_clock::saturated;

/// How long nodes keep a lock whose caller asked for `ttl`. Libraries count it from about the moment of the reply on: what the
/// clocks may differ by, and what a round with the nodes may take, comes on top.
pub(crate) fn node_ttl(ttl: Duration, drift: Drift) -> Duration {
    let lasts = ttl.saturating_add(allowance(ttl));
    let needed = lasts.saturating_add(drift.constant).as_nanos();
    // What is taken off is a part of the longer lease.
    let kept_ppm = u128::from(MILLION.saturating_sub(drift.rate_ppm).max(1));
    let lease_ns = needed
        .saturating_mul(u128::from(MILLION))
        .div_ceil(kept_ppm);
    // Nodes count in milliseconds.
    Duration::from_millis(saturated(lease_ns.div_ceil(1_000_000)))
}

/// What is left for the caller of a lock that the nodes keep for so long: a ttl that was asked for looks like itself.
pub(crate) fn caller_ttl(left: Duration, drift: Drift) -> Duration {
    let lasts = drift.validity(left);
    let shortest = lasts.saturating_sub(ALLOWANCE_MIN);
    // Where the allowance is a tenth, it is an eleventh of the whole.
    let ttl = match shortest {
        short if short < ALLOWANCE_MIN * 10 => short,
        _ => lasts.saturating_sub((lasts / 11).min(ALLOWANCE_MAX)),
    };
    ttl.max(Duration::from_millis(1))
}

/// What a round with the nodes may take.
fn allowance(ttl: Duration) -> Duration {
    (ttl / 10).clamp(ALLOWANCE_MIN, ALLOWANCE_MAX)
}

const MILLION: u32 = 1_000_000;
const ALLOWANCE_MIN: Duration = Duration::from_millis(50);
const ALLOWANCE_MAX: Duration = Duration::from_secs(1);

/// The longest ttl of a lock: with what comes on top nodes keep it for a year at most.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(360 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_is_told_is_left_is_what_it_asked_for_and_never_more() {
        let drift = Drift::default();
        for ttl_ms in [
            1, 2, 50, 100, 499, 500, 501, 1_000, 9_999, 10_000, 10_001, 60_000, 86_400_000,
        ] {
            let ttl = Duration::from_millis(ttl_ms);
            let told = caller_ttl(node_ttl(ttl, drift), drift);
            assert!(
                told >= ttl && told <= ttl + Duration::from_millis(2),
                "{ttl:?} {told:?}"
            );
        }
        assert_eq!(caller_ttl(Duration::ZERO, drift), Duration::from_millis(1));
    }

    #[test]
    fn a_lease_is_valid_for_its_ttl_and_the_time_of_a_round() {
        for drift in [
            Drift::default(),
            Drift {
                rate_ppm: 100_000,
                constant: Duration::ZERO,
            },
        ] {
            for ttl_ms in [1, 2, 100, 1_000, 10_000, 86_400_000] {
                let ttl = Duration::from_millis(ttl_ms);
                let validity = drift.validity(node_ttl(ttl, drift));
                assert!(validity >= ttl + allowance(ttl), "{ttl:?} {validity:?}");
                // Others are not kept out for much longer.
                assert!(node_ttl(ttl, drift) <= ttl.mul_f64(1.35) + ALLOWANCE_MIN * 2);
            }
        }
        let kept = node_ttl(TTL_MAX, Drift::default());
        assert!(kept <= Duration::from_secs(365 * 24 * 60 * 60), "{kept:?}");
    }
}
