//! Sorted sets: members with scores, in the order of their scores.
//!
//! A score of -0 is kept as 0, as Redis does in small sets: they are equal, and so is their order.

use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use crate::caller::Protocol;
use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::is_option;
use crate::command::lists::{length, remove};
use crate::command::scores::score;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::change::Change;
use crate::keyspace::sorted_set::SortedSet;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[
    &ZADD, &ZINCRBY, &ZREM, &ZSCORE, &ZMSCORE, &ZCARD, &ZRANK, &ZREVRANK,
];

/// How members stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberShape {
    /// Without their scores.
    Alone,
    /// Members and scores in turn.
    Flat,
    /// A member and its score are an array in the array.
    Nested,
}

impl MemberShape {
    pub(super) fn of(with_scores: bool, protocol: Protocol) -> MemberShape {
        match (with_scores, protocol) {
            (false, _) => MemberShape::Alone,
            (true, Protocol::Resp2) => MemberShape::Flat,
            (true, Protocol::Resp3) => MemberShape::Nested,
        }
    }

    /// Adds a member to a reply, charged before.
    pub(super) fn add(
        self,
        member: &Arc<[u8]>,
        score: f64,
        effects: &mut Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), ErrorReply> {
        effects.charge(member.len())?;
        if self != MemberShape::Alone {
            effects.charge(0)?;
        }
        if self == MemberShape::Nested {
            effects.charge(0)?;
        }
        match self {
            MemberShape::Alone => replies.push(Reply::value(member)),
            MemberShape::Flat => replies.extend([Reply::value(member), Reply::Double(score)]),
            MemberShape::Nested => {
                let pair = vec![Reply::value(member), Reply::Double(score)];
                replies.push(Reply::Array(pair));
            }
        }
        Ok(())
    }
}

const ZADD: Spec = Spec::on_key("zadd", -4, |context, arguments| {
    add(context, arguments, Rule::default())
})
.flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::PAIRS))
.about(Categories::SORTED_SET, &[KeyAccess::UPDATE]);

const ZINCRBY: Spec = ZADD
    .variant("zincrby", |context, arguments| {
        let rule = Rule {
            is_increment: true,
            ..Rule::default()
        };
        add(context, arguments, rule)
    })
    .arity(4)
    .about(Categories::SORTED_SET, &[KeyAccess::CHANGE]);

/// ZADD's options: which members get which scores.
#[derive(Clone, Copy, Debug, Default)]
struct Rule {
    only_new: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    is_increment: bool,
    counts_changed: bool,
}

