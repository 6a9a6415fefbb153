//! Sorted sets, small and large ones, held to a vector that is sorted anew after every change.

use std::collections::BTreeMap;

use crate::harness::{Node, render, state_of};
use proptest::prelude::*;
use quorlock_engine::Reply;

/// Members by name with their scores.
#[derive(Default)]
struct Model(BTreeMap<String, i32>);

impl Model {
    /// The members in their order.
    fn sorted(&self) -> Vec<(i32, &str)> {
        let mut members: Vec<_> = self
            .0
            .iter()
            .map(|(name, &score)| (score, name.as_str()))
            .collect();
        members.sort_unstable();
        members
    }

    fn names_with(&self, is_wanted: impl Fn(i32) -> bool) -> Vec<&str> {
        let members = self.sorted().into_iter();
        members
            .filter(|(score, _)| is_wanted(*score))
            .map(|(_, name)| name)
            .collect()
    }

    fn remove(&mut self, names: Vec<String>) -> usize {
        self.0.retain(|name, _| !names.contains(name));
        names.len()
    }
}

fn names(reply: &Reply) -> Vec<String> {
    let Reply::Array(items) = reply else {
        panic!("an array: {reply:?}")
    };
    items
        .iter()
        .map(|item| render(item).trim_matches('"').to_owned())
        .collect()
}

fn owned(names: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<(i32, u16)>),
    AddGreater(i32, u16),
    Increment(i32, u16),
    Remove(u16),
    RemoveScores(i32, i32),
    RemoveRanks(usize, usize),
    Pop(bool, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (score, member) = (-20..20_i32, 0..400_u16);
    prop_oneof![
        6 => prop::collection::vec((score.clone(), member.clone()), 1..60).prop_map(Step::Add),
        2 => (score.clone(), member.clone()).prop_map(|(score, member)| Step::AddGreater(score, member)),
        2 => (score.clone(), member.clone()).prop_map(|(by, member)| Step::Increment(by, member)),
        2 => member.prop_map(Step::Remove),
        1 => (score, 0..4_i32).prop_map(|(low, more)| Step::RemoveScores(low, low + more)),
        1 => (0..200_usize, 0..20_usize).prop_map(|(from, more)| Step::RemoveRanks(from, from + more)),
        2 => (any::<bool>(), 0..12_usize).prop_map(|(is_lowest, count)| Step::Pop(is_lowest, count)),
    ]
}

/// Does the same to both; the answers must be alike.
fn take(node: &mut Node, model: &mut Model, step: Step) {
    match step {
        Step::Add(pairs) => {
            let line: String = pairs
                .iter()
                .map(|(score, member)| format!(" {score} m{member}"))
                .collect();
            let before = model.0.len();
            model.0.extend(
                pairs
                    .into_iter()
                    .map(|(score, member)| (format!("m{member}"), score)),
            );
            assert_eq!(
                node.run(&format!("ZADD z{line}")),
                (model.0.len() - before).to_string()
            );
        }
        Step::AddGreater(score, member) => {
            let name = format!("m{member}");
            let old = model.0.get(&name).copied();
            let is_changed = old.is_none_or(|old| score > old);
            let reply = node.run(&format!("ZADD z GT CH {score} {name}"));
            assert_eq!(reply, i32::from(is_changed).to_string());
            model
                .0
                .insert(name, old.map_or(score, |old| old.max(score)));
        }
        Step::Increment(by, member) => {
            let score = model.0.entry(format!("m{member}")).or_insert(0);
            *score += by;
            let reply = node.reply(&format!("ZINCRBY z {by} m{member}"));
            assert_eq!(reply, Reply::Double(f64::from(*score)));
        }
        Step::Remove(member) => {
            let is_there = model.0.remove(&format!("m{member}")).is_some();
            assert_eq!(
                node.run(&format!("ZREM z m{member}")),
                i32::from(is_there).to_string()
            );
        }
        Step::RemoveScores(low, high) => {
            let removed = owned(model.names_with(|score| low < score && score <= high));
            let reply = node.run(&format!("ZREMRANGEBYSCORE z ({low} {high}"));
            assert_eq!(reply, model.remove(removed).to_string());
        }
        Step::RemoveRanks(from, to) => {
            let members = model.sorted().into_iter().map(|(_, name)| name);
            let removed = owned(members.skip(from).take(to + 1 - from));
            let reply = node.run(&format!("ZREMRANGEBYRANK z {from} {to}"));
            assert_eq!(reply, model.remove(removed).to_string());
        }
        Step::Pop(is_lowest, count) => pop(node, model, is_lowest, count),
    }
}

