//! A control record as names and values, for people and for JSON alike.

use quorlock_engine::control::{Pending, Record, Start};
use quorlock_persistence::hexadecimal;

/// One value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A number; its name says the unit.
    Number(u64),
    /// A word, or an id in hexadecimal digits.
    Word(String),
    /// Yes or no.
    Flag(bool),
}

/// The fields of a record, in the order in which they are stored.
pub fn fields(record: &Record) -> Vec<(&'static str, Field)> {
    let mut fields = Vec::new();
    match record {
        Record::Init | Record::Serving | Record::Tick => {}
        Record::Start(start) => add_start(start, &mut fields),
        Record::Mode(mode) => {
            fields.push(("durability", word(mode.durability.name())));
            fields.push(("cap_ns", Field::Number(mode.cap_ns)));
            fields.push(("complete", Field::Flag(mode.is_complete)));
        }
        Record::Promise(ttl_ns) => fields.push(("ttl_bound_ns", Field::Number(*ttl_ns))),
        Record::Lost(ttl_ns) => fields.push(("lost_ns", Field::Number(*ttl_ns))),
        Record::Wall { wall_us, boottime } => {
            fields.push(("wall_us", Field::Number(*wall_us)));
            fields.push(("boottime_ns", Field::Number(boottime.as_nanos())));
        }
        Record::Owed(until) => fields.push(("owed_until_ns", Field::Number(until.as_nanos()))),
        Record::Shutdown(pending) => add_pending(pending.as_ref(), &mut fields),
        Record::Control(control) => {
            add_start(&control.start, &mut fields);
            fields.push(("serving", Field::Flag(control.serving)));
            fields.push(("weakest", word(control.weakest.name())));
            fields.push(("ttl_bound_ns", Field::Number(control.ttl_bound_ns)));
        }
    }
    fields
}

fn add_start(start: &Start, fields: &mut Vec<(&'static str, Field)>) {
    fields.push(("incarnation", Field::Number(start.incarnation)));
    fields.push(("boot", Field::Word(hexadecimal(&start.boot.0))));
    fields.push((
        "fingerprint",
        Field::Word(format!("{:016x}", start.fingerprint)),
    ));
    fields.push(("durability", word(start.durability.name())));
    fields.push(("base_ns", Field::Number(start.base.as_nanos())));
    fields.push(("raw_ns", Field::Number(start.raw.as_nanos())));
    fields.push(("wall_us", Field::Number(start.wall_us)));
    fields.push(("boottime_ns", Field::Number(start.boottime.as_nanos())));
    add_pending(start.pending.as_ref(), fields);
    fields.push(("cap_ns", Field::Number(start.cap_ns)));
}

fn add_pending(pending: Option<&Pending>, fields: &mut Vec<(&'static str, Field)>) {
    let Some(pending) = pending else {
        return;
    };
    fields.push(("pending_cause", word(pending.cause.delay_reason())));
    fields.push(("pending_until_ns", Field::Number(pending.until.as_nanos())));
    fields.push(("pending_length_ns", Field::Number(pending.length_ns)));
}

fn word(text: &str) -> Field {
    Field::Word(text.to_owned())
}
