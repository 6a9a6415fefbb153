//! A change of a key, described.

use quorlock_server::inspection::{
    Change, Collection, Deadline, End, Mutation, NewValue, NodeTime,
};
use serde_json::Value;

use super::printout::{KEY_BYTES, Printout, VALUE_BYTES};

/// Describes a change of a frame that was written at this node time.
pub(crate) fn describe(mutation: &Mutation<'_>, now: NodeTime) -> Printout {
    let start = |word: &str| {
        let start = Printout::default().noted("change", word, "  {}");
        match mutation.target() {
            Some((database, key)) => start
                .noted("database", database, " {}")
                .with_bytes("key", "", key, KEY_BYTES),
            None => start,
        }
    };
    match mutation {
        Mutation::Replace {
            value, deadline, ..
        } => match value {
            NewValue::String(string) => start("replace")
                .noted("type", "string", " {}")
                .value(string),
            NewValue::Collection(all) => start("replace")
                .noted("type", all.type_name(), " {}")
                .with_hidden("value", Value::Null)
                .with("size", all.len(), format_args!(" of {}", size(all))),
        }
        .deadline(*deadline, now),
        Mutation::Part {
            part,
            absent,
            deadline,
            ..
        } => start("part")
            .noted("type", part.type_name(), " {},")
            .with("size", part.len(), format_args!(" {},", size(part)))
            .noted("to_come", *absent, " {} to come")
            .deadline(*deadline, now),
        Mutation::SetDeadline { deadline, .. } => start("deadline").deadline(*deadline, now),
        Mutation::Change { change, .. } => describe_part(change, now, start),
        Mutation::Delete { .. } => start("delete"),
        Mutation::FlushDatabase { database } => start("flush").noted("database", *database, " {}"),
        Mutation::FlushAll => Printout::default().with("change", "flush-all", "  flush all"),
        Mutation::SwapDatabases { both } => {
            let words = format!(" {} {}", both[0], both[1]);
            start("swap").with("databases", both.to_vec(), words)
        }
    }
}

/// Describes a change of a part of a collection, from what `start` makes of its word.
fn describe_part(change: &Change<'_>, now: NodeTime, start: impl Fn(&str) -> Printout) -> Printout {
    let at_end = |word: &str, end| match end {
        End::Left => start(&format!("{word}-left")),
        End::Right => start(&format!("{word}-right")),
    };
    match *change {
        Change::HashSet { field, value } => start("hash-set").field(field).value(value),
        Change::HashDelete { field } => start("hash-delete").field(field),
        Change::ListPush { end, element } => at_end("list-push", end).value(element),
        Change::ListPop { end, count } => {
            at_end("list-pop", end).noted("count", count, " count {}")
        }
        Change::ListRotate { from } => at_end("list-rotate", from),
        Change::ListSet { index, element } => start("list-set").index(index).value(element),
        Change::ListInsert { index, element } => start("list-insert").index(index).value(element),
        Change::ListRemove { index } => start("list-remove").index(index),
        Change::SetAdd { member } => start("set-add").member(member),
        Change::SetRemove { member } => start("set-remove").member(member),
        // JSON has no infinity: a score is a string.
        Change::ScoreSet { member, score } => {
            let start = start("score-set").member(member);
            start.noted("score", score.to_string(), " score {}")
        }
        Change::ScoreRemove { member } => start("score-remove").member(member),
        Change::HolderSet { token, end } => start("holder-set").token(token).deadline(end, now),
        Change::HolderRemove { token } => start("holder-remove").token(token),
    }
}

impl Printout {
    fn field(self, field: &[u8]) -> Self {
        self.with_bytes("field", " field", field, KEY_BYTES)
    }

    fn member(self, member: &[u8]) -> Self {
        self.with_bytes("member", " member", member, KEY_BYTES)
    }

    fn token(self, token: &[u8]) -> Self {
        self.with_bytes("token", " token", token, KEY_BYTES)
    }

    fn index(self, index: usize) -> Self {
        self.noted("index", index, " index {}")
    }

    fn value(self, value: &[u8]) -> Self {
        self.with_bytes("value", "", value, VALUE_BYTES)
            .with_hidden("size", value.len())
    }

    fn deadline(self, deadline: Deadline, now: NodeTime) -> Self {
        let deadline = deadline.unless_never();
        let words = match deadline {
            Some(deadline) => format!(" ttl {} ms", deadline.left_ms(now)),
            None => " no ttl".to_owned(),
        };
        self.with("deadline_ns", deadline.map(Deadline::as_nanos), words)
    }
}

/// How many parts a collection has, with what they are called.
fn size(collection: &Collection) -> String {
    let parts = match collection {
        Collection::Hash(_) => "fields",
        Collection::List(_) => "elements",
        Collection::Set(_) | Collection::SortedSet(_) => "members",
        Collection::SharedLock(_) => "shared holders",
    };
    format!("{} {parts}", collection.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    /// Changes that the logs of the process tests do not have.
    #[test]
    fn rare_changes_are_shown_in_words_and_as_json() {
        for (change, text, json) in [
            (
                Mutation::FlushAll,
                "  flush all",
                r#"{"change":"flush-all"}"#,
            ),
            (
                Mutation::FlushDatabase { database: 3 },
                "  flush 3",
                r#"{"change":"flush","database":3}"#,
            ),
            (
                Mutation::SwapDatabases { both: [0, 1] },
                "  swap 0 1",
                r#"{"change":"swap","databases":[0,1]}"#,
            ),
            (
                Mutation::Change {
                    database: 2,
                    key: b"a\x1b",
                    change: Change::ListRotate { from: End::Right },
                },
                r#"  list-rotate-right 2 "a\x1b""#,
                r#"{"change":"list-rotate-right","database":2,"key":"a\\x1b"}"#,
            ),
        ] {
            let describe = || describe(&change, NodeTime::ZERO);
            assert_eq!(describe().shown(Format::Text), text);
            assert_eq!(describe().shown(Format::Json), json);
        }
    }
}