fn pop(node: &mut Node, model: &mut Model, is_lowest: bool, count: usize) {
    let mut members = model.sorted();
    if !is_lowest {
        members.reverse();
    }
    let members = members.into_iter().take(count);
    let popped: Vec<_> = members
        .map(|(score, name)| (name.to_owned(), score))
        .collect();
    let end = if is_lowest { "ZPOPMIN" } else { "ZPOPMAX" };
    let expected = popped
        .iter()
        .flat_map(|(name, score)| [Reply::bulk(name), Reply::Double(f64::from(*score))]);
    assert_eq!(
        node.reply(&format!("{end} z {count}")),
        Reply::Array(expected.collect())
    );
    model.remove(owned(popped.iter().map(|(name, _)| name)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn members_are_where_a_sorted_vector_has_them(
        steps in prop::collection::vec(step(), 0..60),
        (from, to) in (-300..300_i64, -300..300_i64),
        (low, more) in (-21..21_i32, 0..10_i32),
        (offset, count) in (0..5_usize, 0..5_usize),
    ) {
        let (mut node, mut model) = (Node::default(), Model::default());
        for step in steps {
            take(&mut node, &mut model, step);
            prop_assert_eq!(node.run("ZCARD z"), model.0.len().to_string());
        }
        let members = model.sorted();
        let all = owned(members.iter().map(|(_, name)| name));
        prop_assert_eq!(names(&node.reply("ZRANGE z 0 -1")), all.clone());
        let length = i64::try_from(all.len()).unwrap();
        let rank = |rank: i64| if rank < 0 { rank + length } else { rank };
        let is_within = |number: i64| rank(from) <= number && number <= rank(to);
        let within: Vec<_> = (0..).zip(&all).filter(|(number, _)| is_within(*number)).map(|(_, name)| name.clone()).collect();
        prop_assert_eq!(names(&node.reply(&format!("ZRANGE z {from} {to}"))), within);
        let mut backwards = all.clone();
        backwards.reverse();
        let within: Vec<_> = (0..).zip(&backwards).filter(|(number, _)| is_within(*number)).map(|(_, name)| name.clone()).collect();
        prop_assert_eq!(names(&node.reply(&format!("ZREVRANGE z {from} {to}"))), within);
        let high = low + more;
        let mut scored = owned(model.names_with(|score| low <= score && score < high));
        prop_assert_eq!(node.run(&format!("ZCOUNT z {low} ({high}")), scored.len().to_string());
        let line = format!("ZRANGEBYSCORE z {low} ({high} LIMIT {offset} {count}");
        prop_assert_eq!(names(&node.reply(&line)), owned(scored.iter().skip(offset).take(count)));
        scored.reverse();
        let line = format!("ZREVRANGEBYSCORE z ({high} {low} LIMIT {offset} {count}");
        prop_assert_eq!(names(&node.reply(&line)), owned(scored.iter().skip(offset).take(count)));
        for (rank, (score, name)) in members.iter().enumerate() {
            prop_assert_eq!(node.run(&format!("ZRANK z {name}")), rank.to_string());
            prop_assert_eq!(node.run(&format!("ZREVRANK z {name}")), (all.len() - 1 - rank).to_string());
            prop_assert_eq!(node.reply(&format!("ZSCORE z {name}")), Reply::Double(f64::from(*score)));
        }
        prop_assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
    }

    #[test]
    fn members_of_equal_scores_are_between_others(
        members in prop::collection::btree_set("[ab]{0,4}", 0..40),
        (low, high) in ("[ab]{0,3}", "[ab]{0,3}"),
    ) {
        let mut node = Node::default();
        for member in &members {
            node.execute(&[b"ZADD", b"z", b"0", member.as_bytes()]);
        }
        let within = owned(members.iter().filter(|member| low <= **member && **member < high));
        prop_assert_eq!(node.run(&format!("ZLEXCOUNT z [{low} ({high}")), within.len().to_string());
        let below = owned(members.iter().filter(|member| **member <= high));
        let above = owned(members.iter().filter(|member| **member > low).rev());
        prop_assert_eq!(names(&node.reply(&format!("ZRANGEBYLEX z [{low} ({high}"))), within.clone());
        prop_assert_eq!(names(&node.reply(&format!("ZRANGE z - [{high} BYLEX"))), below);
        prop_assert_eq!(names(&node.reply(&format!("ZREVRANGEBYLEX z + ({low}"))), above);
        prop_assert_eq!(node.run(&format!("ZREMRANGEBYLEX z [{low} ({high}")), within.len().to_string());
        prop_assert_eq!(node.run("ZCARD z"), (members.len() - within.len()).to_string());
    }

    #[test]
    fn sets_made_of_others_have_the_members_that_they_should(
        sets in prop::collection::vec(prop::collection::btree_map(0..100_u8, -50..50_i32, 0..90), 1..4),
        weights in prop::collection::vec(-3..4_i32, 4),
    ) {
        let mut node = Node::default();
        let (mut union, mut greatest) = (BTreeMap::<u8, i32>::new(), BTreeMap::<u8, i32>::new());
        let keys: String = (0..sets.len()).map(|number| format!(" s{number}")).collect();
        let count = sets.len();
        let given: String = weights.iter().take(count).map(|weight| format!(" {weight}")).collect();
        for (number, (set, weight)) in sets.iter().zip(&weights).enumerate() {
            for (member, score) in set {
                node.run(&format!("ZADD s{number} {score} {member}"));
                *union.entry(*member).or_insert(0) += score * weight;
                let best = greatest.entry(*member).or_insert(score * weight);
                *best = (*best).max(score * weight);
            }
        }
        let is_in_all = |member: &u8| sets.iter().all(|set| set.contains_key(member));
        let is_only_first = |member: &u8| !sets[1..].iter().any(|set| set.contains_key(member));
        let in_order = |members: Vec<(u8, i32)>| {
            let mut members: Vec<_> = members.into_iter().map(|(member, score)| (score, member.to_string())).collect();
            members.sort();
            let flat = members.into_iter().flat_map(|(score, member)| [Reply::bulk(member), Reply::Double(f64::from(score))]);
            render(&Reply::Array(flat.collect()))
        };
        let all = |members: &BTreeMap<u8, i32>, is_wanted: &dyn Fn(&u8) -> bool| {
            let wanted = members.iter().filter(|(member, _)| is_wanted(member));
            in_order(wanted.map(|(member, score)| (*member, *score)).collect())
        };
        let common = sets[0].keys().filter(|member| is_in_all(member)).count();
        prop_assert_eq!(node.run(&format!("ZINTERCARD {count}{keys}")), common.to_string());
        prop_assert_eq!(node.run(&format!("ZINTERCARD {count}{keys} LIMIT 5")), common.min(5).to_string());
        for (line, expected) in [
            (format!("UNION {count}{keys} WEIGHTS{given}"), all(&union, &|_| true)),
            (format!("UNION {count}{keys} AGGREGATE MAX WEIGHTS{given}"), all(&greatest, &|_| true)),
            (format!("INTER {count}{keys} WEIGHTS{given}"), all(&union, &is_in_all)),
            (format!("DIFF {count}{keys}"), all(&sets[0], &is_only_first)),
        ] {
            // The sign of a zero is not kept.
            let reply = node.run(&format!("Z{line} WITHSCORES")).replace("-0.0", "0.0");
            prop_assert_eq!(&reply, &expected, "{}", line);
            let stored = line.replacen(' ', "STORE to ", 1);
            node.run(&format!("Z{stored}"));
            prop_assert_eq!(node.run("ZRANGE to 0 -1 WITHSCORES"), expected, "{}", stored);
        }
        prop_assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
    }
}

#[test]
fn what_changes_nothing_is_not_logged() {
    let mut node = Node::default();
    node.run("ZADD z 1 a 2 b");
    let groups = node.log.len();
    for line in [
        "ZADD z 1 a 2 b",
        "ZADD z NX 5 a",
        "ZADD z XX 5 none",
        "ZADD z GT 0 a",
        "ZADD z LT CH 5 a 2 b",
        "ZADD none XX 1 a",
        "ZINCRBY z 0 a",
        "ZREM z none",
        "ZREM none a",
        "ZREMRANGEBYSCORE z 5 9",
        "ZREMRANGEBYRANK z 5 9",
        "ZPOPMIN z 0",
        "ZPOPMAX none 5",
        "ZMPOP 1 none MIN",
        "ZUNIONSTORE to 1 none",
        "ZRANGESTORE to z 5 9",
        "ZADD z 5 c abc d",
        "ZADD z INCR nan a",
    ] {
        node.run(line);
        assert_eq!(node.log.len(), groups, "{line}");
    }
}

#[test]
fn what_removes_all_members_is_logged_as_a_deletion() {
    let logged = |line: &str| {
        let mut node = Node::default();
        node.run("ZADD z 0 a 0 b 0 c");
        node.run(line);
        assert_eq!(node.run("EXISTS z"), "0", "{line}");
        node.log.last().unwrap().clone()
    };
    let deletion = logged("DEL z");
    for line in [
        "ZPOPMIN z 3",
        "ZPOPMAX z 100",
        "ZMPOP 1 z MIN COUNT 3",
        "ZREMRANGEBYRANK z 0 -1",
        "ZREMRANGEBYSCORE z 0 0",
        "ZREMRANGEBYLEX z - +",
        "ZRANGESTORE z z 5 9",
        "ZDIFFSTORE z 2 z z",
    ] {
        assert_eq!(logged(line), deletion, "{line}");
    }
}

#[test]
fn infinities_that_cancel_each_other_change_nothing() {
    let mut node = Node::default();
    node.run("ZADD z inf a -inf b");
    let before = node.state();
    let refusal = "-ERR resulting score is not a number (NaN)";
    for line in [
        "ZINCRBY z -inf a",
        "ZADD z INCR inf b",
        "ZADD z GT INCR -inf a",
    ] {
        assert_eq!(node.run(line), refusal, "{line}");
        assert_eq!(node.state(), before);
    }
    assert_eq!(
        node.run("ZUNION 2 z z WEIGHTS 1 -1 WITHSCORES"),
        "[\"a\", Double(0.0), \"b\", Double(0.0)]"
    );
}

/// A command may name a large set as often as it likes.
#[test]
fn what_the_inputs_of_one_command_hold_together_is_bounded() {
    let mut node = Node::default();
    let pairs: String = (0..10_486).map(|number| format!(" 1 {number}")).collect();
    node.run(&format!("ZADD z{pairs}"));
    node.run(&format!("ZADD long 1 {}", "x".repeat(1 << 20)));
    node.run("ZADD one 1 a");
    let keys = |name: &str, count: usize| format!("{count}{}", format!(" {name}").repeat(count));
    for name in ["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"] {
        // 99 times is within the bound, 100 times is 24 members beyond it.
        let reply = node.run(&format!("{name} {}", keys("z", 100)));
        assert!(
            reply.starts_with("-ERR the sets of this command have more than 1048576 members"),
            "{name}: {reply:.100}"
        );
        let reply = node.reply(&format!("{name} {}", keys("z", 99)));
        assert!(!reply.is_error(), "{name}");
        let reply = node.run(&format!("{name} {}", keys("long", 64)));
        assert!(
            reply.starts_with("-ERR the members of the sets of this command take more than"),
            "{name}: {reply:.100}"
        );
        let reply = node.reply(&format!("{name} {}", keys("long", 63)));
        assert!(!reply.is_error(), "{name}");
    }
    let before = node.log.len();
    assert!(
        node.run(&format!("ZUNIONSTORE one {}", keys("z", 100)))
            .starts_with("-ERR the sets")
    );
    assert_eq!(node.log.len(), before);
    assert_eq!(node.run("ZRANGE one 0 -1"), "[\"a\"]");
    // An input without members leaves nothing to be done.
    assert_eq!(
        node.run(&format!("ZINTER 101{} none", " z".repeat(100))),
        "[]"
    );
}

#[test]
fn long_members_are_shared_with_replies() {
    let mut node = Node::default();
    let long = "x".repeat(1024);
    node.run(&format!("ZADD z 1 {long} 2 short"));
    for line in ["ZRANGE z 0 0", "ZUNION 1 z", "ZRANDMEMBER z 2", "ZPOPMIN z"] {
        let Reply::Array(items) = node.reply(line) else {
            panic!("an array")
        };
        assert!(
            matches!(&items[0], Reply::Shared(bytes) if **bytes == *long.as_bytes()),
            "{line}"
        );
    }
}
