//! Random commands at random times, held to a plain model and to their own log.
//!
//! The model is a map and a handful of rules, written as simply as the commands' descriptions. The
//! engine must answer like it, hold the same keys, and be rebuilt from its journal to the same
//! state at any moment, before and after reclaiming.

use std::time::Duration;

use crate::harness::{Node, state_of};
use crate::model::Model;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Step {
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
    FieldNew {
        key: u8,
        field: u8,
        value: u16,
    },
    FieldGet {
        key: u8,
        field: u8,
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
    Append {
        key: u8,
        digit: u8,
    },
    SetSeveral {
        key: u8,
        other: u8,
        value: u16,
        if_none: bool,
    },
    SetIf {
        key: u8,
        value: u16,
        compared: u16,
        is_equal: bool,
    },
    DeleteIf {
        key: u8,
        compared: u16,
        is_equal: bool,
    },
    Take {
        key: u8,
    },
    Touch {
        key: u8,
        ttl_ms: Option<u64>,
    },
    Rename {
        key: u8,
        other: u8,
        if_absent: bool,
    },
    Copy {
        key: u8,
        other: u8,
        database: u8,
        replace: bool,
    },
    Select {
        database: u8,
    },
    Flush {
        all: bool,
    },
    Swap {
        one: u8,
        other: u8,
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
    let value = prop_oneof![0..3_u16, any::<u16>()];
    let condition = prop_oneof![Just(""), Just("NX"), Just("XX")];
    let expire_condition = prop_oneof![Just(""), Just("NX"), Just("XX"), Just("GT"), Just("LT")];
    prop_oneof![
        6 => (key.clone(), value, condition, ttl, any::<bool>()).prop_map(
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
        1 => (key.clone(), 0..4_u8, any::<u16>())
            .prop_map(|(key, field, value)| Step::FieldNew { key, field, value }),
        1 => (key.clone(), 0..4_u8).prop_map(|(key, field)| Step::FieldGet { key, field }),
        2 => (key.clone(), 0..4_u8, -5..5_i64)
            .prop_map(|(key, field, by)| Step::FieldIncrement { key, field, by }),
        3 => (key.clone(), 0..4_u8).prop_map(|(key, field)| Step::FieldDelete { key, field }),
        1 => key.clone().prop_map(|key| Step::Fields { key }),
        1 => key.clone().prop_map(|key| Step::Remaining { key }),
        6 => step_of_several(),
        1 => (0..3_u8).prop_map(|database| Step::Select { database }),
        1 => any::<bool>().prop_map(|all| Step::Flush { all }),
        2 => (0..3_u8, 0..3_u8).prop_map(|(one, other)| Step::Swap { one, other }),
        6 => (0..30_u64).prop_map(|ms| Step::Advance { ms }),
        3 => (0..20_usize).prop_map(|budget| Step::Reclaim { budget }),
    ]
}

/// Conditions on values, and steps that change more than a key or a part of one.
fn step_of_several() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let pair = (key.clone(), key.clone());
    let value = 0..3_u16;
    prop_oneof![
        (key.clone(), 0..10_u8).prop_map(|(key, digit)| Step::Append { key, digit }),
        (pair.clone(), value.clone(), any::<bool>()).prop_map(|((key, other), value, if_none)| {
            Step::SetSeveral {
                key,
                other,
                value,
                if_none,
            }
        }),
        (key.clone(), value.clone(), value.clone(), any::<bool>()).prop_map(
            |(key, value, compared, is_equal)| Step::SetIf {
                key,
                value,
                compared,
                is_equal
            }
        ),
        (key.clone(), value, any::<bool>()).prop_map(|(key, compared, is_equal)| Step::DeleteIf {
            key,
            compared,
            is_equal
        }),
        key.clone().prop_map(|key| Step::Take { key }),
        (key, prop::option::of(1..40_u64)).prop_map(|(key, ttl_ms)| Step::Touch { key, ttl_ms }),
        (pair.clone(), any::<bool>()).prop_map(|((key, other), if_absent)| Step::Rename {
            key,
            other,
            if_absent
        }),
        (pair, 0..3_u8, any::<bool>()).prop_map(|((key, other), database, replace)| Step::Copy {
            key,
            other,
            database,
            replace
        }),
    ]
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
        Step::FieldNew { key, field, value } => {
            node.run(&format!("HSETNX k{key} f{field} {value}"))
        }
        Step::FieldGet { key, field } => node.run(&format!("HMGET k{key} f{field}")),
        Step::FieldDelete { key, field } => node.run(&format!("HDEL k{key} f{field}")),
        Step::Fields { key } => node.run(&format!("HLEN k{key}")),
        Step::Remaining { key } => node.run(&format!("PTTL k{key}")),
        Step::Append { .. }
        | Step::SetSeveral { .. }
        | Step::SetIf { .. }
        | Step::DeleteIf { .. }
        | Step::Take { .. }
        | Step::Touch { .. }
        | Step::Rename { .. }
        | Step::Copy { .. } => node.run(&line_of_several(step)),
        Step::Select { database } => {
            node.caller.database = *database;
            "OK".into()
        }
        Step::Flush { all } => node.run(if *all { "FLUSHALL" } else { "FLUSHDB" }),
        Step::Swap { one, other } => node.run(&format!("SWAPDB {one} {other}")),
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

fn line_of_several(step: &Step) -> String {
    match *step {
        Step::Append { key, digit } => format!("APPEND k{key} {digit}"),
        Step::SetSeveral {
            key,
            other,
            value,
            if_none,
        } => {
            let name = if if_none { "MSETNX" } else { "MSET" };
            format!("{name} k{key} {value} k{other} {value}")
        }
        Step::SetIf {
            key,
            value,
            compared,
            is_equal,
        } => {
            let option = if is_equal { "IFEQ" } else { "IFNE" };
            format!("SET k{key} {value} KEEPTTL {option} {compared}")
        }
        Step::DeleteIf {
            key,
            compared,
            is_equal: true,
        } => format!("DELIFEQ k{key} {compared}"),
        Step::DeleteIf { key, compared, .. } => format!("DELEX k{key} IFNE {compared}"),
        Step::Take { key } => format!("GETDEL k{key}"),
        Step::Touch { key, ttl_ms } => match ttl_ms {
            Some(ttl) => format!("GETEX k{key} PX {ttl}"),
            None => format!("GETEX k{key} PERSIST"),
        },
        Step::Rename {
            key,
            other,
            if_absent,
        } => {
            let name = if if_absent { "RENAMENX" } else { "RENAME" };
            format!("{name} k{key} k{other}")
        }
        Step::Copy {
            key,
            other,
            database,
            replace,
        } => {
            let replace = if replace { "REPLACE" } else { "" };
            format!("COPY k{key} k{other} DB {database} {replace}")
        }
        ref other => unreachable!("{other:?} is performed elsewhere"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

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
        prop_assert_eq!(state_of(&mut node.replayed(), node.now.node), model.state());
        node.engine.reclaim(node.now.node.saturating_add(Duration::from_millis(2)), usize::MAX);
        let stored: u64 = (0..16).map(|database| node.engine.count(database).keys).sum();
        prop_assert!(stored <= model.len() as u64, "everything expired is freed");
    }
}
