//! Random commands at random times, held to a plain model and to their own log.
//!
//! The model is a map and a handful of rules, written as simply as the commands' descriptions. The
//! engine must answer like it, hold the same keys, and be rebuilt from its journal to the same
//! state at any moment, before and after reclaiming.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::collections::BTreeMap;
use std::time::Duration;

use harness::{Node, state_of};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Set {
        key: u8,
        value: u16,
        condition: &'static str,
        ttl_ms: Option<u64>,
        get: bool,
    },
    Get {
        key: u8,
    },
    Delete {
        key: u8,
    },
    Expire {
        key: u8,
        ttl_ms: i64,
        condition: &'static str,
    },
    Persist {
        key: u8,
    },
    Increment {
        key: u8,
        by: i64,
    },
    FieldSet {
        key: u8,
        field: u8,
        value: u16,
    },
    FieldIncrement {
        key: u8,
        field: u8,
        by: i64,
    },
    FieldDelete {
        key: u8,
        field: u8,
    },
    Fields {
        key: u8,
    },
    Remaining {
        key: u8,
    },
    Select {
        database: u8,
    },
    Flush {
        all: bool,
    },
    Advance {
        ms: u64,
    },
    Reclaim {
        budget: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let ttl = prop_oneof![Just(None), (1..40_u64).prop_map(Some), Just(Some(100_000))];
    let condition = prop_oneof![Just(""), Just("NX"), Just("XX")];
    let expire_condition = prop_oneof![Just(""), Just("NX"), Just("XX"), Just("GT"), Just("LT")];
    prop_oneof![
        6 => (key.clone(), any::<u16>(), condition, ttl, any::<bool>()).prop_map(
            |(key, value, condition, ttl_ms, get)| Step::Set { key, value, condition, ttl_ms, get }
        ),
        2 => key.clone().prop_map(|key| Step::Get { key }),
        2 => key.clone().prop_map(|key| Step::Delete { key }),
        4 => (key.clone(), -2..50_i64, expire_condition)
            .prop_map(|(key, ttl_ms, condition)| Step::Expire { key, ttl_ms, condition }),
        1 => key.clone().prop_map(|key| Step::Persist { key }),
        3 => (key.clone(), -5..5_i64).prop_map(|(key, by)| Step::Increment { key, by }),
        3 => (key.clone(), 0..4_u8, any::<u16>())
            .prop_map(|(key, field, value)| Step::FieldSet { key, field, value }),
        2 => (key.clone(), 0..4_u8, -5..5_i64)
            .prop_map(|(key, field, by)| Step::FieldIncrement { key, field, by }),
        3 => (key.clone(), 0..4_u8).prop_map(|(key, field)| Step::FieldDelete { key, field }),
        1 => key.clone().prop_map(|key| Step::Fields { key }),
        1 => key.prop_map(|key| Step::Remaining { key }),
        1 => (0..3_u8).prop_map(|database| Step::Select { database }),
        1 => any::<bool>().prop_map(|all| Step::Flush { all }),
        6 => (0..30_u64).prop_map(|ms| Step::Advance { ms }),
        3 => (0..20_usize).prop_map(|budget| Step::Reclaim { budget }),
    ]
}

#[derive(Clone, Debug)]
enum Value {
    String(String),
    Hash(BTreeMap<u8, String>),
}

/// Keys by database and name, with their deadline in milliseconds.
#[derive(Default)]
struct Model {
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

    fn answer(&mut self, step: &Step) -> Result<String, String> {
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
            &Step::Delete { key } => count(self.keys.remove(&self.id(key)).is_some()),
            &Step::Expire {
                key,
                ttl_ms,
                condition,
            } => {
                let id = self.id(key);
                let now_ms = self.now_ms;
                let Some((_, deadline)) = self.keys.get_mut(&id) else {
                    return Ok("0".into());
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
            &Step::Remaining { key } => match self.keys.get(&self.id(key)) {
                None => "-2".into(),
                Some((_, None)) => "-1".into(),
                Some((_, Some(deadline))) => (deadline - self.now_ms).to_string(),
            },
            &Step::Select { database } => {
                self.database = database;
                "OK".into()
            }
            &Step::Flush { all } => {
                let database = self.database;
                self.keys
                    .retain(|&(number, _), _| !all && number != database);
                "OK".into()
            }
            &Step::Advance { ms } => {
                self.now_ms += ms;
                "OK".into()
            }
            Step::Reclaim { .. } => "OK".into(),
        })
    }

    fn forget_expired(&mut self) {
        let now_ms = self.now_ms;
        self.keys
            .retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now_ms));
    }

    /// In the form of `Node::state`.
    fn state(&self) -> Vec<String> {
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

fn perform(node: &mut Node, step: &Step) -> String {
    match step {
        Step::Set {
            key,
            value,
            condition,
            ttl_ms,
            get,
        } => {
            let ttl = ttl_ms.map_or(String::new(), |ttl| format!("PX {ttl}"));
            let get = if *get { "GET" } else { "" };
            node.run(&format!("SET k{key} {value} {condition} {ttl} {get}"))
        }
        Step::Get { key } => node.run(&format!("GET k{key}")),
        Step::Delete { key } => node.run(&format!("DEL k{key}")),
        Step::Expire {
            key,
            ttl_ms,
            condition,
        } => node.run(&format!("PEXPIRE k{key} {ttl_ms} {condition}")),
        Step::Persist { key } => node.run(&format!("PERSIST k{key}")),
        Step::Increment { key, by } => node.run(&format!("INCRBY k{key} {by}")),
        Step::FieldSet { key, field, value } => node.run(&format!("HSET k{key} f{field} {value}")),
        Step::FieldIncrement { key, field, by } => {
            node.run(&format!("HINCRBY k{key} f{field} {by}"))
        }
        Step::FieldDelete { key, field } => node.run(&format!("HDEL k{key} f{field}")),
        Step::Fields { key } => node.run(&format!("HLEN k{key}")),
        Step::Remaining { key } => node.run(&format!("PTTL k{key}")),
        Step::Select { database } => {
            node.caller.database = *database;
            "OK".into()
        }
        Step::Flush { all } => node.run(if *all { "FLUSHALL" } else { "FLUSHDB" }),
        Step::Advance { ms } => {
            node.advance(Duration::from_millis(*ms));
            "OK".into()
        }
        Step::Reclaim { budget } => {
            node.engine.reclaim(node.now.node, *budget);
            "OK".into()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn the_engine_answers_like_the_model_and_its_log_holds_its_state(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut node = Node::default();
        let mut model = Model::default();
        for (number, step) in steps.iter().enumerate() {
            let expected = model.answer(step).unwrap_or_else(|error| error);
            model.forget_expired();
            let reply = perform(&mut node, step);
            prop_assert_eq!(reply, expected, "step {} {:?}", number, step);
        }
        prop_assert_eq!(node.state(), model.state());
        prop_assert_eq!(state_of(&node.replayed(), node.now.node), model.state());
        node.engine.reclaim(node.now.node.saturating_add(Duration::from_millis(2)), usize::MAX);
        let stored: u64 = (0..16).map(|database| node.engine.count(database).keys).sum();
        prop_assert!(stored <= model.keys.len() as u64, "everything expired is freed");
    }
}
