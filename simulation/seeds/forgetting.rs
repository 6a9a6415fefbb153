//! Plans in which nodes, or the clocks of clients, are not what clients take them for.

use super::fault_class::FaultClass;
use super::plan::Plan;

impl Plan {
    /// The same with five nodes that forget, one at a time, and serve at once; and callers that ask for this many spare votes.
    pub(crate) fn forgetful(seed: u64, spare_votes: usize) -> Plan {
        Plan {
            nodes: 5,
            names: 1,
            spare_votes,
            faults: FaultClass::Emptied,
            away: 2,
            is_together: false,
            is_crowded: false,
            is_in_step: false,
            // No client heals a lock that is held under a token alone.
            is_by_token: true,
            is_several: false,
            is_waiting: false,
            ..Plan::of(seed).of_plain_locks()
        }
    }

    /// The same with five nodes that sync each write, and of which one at a time is put back to an image of itself.
    pub(crate) fn rolled_back(seed: u64) -> Plan {
        Plan {
            fsync: "always",
            faults: FaultClass::RolledBack,
            ..Plan::forgetful(seed, 0)
        }
    }

    /// The same seed with clients whose clocks stand still now and then.
    pub(crate) fn stopped_clocks(seed: u64) -> Plan {
        Plan {
            faults: FaultClass::StoppedClocks,
            away: 1,
            is_together: false,
            is_crowded: false,
            is_in_step: false,
            is_by_token: false,
            is_several: false,
            is_waiting: false,
            ..Plan::of(seed).of_plain_locks()
        }
    }
}
