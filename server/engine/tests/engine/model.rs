//! What an engine should do, in the plainest form: a map and a handful of rules.
//!
//! Knows nothing of logs, slots or wheels. Times are whole milliseconds.

use std::collections::BTreeMap;

use crate::properties::Step;

#[derive(Clone, Debug)]
enum Value {
    String(String),
    Hash(BTreeMap<u8, String>),
}

/// Keys by database and name, each with their deadline in milliseconds.
#[derive(Default)]
pub(crate) struct Model {
    keys: BTreeMap<(u8, u8), (Value, Option<u64>)>,
    database: u8,
    now_ms: u64,
}

const NOT_A_NUMBER: &str = "-ERR value is not an integer or out of range";
const WOULD_OVERFLOW: &str = "-ERR increment or decrement would overflow";
const NOT_A_STRING: &str = "-ERR Key should be of string type if conditions are specified";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

impl Model {
    fn id(&self, key: u8) -> (u8, u8) {
        (self.database, key)
    }

    fn string(&self, key: u8) -> Result<Option<String>, String> {
        match self.keys.get(&self.id(key)) {
            None => Ok(None),
            Some((Value::String(value), _)) => Ok(Some(value.clone())),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn hash(&self, key: u8) -> Result<Option<BTreeMap<u8, String>>, String> {
        match self.keys.get(&self.id(key)) {
            None => Ok(None),
            Some((Value::Hash(fields), _)) => Ok(Some(fields.clone())),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn deadline(&self, key: u8) -> Option<u64> {
        self.keys
            .get(&self.id(key))
            .and_then(|(_, deadline)| *deadline)
    }

    /// What a node should answer to this step, and what it then holds.
    pub(crate) fn answer(&mut self, step: &Step) -> Result<String, String> {
        match step {
            Step::Set { .. } | Step::Get { .. } | Step::Increment { .. } => {
                self.answer_string(step)
            }
            Step::FieldSet { .. }
            | Step::FieldNew { .. }
            | Step::FieldGet { .. }
            | Step::FieldIncrement { .. }
            | Step::FieldDelete { .. }
            | Step::Fields { .. } => self.answer_hash(step),
            Step::Append { .. }
            | Step::SetIf { .. }
            | Step::DeleteIf { .. }
            | Step::Take { .. }
            | Step::Touch { .. } => self.answer_whole_string(step),
            Step::SetSeveral { .. } | Step::Rename { .. } | Step::Copy { .. } => {
                self.answer_several(step)
            }
            Step::Delete { .. }
            | Step::Expire { .. }
            | Step::Persist { .. }
            | Step::Remaining { .. } => Ok(self.answer_key(step)),
            Step::Select { .. }
            | Step::Flush { .. }
            | Step::Swap { .. }
            | Step::Advance { .. }
            | Step::Reclaim { .. } => Ok(self.answer_whole(step)),
        }
    }

    fn answer_string(&mut self, step: &Step) -> Result<String, String> {
        Ok(match step {
            &Step::Set {
                key,
                value,
                condition,
                ttl_ms,
                get,
            } => {
                let exists = self.keys.contains_key(&self.id(key));
                let old = if get {
                    Some(quoted(self.string(key)?))
                } else {
                    None
                };
                let refused = (condition == "NX" && exists) || (condition == "XX" && !exists);
                if !refused {
                    let deadline = ttl_ms.map(|ttl| self.now_ms + ttl);
                    self.keys
                        .insert(self.id(key), (Value::String(value.to_string()), deadline));
                }
                old.unwrap_or(if refused { "nil".into() } else { "OK".into() })
            }
            &Step::Get { key } => quoted(self.string(key)?),
            &Step::Increment { key, by } => {
                let text = self.string(key)?.unwrap_or("0".into());
                let number: i64 = text.parse().map_err(|_| NOT_A_NUMBER)?;
                if number.to_string() != text {
                    return Err(NOT_A_NUMBER.into());
                }
                let sum = number.checked_add(by).ok_or(WOULD_OVERFLOW)?;
                let deadline = self.deadline(key);
                self.keys
                    .insert(self.id(key), (Value::String(sum.to_string()), deadline));
                sum.to_string()
            }
            other => unreachable!("{other:?} is answered elsewhere"),
        })
    }

    fn answer_whole_string(&mut self, step: &Step) -> Result<String, String> {
        Ok(match *step {
            Step::Append { key, digit } => {
                let text = self.string(key)?.unwrap_or_default() + &digit.to_string();
                let (length, deadline) = (text.len(), self.deadline(key));
                self.keys
                    .insert(self.id(key), (Value::String(text), deadline));
                length.to_string()
            }
            Step::SetIf {
                key,
                value,
                compared,
                is_equal,
            } => {
                if (self.string(key)? == Some(compared.to_string())) != is_equal {
                    return Ok("nil".into());
                }
                let deadline = self.deadline(key);
                self.keys
                    .insert(self.id(key), (Value::String(value.to_string()), deadline));
                "OK".into()
            }
            Step::DeleteIf {
                key,
                compared,
                is_equal,
            } => {
                let wrong_type = if is_equal { WRONG_TYPE } else { NOT_A_STRING };
                let held = self.string(key).map_err(|_| wrong_type)?;
                let is_deleted =
                    held.is_some_and(|text| (text == compared.to_string()) == is_equal);
                if is_deleted {
                    self.keys.remove(&self.id(key));
                }
                count(is_deleted)
            }
            Step::Take { key } => {
                let old = self.string(key)?;
                self.keys.remove(&self.id(key));
                quoted(old)
            }
            Step::Touch { key, ttl_ms } => {
                let old = self.string(key)?;
                let (id, end) = (self.id(key), ttl_ms.map(|ttl| self.now_ms + ttl));
                if let Some((_, deadline)) = self.keys.get_mut(&id) {
                    *deadline = end;
                }
                quoted(old)
            }
            ref other => unreachable!("{other:?} is answered elsewhere"),
        })
    }

    fn answer_several(&mut self, step: &Step) -> Result<String, String> {
        Ok(match *step {
            Step::SetSeveral {
                key,
                other,
                value,
                if_none,
            } => {
                let ids = [self.id(key), self.id(other)];
                if if_none && ids.iter().any(|id| self.keys.contains_key(id)) {
                    return Ok("0".into());
                }
                for id in ids {
                    self.keys
                        .insert(id, (Value::String(value.to_string()), None));
                }
                if if_none { "1" } else { "OK" }.into()
            }
            Step::Rename {
                key,
                other,
                if_absent,
            } => {
                let (from, to) = (self.id(key), self.id(other));
                if !self.keys.contains_key(&from) {
                    return Err("-ERR no such key".into());
                }
                let is_refused = if_absent && self.keys.contains_key(&to);
                if !is_refused && let Some(held) = self.keys.remove(&from) {
                    self.keys.insert(to, held);
                }
                match if_absent {
                    true => count(!is_refused),
                    false => "OK".into(),
                }
            }
            Step::Copy {
                key,
                other,
                database,
                replace,
            } => {
                let (from, to) = (self.id(key), (database, other));
                if from == to {
                    return Err("-ERR source and destination objects are the same".into());
                }
                let is_refused = !replace && self.keys.contains_key(&to);
                let Some(held) = self.keys.get(&from).filter(|_| !is_refused).cloned() else {
                    return Ok("0".into());
                };
                self.keys.insert(to, held);
                "1".into()
            }
            ref other => unreachable!("{other:?} is answered elsewhere"),
        })
    }

    fn answer_hash(&mut self, step: &Step) -> Result<String, String> {
        Ok(match step {
            &Step::FieldSet { key, field, value } => {
                let mut fields = self.hash(key)?.unwrap_or_default();
                let is_new = fields.insert(field, value.to_string()).is_none();
                let deadline = self.deadline(key);
                self.keys
                    .insert(self.id(key), (Value::Hash(fields), deadline));
                count(is_new)
            }
            &Step::FieldNew { key, field, value } => {
                let mut fields = self.hash(key)?.unwrap_or_default();
                let is_new = !fields.contains_key(&field);
                if is_new {
                    fields.insert(field, value.to_string());
                    let deadline = self.deadline(key);
                    self.keys
                        .insert(self.id(key), (Value::Hash(fields), deadline));
                }
                count(is_new)
            }
            &Step::FieldGet { key, field } => {
                let fields = self.hash(key)?.unwrap_or_default();
                format!("[{}]", quoted(fields.get(&field).cloned()))
            }
            &Step::FieldIncrement { key, field, by } => {
                let mut fields = self.hash(key)?.unwrap_or_default();
                let sum = fields
                    .get(&field)
                    .map_or(0, |text| text.parse::<i64>().unwrap())
                    + by;
                fields.insert(field, sum.to_string());
                let deadline = self.deadline(key);
                self.keys
                    .insert(self.id(key), (Value::Hash(fields), deadline));
                sum.to_string()
            }
            &Step::FieldDelete { key, field } => {
                let Some(mut fields) = self.hash(key)? else {
                    return Ok("0".into());
                };
                let was_there = fields.remove(&field).is_some();
                let deadline = self.deadline(key);
                if fields.is_empty() {
                    self.keys.remove(&self.id(key));
                } else {
                    self.keys
                        .insert(self.id(key), (Value::Hash(fields), deadline));
                }
                count(was_there)
            }
            &Step::Fields { key } => self.hash(key)?.map_or(0, |fields| fields.len()).to_string(),
            other => unreachable!("{other:?} is answered elsewhere"),
        })
    }

    fn answer_key(&mut self, step: &Step) -> String {
        match step {
            &Step::Delete { key } => count(self.keys.remove(&self.id(key)).is_some()),
            &Step::Expire {
                key,
                ttl_ms,
                condition,
            } => {
                let id = self.id(key);
                let now_ms = self.now_ms;
                let Some((_, deadline)) = self.keys.get_mut(&id) else {
                    return "0".into();
                };
                let wanted = now_ms.saturating_add_signed(ttl_ms);
                let allowed = match condition {
                    "NX" => deadline.is_none(),
                    "XX" => deadline.is_some(),
                    "GT" => deadline.is_some_and(|old| wanted > old),
                    "LT" => deadline.is_none_or(|old| wanted < old),
                    _ => true,
                };
                if allowed {
                    *deadline = Some(wanted);
                }
                count(allowed)
            }
            &Step::Persist { key } => {
                let id = self.id(key);
                count(
                    self.keys
                        .get_mut(&id)
                        .and_then(|(_, deadline)| deadline.take())
                        .is_some(),
                )
            }
            &Step::Remaining { key } => match self.keys.get(&self.id(key)) {
                None => "-2".into(),
                Some((_, None)) => "-1".into(),
                Some((_, Some(deadline))) => (deadline - self.now_ms).to_string(),
            },
            other => unreachable!("{other:?} is answered elsewhere"),
        }
    }

    fn answer_whole(&mut self, step: &Step) -> String {
        match *step {
            Step::Select { database } => self.database = database,
            Step::Swap { one, other } => {
                let swapped = |number| match number {
                    number if number == one => other,
                    number if number == other => one,
                    number => number,
                };
                let keys = std::mem::take(&mut self.keys).into_iter();
                let keys = keys.map(|((number, key), held)| ((swapped(number), key), held));
                self.keys = keys.collect();
            }
            Step::Flush { all } => {
                let database = self.database;
                self.keys
                    .retain(|&(number, _), _| !all && number != database);
            }
            Step::Advance { ms } => self.now_ms += ms,
            _ => {}
        }
        "OK".into()
    }

    /// How many keys there are in all databases.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Removes what has reached its deadline.
    pub(crate) fn forget_expired(&mut self) {
        let now_ms = self.now_ms;
        self.keys
            .retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now_ms));
    }

    /// In the form of `Node::state`.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .keys
            .iter()
            .map(|((database, key), (value, deadline))| {
                let value = match value {
                    Value::String(text) => format!("\"{text}\""),
                    Value::Hash(fields) => {
                        let pair = |(field, text)| format!("\"f{field}\", \"{text}\"");
                        let pairs: Vec<String> = fields.iter().map(pair).collect();
                        format!("[{}]", pairs.join(", "))
                    }
                };
                let left = deadline.map_or("-1".into(), |end| (end - self.now_ms).to_string());
                format!("{database} k{key} = {value} {left}")
            })
            .collect();
        lines.sort();
        lines
    }
}

fn quoted(value: Option<String>) -> String {
    value.map_or("nil".into(), |text| format!("\"{text}\""))
}

fn count(yes: bool) -> String {
    u8::from(yes).to_string()
}
