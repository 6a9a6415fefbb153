//! A change of a key, described.

use quorlock_server::inspection::{
    Change, Collection, Deadline, End, Mutation, NewValue, NodeTime,
};
use serde_json::Value;

use super::description::{Description, KEY_BYTES, VALUE_BYTES, escaped, quoted};

/// Describes a change of a frame that was written at this node time.
pub(crate) fn describe(mutation: &Mutation<'_>, now: NodeTime) -> Description {
    let start = |word: &str| {
        let start = Description::default().noted("change", word, "  {}");
        match mutation.target() {
            Some((database, key)) => start.with_database(database).with_key(key),
            None => start,
        }
    };
    match mutation {
        Mutation::Replace {
            value, deadline, ..
        } => match value {
            NewValue::String(string) => start("replace")
                .with("type", "string", " string")
                .with_value(string),
            NewValue::Collection(all) => {
                let (name, size) = (all.type_name(), all.len());
                start("replace")
                    .noted("type", name, " {}")
                    .with_hidden("value", Value::Null)
                    .with("size", size, format_args!(" of {size} {}", parts_of(all)))
            }
        }
        .with_deadline(*deadline, now),
        Mutation::Part {
            part,
            absent,
            deadline,
            ..
        } => {
            let (name, size) = (part.type_name(), part.len());
            start("part")
                .noted("type", name, " {},")
                .with("size", size, format_args!(" {size} {},", parts_of(part)))
                .noted("to_come", *absent, " {} to come")
                .with_deadline(*deadline, now)
        }
        Mutation::SetDeadline { deadline, .. } => start("deadline").with_deadline(*deadline, now),
        Mutation::Change { change, .. } => describe_part(change, start),
        Mutation::Delete { .. } => start("delete"),
        Mutation::FlushDatabase { database } => start("flush").with_database(*database),
        Mutation::FlushAll => Description::default().with("change", "flush-all", "  flush all"),
        Mutation::SwapDatabases { both: [one, other] } => start("swap").with(
            "databases",
            vec![*one, *other],
            format_args!(" {one} {other}"),
        ),
    }
}

/// Describes a change of a part of a collection, from what `start` makes of its word.
fn describe_part(change: &Change<'_>, start: impl Fn(&str) -> Description) -> Description {
    let at_end = |word: &str, end| match end {
        End::Left => start(&format!("{word}-left")),
        End::Right => start(&format!("{word}-right")),
    };
    match *change {
        Change::HashSet { field, value } => start("hash-set")
            .with_name("field", field)
            .with_value(value),
        Change::HashDelete { field } => start("hash-delete").with_name("field", field),
        Change::ListPush { end, element } => at_end("list-push", end).with_value(element),
        Change::ListPop { end, count } => {
            at_end("list-pop", end).noted("count", count, " count {}")
        }
        Change::ListRotate { from } => at_end("list-rotate", from),
        Change::ListSet { index, element } => {
            start("list-set").with_index(index).with_value(element)
        }
        Change::ListInsert { index, element } => {
            start("list-insert").with_index(index).with_value(element)
        }
        Change::ListRemove { index } => start("list-remove").with_index(index),
        Change::SetAdd { member } => start("set-add").with_name("member", member),
        Change::SetRemove { member } => start("set-remove").with_name("member", member),
        // JSON has no infinity: a score is a string.
        Change::ScoreSet { member, score } => start("score-set").with_name("member", member).noted(
            "score",
            score.to_string(),
            " score {}",
        ),
        Change::ScoreRemove { member } => start("score-remove").with_name("member", member),
    }
}

impl Description {
    fn with_database(self, database: u8) -> Self {
        self.noted("database", database, " {}")
    }

    fn with_key(self, key: &[u8]) -> Self {
        let words = format!(" {}", quoted(key, KEY_BYTES));
        self.with("key", escaped(key, KEY_BYTES), words)
    }

    fn with_name(self, what: &str, name: &[u8]) -> Self {
        let words = format!(" {what} {}", quoted(name, KEY_BYTES));
        self.with(what, escaped(name, KEY_BYTES), words)
    }

    fn with_index(self, index: usize) -> Self {
        self.noted("index", index, " index {}")
    }

    fn with_value(self, value: &[u8]) -> Self {
        let words = format!(" {}", quoted(value, VALUE_BYTES));
        self.with("value", escaped(value, VALUE_BYTES), words)
            .with_hidden("size", value.len())
    }

    fn with_deadline(self, deadline: Deadline, now: NodeTime) -> Self {
        let deadline = deadline.unless_never();
        let words = match deadline {
            Some(deadline) => format!(" ttl {} ms", deadline.left_ms(now)),
            None => " no ttl".to_owned(),
        };
        self.with("deadline_ns", deadline.map(Deadline::as_nanos), words)
    }
}

/// What the parts of a collection are called.
fn parts_of(collection: &Collection) -> &'static str {
    match collection {
        Collection::Hash(_) => "fields",
        Collection::List(_) => "elements",
        Collection::Set(_) | Collection::SortedSet(_) => "members",
    }
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
