//! What an incarnation puts on record about itself when it starts, serves, opens a checkpoint and
//! stops: the other half of what `restart` judges.
//!
//! Invariant: every prefix of these records leaves a log after which a start waits long enough.
//! Plain functions of plain data, so that a model runs what runs in production.

use crate::control::{Control, ControlRecord, Durability, Pending, Start};
use crate::stop::Stop;
use crate::time::NodeTime;

/// What a start puts on record. Everything it has read is durable by then, so the bound on TTLs
/// that may be forgotten starts anew: from here on only what is granted counts.
pub fn at_start(start: Start) -> [ControlRecord; 2] {
    [ControlRecord::Start(start), ControlRecord::Promise(0)]
}

/// A record, and what follows it in the same write where a crash has to be waited out longer than the
/// record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owing {
    /// The record.
    pub record: ControlRecord,
    /// OWED, if something is.
    pub owed: Option<ControlRecord>,
}

/// What begins the service, in one write.
///
/// A run that logs no keys forgets those it has recovered when it crashes. A crash has to be waited
/// out until the last of them ends, at `latest`, also where that is beyond today's
/// `restart-delay-max`: that limits what is granted now, not what was granted before.
pub fn at_serving(durability: Durability, latest: Option<NodeTime>, now: NodeTime) -> Owing {
    let owed = latest.filter(|latest| durability == Durability::Volatile && *latest > now);
    Owing {
        record: ControlRecord::Serving,
        owed: owed.map(ControlRecord::Owed),
    }
}

/// What opens a checkpoint, in one write: all that earlier records say and that still counts.
pub fn at_checkpoint(control: Control, owed_until: NodeTime, now: NodeTime) -> Owing {
    let owed = Some(owed_until).filter(|until| *until > now);
    Owing {
        record: ControlRecord::Control(control),
        owed: owed.map(ControlRecord::Owed),
    }
}

/// What an orderly stop leaves for the next start to wait out.
///
/// `waiting` is the delay that the incarnation itself is waiting out: stopping does not end it.
/// A run that logs no keys forgets them all: `latest` is the deadline of the longest one.
pub fn at_stop(
    waiting: Option<Pending>,
    durability: Durability,
    latest: Option<NodeTime>,
    now: NodeTime,
) -> ControlRecord {
    let forgotten = latest
        .filter(|until| durability == Durability::Volatile && *until > now)
        .map(|until| Pending {
            until,
            length_ns: until.as_nanos().saturating_sub(now.as_nanos()),
            cause: Stop::Clean,
        });
    ControlRecord::Shutdown(waiting.or(forgotten))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Boot, Ceiling};
    use crate::restart::History;
    use crate::time::{BootTime, RawTime};

    const NOW: NodeTime = NodeTime::from_nanos(100);
    const LATER: NodeTime = NodeTime::from_nanos(170);

    #[test]
    fn only_a_run_that_logs_no_keys_owes_what_it_has_recovered() {
        let owed = |durability, latest| at_serving(durability, latest, NOW).owed;
        assert_eq!(
            owed(Durability::Volatile, Some(LATER)),
            Some(ControlRecord::Owed(LATER))
        );
        assert_eq!(owed(Durability::Volatile, Some(NOW)), None, "it has ended");
        assert_eq!(owed(Durability::Volatile, None), None);
        for logged in [Durability::No, Durability::Everysec, Durability::Always] {
            assert_eq!(owed(logged, Some(LATER)), None);
        }
    }

    #[test]
    fn a_stop_inside_the_delay_carries_it_on_and_one_without_a_log_leaves_one() {
        let waiting = Pending {
            until: LATER,
            length_ns: 90,
            cause: Stop::Unclean,
        };
        for durability in [Durability::Volatile, Durability::Always] {
            let stop = at_stop(Some(waiting), durability, Some(LATER), NOW);
            assert_eq!(stop, ControlRecord::Shutdown(Some(waiting)));
        }
        let forgotten = Pending {
            until: LATER,
            length_ns: 70,
            cause: Stop::Clean,
        };
        let stop = |durability, latest| at_stop(None, durability, latest, NOW);
        assert_eq!(
            stop(Durability::Volatile, Some(LATER)),
            ControlRecord::Shutdown(Some(forgotten))
        );
        assert_eq!(
            stop(Durability::Volatile, Some(NOW)),
            ControlRecord::Shutdown(None)
        );
        assert_eq!(
            stop(Durability::No, Some(LATER)),
            ControlRecord::Shutdown(None)
        );
    }

    /// The log may end between CONTROL and the OWED that belongs to it: an unfinished checkpoint is
    /// read as any other frames.
    #[test]
    fn a_checkpoint_that_is_cut_off_forgets_no_debt() {
        let start = Start {
            incarnation: 1,
            boot: Boot::default(),
            fingerprint: 1,
            durability: Durability::Volatile,
            base: NodeTime::ZERO,
            raw: RawTime::ZERO,
            wall_us: 0,
            boottime: BootTime::ZERO,
            pending: None,
            cap_ns: 0,
            ceiling: Ceiling::NONE,
        };
        let control = Control {
            start,
            serving: true,
            weakest: Durability::Volatile,
            ttl_bound_ns: 0,
        };
        let mut history = History::default();
        history.record(NOW, &ControlRecord::Owed(LATER));
        let opening = at_checkpoint(control, LATER, NOW);
        history.record(NOW, &opening.record);
        assert_eq!(history.owed_until, LATER);
        assert_eq!(opening.owed, Some(ControlRecord::Owed(LATER)));
        assert_eq!(at_checkpoint(control, NOW, NOW).owed, None, "it has ended");
        history.record(NOW, &ControlRecord::Serving);
        assert_eq!(
            history.owed_until,
            NodeTime::ZERO,
            "the next service ends it"
        );
    }
}