impl Rule {
    /// Reads options as far as there are some, and returns what is left.
    fn read<'a>(&mut self, mut arguments: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        while let [option, rest @ ..] = arguments {
            let flag = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut self.only_new,
                b"xx" => &mut self.only_present,
                b"gt" => &mut self.only_greater,
                b"lt" => &mut self.only_less,
                b"incr" => &mut self.is_increment,
                b"ch" => &mut self.counts_changed,
                _ => break,
            };
            *flag = true;
            arguments = rest;
        }
        arguments
    }

    fn check(&self, pairs: usize) -> Result<(), ErrorReply> {
        if self.only_new && self.only_present {
            return Err(ErrorReply::fixed(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let exclusive = [self.only_new, self.only_greater, self.only_less];
        if exclusive.iter().filter(|is_given| **is_given).count() > 1 {
            return Err(ErrorReply::fixed(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.is_increment && pairs > 1 {
            return Err(ErrorReply::fixed(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// The score that a member gets which has had `old`; `None` where the rule leaves it as it is.
    fn apply(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, ErrorReply> {
        let Some(old) = old else {
            return Ok((!self.only_present).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.is_increment {
            old + given
        } else {
            given
        };
        if new.is_nan() {
            return Err(ErrorReply::fixed(
                "ERR resulting score is not a number (NaN)",
            ));
        }
        let is_refused = (self.only_less && new >= old) || (self.only_greater && new <= old);
        Ok((!is_refused).then_some(new))
    }
}

fn add(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    mut rule: Rule,
) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let pairs = rule.read(&arguments[2..]);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(ErrorReply::SYNTAX);
    }
    let pairs = pairs.chunks_exact(2);
    rule.check(pairs.len())?;
    // All scores are read before anything is looked at.
    let pairs: Vec<(f64, &[u8])> = pairs
        .map(|pair| Ok((score(pair[0])?, pair[1])))
        .collect::<Result<_, ErrorReply>>()?;
    let found = context.peek(key);
    context.reveal(&found);
    let set = context.collection::<SortedSet>(&found)?;
    let Additions {
        changes,
        added,
        updated,
        last,
    } = Additions::of(set, &pairs, rule, context.keyspace.seed())?;
    let has_changes = !changes.is_empty();
    if set.is_some() {
        let changes = changes.iter();
        let changes = changes.map(|&(member, score)| Change::ScoreSet { member, score });
        context.change(&found, key, changes)?;
    } else if !changes.is_empty() {
        let mut set = SortedSet::default();
        for (member, score) in changes {
            set.set(member, score, context.keyspace.seed());
        }
        context.put_collection(&found, key, set, Deadline::NEVER)?;
    }
    if has_changes {
        let event = if rule.is_increment { "zincr" } else { "zadd" };
        context.notify(Class::SortedSet, event, key);
    }
    if rule.is_increment {
        return Ok(last.map_or(Reply::Nil, Reply::Double));
    }
    let changed = if rule.counts_changed { updated } else { 0 };
    Ok(Reply::count(added.saturating_add(changed)))
}

/// What is to be done for pairs of scores and members.
#[derive(Debug, Default)]
struct Additions<'a> {
    changes: Vec<(&'a [u8], f64)>,
    added: usize,
    updated: usize,
    /// The score of the last member that the rule did not leave as it was.
    last: Option<f64>,
}

impl<'a> Additions<'a> {
    fn of(
        set: Option<&SortedSet>,
        pairs: &[(f64, &'a [u8])],
        rule: Rule,
        seed: u64,
    ) -> Result<Additions<'a>, ErrorReply> {
        let mut made = Additions::default();
        // A member may come twice.
        let mut written = HashMap::with_hasher(FixedState::with_seed(seed));
        for &(given, member) in pairs {
            let old = written.get(member).copied();
            let old = old.or_else(|| set.and_then(|set| set.score(member)));
            let Some(new) = rule.apply(old, given)? else {
                continue;
            };
            made.last = Some(new);
            if old == Some(new) {
                continue;
            }
            let counter = match old {
                None => &mut made.added,
                Some(_) => &mut made.updated,
            };
            *counter = counter.saturating_add(1);
            made.changes.push((member, kept_score(new)));
            if pairs.len() > 1 {
                written.insert(member, new);
            }
        }
        Ok(made)
    }
}

/// The score as a set keeps it: without the sign of a zero.
pub(super) fn kept_score(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score }
}

const ZREM: Spec = Spec::on_key("zrem", -3, |context, arguments| {
    let removed = |member| Change::ScoreRemove { member };
    remove::<SortedSet>(context, arguments, Class::SortedSet, "zrem", removed)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::SORTED_SET, &[KeyAccess::SUBTRACT]);

const ZSCORE: Spec = Spec::on_key("zscore", 3, zscore)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::SORTED_SET, &[KeyAccess::READ]);

fn zscore(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let set = context.collection::<SortedSet>(&found)?;
    let score = set.and_then(|set| set.score(arguments[2]));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

const ZMSCORE: Spec = ZSCORE.variant("zmscore", zmscore).arity(-3);

fn zmscore(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    context.collection::<SortedSet>(&found)?;
    let mut replies = Vec::new();
    for member in &arguments[2..] {
        context.effects.charge(0)?;
        let set = context.collection::<SortedSet>(&found)?;
        let score = set.and_then(|set| set.score(member));
        replies.push(score.map_or(Reply::Nil, Reply::Double));
    }
    Ok(Reply::Array(replies))
}

const ZCARD: Spec = ZSCORE
    .variant("zcard", length::<SortedSet>)
    .arity(2)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::SORTED_SET, &[KeyAccess::LOOK]);

const ZRANK: Spec = ZSCORE
    .variant("zrank", |context, arguments| {
        rank(context, arguments, false)
    })
    .arity(-3);

const ZREVRANK: Spec = ZRANK.variant("zrevrank", |context, arguments| {
    rank(context, arguments, true)
});

fn rank(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    is_reverse: bool,
) -> Result<Reply, ErrorReply> {
    let with_score = match arguments[3..] {
        [] => false,
        [option] if is_option(option, "withscore") => true,
        [_] => return Err(ErrorReply::SYNTAX),
        [_, _, ..] if is_reverse => return Err(ErrorReply::wrong_arity("zrevrank")),
        [_, _, ..] => return Err(ErrorReply::wrong_arity("zrank")),
    };
    let (found, member) = (context.lookup(arguments[1]), arguments[2]);
    let set = context.collection::<SortedSet>(&found)?;
    let Some((set, rank)) = set.and_then(|set| Some((set, set.rank(member)?))) else {
        return Ok(if with_score {
            Reply::NilArray
        } else {
            Reply::Nil
        });
    };
    let rank = if is_reverse {
        set.len().saturating_sub(rank).saturating_sub(1)
    } else {
        rank
    };
    match set.score(member) {
        Some(score) if with_score => {
            Ok(Reply::Array(vec![Reply::count(rank), Reply::Double(score)]))
        }
        _ => Ok(Reply::count(rank)),
    }
}
