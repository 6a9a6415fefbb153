//! A control record, described: its fields in the order in which they are stored.

use quorlock_server::inspection::{Ceiling, ControlRecord, Pending, Start, hexadecimal};

use super::printout::Printout;

/// Describes a record.
pub(crate) fn describe(record: &ControlRecord) -> Printout {
    let empty = Printout::default();
    match record {
        ControlRecord::Init | ControlRecord::Serving | ControlRecord::Tick => empty,
        ControlRecord::Start(start) => describe_start(start),
        ControlRecord::Mode(mode) => empty
            .with_named("durability", mode.durability.name())
            .with_named("cap_ns", mode.cap_ns)
            .with_named("complete", mode.is_complete),
        ControlRecord::Promise(ttl_ns) => empty.with_named("ttl_bound_ns", *ttl_ns),
        ControlRecord::Lost(ttl_ns) => empty.with_named("lost_ns", *ttl_ns),
        ControlRecord::Wall { wall_us, boottime } => empty
            .with_named("wall_us", *wall_us)
            .with_named("boottime_ns", boottime.as_nanos()),
        ControlRecord::Owed(until) => empty.with_named("owed_until_ns", until.as_nanos()),
        ControlRecord::Ceiling(ceiling) => with_ceiling(empty, *ceiling),
        ControlRecord::Released(digest) => empty.with_named("receipt_sha256", hexadecimal(digest)),
        ControlRecord::Adopted(adoption) => empty
            .with_named("incarnation", adoption.incarnation)
            .with_named("fingerprint", format!("{:016x}", adoption.fingerprint))
            .with_named("proven", adoption.is_proven),
        ControlRecord::Shutdown(pending) => with_pending(empty, pending.as_ref()),
        ControlRecord::Control(control) => describe_start(&control.start)
            .with_named("serving", control.serving)
            .with_named("weakest", control.weakest.name())
            .with_named("ttl_bound_ns", control.ttl_bound_ns),
    }
}

fn describe_start(start: &Start) -> Printout {
    let description = Printout::default()
        .with_named("incarnation", start.incarnation)
        .with_named("boot", hexadecimal(&start.boot.0))
        .with_named("fingerprint", format!("{:016x}", start.fingerprint))
        .with_named("durability", start.durability.name())
        .with_named("base_ns", start.base.as_nanos())
        .with_named("raw_ns", start.raw.as_nanos())
        .with_named("wall_us", start.wall_us)
        .with_named("boottime_ns", start.boottime.as_nanos());
    let description =
        with_pending(description, start.pending.as_ref()).with_named("cap_ns", start.cap_ns);
    with_ceiling(description, start.ceiling)
}

fn with_ceiling(description: Printout, ceiling: Ceiling) -> Printout {
    description
        .with_named("ceiling", ceiling.value())
        .with_named("certain", matches!(ceiling, Ceiling::Known(_)))
}

fn with_pending(description: Printout, pending: Option<&Pending>) -> Printout {
    match pending {
        Some(pending) => description
            .with_named("pending_cause", pending.cause.delay_reason())
            .with_named("pending_until_ns", pending.until.as_nanos())
            .with_named("pending_length_ns", pending.length_ns),
        None => description,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use quorlock_server::inspection::{Adoption, NodeTime, Stop};

    /// Records that a node writes seldom; the others are in the logs of the process tests.
    #[test]
    fn rare_records_show_their_fields_in_words_and_as_json() {
        let pending = Pending {
            until: NodeTime::from_nanos(7),
            length_ns: 60,
            cause: Stop::Unclean,
        };
        let reason = Stop::Unclean.delay_reason();
        for (record, text, json) in [
            (ControlRecord::Init, String::new(), "{}".to_owned()),
            (
                ControlRecord::Lost(5),
                "  lost_ns 5".to_owned(),
                r#"{"lost_ns":5}"#.to_owned(),
            ),
            (
                ControlRecord::Owed(NodeTime::from_nanos(9)),
                "  owed_until_ns 9".to_owned(),
                r#"{"owed_until_ns":9}"#.to_owned(),
            ),
            (
                ControlRecord::Released([0xab; 32]),
                format!("  receipt_sha256 {}", "ab".repeat(32)),
                format!(r#"{{"receipt_sha256":"{}"}}"#, "ab".repeat(32)),
            ),
            (
                ControlRecord::Adopted(Adoption {
                    incarnation: 7,
                    fingerprint: 10,
                    is_proven: true,
                }),
                "  incarnation 7  fingerprint 000000000000000a  proven true".to_owned(),
                r#"{"fingerprint":"000000000000000a","incarnation":7,"proven":true}"#.to_owned(),
            ),
            (
                ControlRecord::Shutdown(Some(pending)),
                format!("  pending_cause {reason}  pending_until_ns 7  pending_length_ns 60"),
                format!(
                    r#"{{"pending_cause":"{reason}","pending_length_ns":60,"pending_until_ns":7}}"#
                ),
            ),
        ] {
            assert_eq!(describe(&record).shown(Format::Text), text);
            assert_eq!(describe(&record).shown(Format::Json), json);
        }
    }
}
