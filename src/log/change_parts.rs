//! A change of a part of a collection, in words and as JSON.

use std::fmt::Write as _;

use quorlock_server::inspection::{Change, End};
use serde_json::{Value as Json, json};

use super::excerpt::{KEY_BYTES, VALUE_BYTES, escaped, quoted};

/// What a change consists of.
pub(crate) struct ChangeParts<'a> {
    /// What it does.
    pub(crate) word: &'static str,
    index: Option<usize>,
    count: Option<usize>,
    score: Option<f64>,
    /// What the part is called, and its name.
    name: Option<(&'static str, &'a [u8])>,
    /// What it holds now.
    value: Option<&'a [u8]>,
}

impl<'a> ChangeParts<'a> {
    pub(crate) fn of(change: &Change<'a>) -> ChangeParts<'a> {
        let parts = |word| ChangeParts {
            word,
            index: None,
            count: None,
            score: None,
            name: None,
            value: None,
        };
        match *change {
            Change::HashSet { field, value } => ChangeParts {
                name: Some(("field", field)),
                value: Some(value),
                ..parts("hash-set")
            },
            Change::HashDelete { field } => ChangeParts {
                name: Some(("field", field)),
                ..parts("hash-delete")
            },
            Change::ListPush { end, element } => ChangeParts {
                value: Some(element),
                ..parts(by_end(end, "list-push-left", "list-push-right"))
            },
            Change::ListPop { end, count } => ChangeParts {
                count: Some(count),
                ..parts(by_end(end, "list-pop-left", "list-pop-right"))
            },
            Change::ListRotate { from } => {
                parts(by_end(from, "list-rotate-left", "list-rotate-right"))
            }
            Change::ListSet { index, element } => ChangeParts {
                index: Some(index),
                value: Some(element),
                ..parts("list-set")
            },
            Change::ListInsert { index, element } => ChangeParts {
                index: Some(index),
                value: Some(element),
                ..parts("list-insert")
            },
            Change::ListRemove { index } => ChangeParts {
                index: Some(index),
                ..parts("list-remove")
            },
            Change::SetAdd { member } => ChangeParts {
                name: Some(("member", member)),
                ..parts("set-add")
            },
            Change::SetRemove { member } => ChangeParts {
                name: Some(("member", member)),
                ..parts("set-remove")
            },
            Change::ScoreSet { member, score } => ChangeParts {
                name: Some(("member", member)),
                score: Some(score),
                ..parts("score-set")
            },
            Change::ScoreRemove { member } => ChangeParts {
                name: Some(("member", member)),
                ..parts("score-remove")
            },
        }
    }

    /// In words, behind the key.
    pub(crate) fn add_to(&self, text: &mut String) {
        if let Some(index) = self.index {
            let _ = write!(text, " index {index}");
        }
        if let Some(count) = self.count {
            let _ = write!(text, " count {count}");
        }
        if let Some((what, name)) = self.name {
            let _ = write!(text, " {what} {}", quoted(name, KEY_BYTES));
        }
        if let Some(score) = self.score {
            let _ = write!(text, " score {score}");
        }
        if let Some(value) = self.value {
            let _ = write!(text, " {}", quoted(value, VALUE_BYTES));
        }
    }

    /// As members of a JSON object.
    pub(crate) fn add_to_json(&self, object: &mut Json) {
        if let Some(index) = self.index {
            object["index"] = json!(index);
        }
        if let Some(count) = self.count {
            object["count"] = json!(count);
        }
        if let Some((what, name)) = self.name {
            object[what] = json!(escaped(name, KEY_BYTES));
        }
        if let Some(score) = self.score {
            // JSON has no infinity.
            object["score"] = json!(score.to_string());
        }
        if let Some(value) = self.value {
            object["value"] = json!(escaped(value, VALUE_BYTES));
            object["size"] = json!(value.len());
        }
    }
}

fn by_end(end: End, left: &'static str, right: &'static str) -> &'static str {
    match end {
        End::Left => left,
        End::Right => right,
    }
}
