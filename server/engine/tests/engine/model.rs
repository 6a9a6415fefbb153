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
            | Step::FieldIncrement { .. }
            | Step::FieldDelete { .. }
            | Step::Fields { .. } => self.answer_hash(step),
            Step::Delete { .. }
            | Step::Expire { .. }
            | Step::Persist { .. }
            | Step::Remaining { .. } => Ok(self.answer_key(step)),
            Step::Select { .. }
            | Step::Flush { .. }
            | Step::Advance { .. }
            | Step::Reclaim { .. } => Ok(self.answer_whole(step)),
        }
    }

    fn answer_string(&mut self, step: &Step) -> Result<String, String> {
        let quoted =
            |value: Option<String>| value.map_or("nil".into(), |text| format!("\"{text}\""));
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
                let sum = self
                    .string(key)?
                    .map_or(0, |text| text.parse::<i64>().unwrap())
                    + by;
                let deadline = self.deadline(key);
                self.keys
                    .insert(self.id(key), (Value::String(sum.to_string()), deadline));
                sum.to_string()
            }
            other => unreachable!("{other:?} is answered elsewhere"),
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

fn count(yes: bool) -> String {
    u8::from(yes).to_string()
}
