//! Sorted sets made of others, and of sets: union, intersection and difference, as a reply, as another
//! key, or only counted.
//!
//! What the inputs hold together is bounded, so that one command keeps no other one waiting for long.

use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::scores::weight;
use crate::command::set_algebra::admit_sizes;
use crate::command::sorted_set_ranges::set_of;
use crate::command::sorted_sets::MemberShape;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::members::Members;
use crate::keyspace::sorted_set::SortedSet;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[
    &ZUNION,
    &ZINTER,
    &ZDIFF,
    &ZUNIONSTORE,
    &ZINTERSTORE,
    &ZDIFFSTORE,
    &ZINTERCARD,
];

const ZUNION: Spec = Spec::on_keys("zunion", -3, |context, arguments| {
    answer(context, arguments, Algebra::Union)
})
.flags(Flags::READ_KEYS.with(Flags::MOVABLE_KEYS))
.about(Categories::SORTED_SET, &[KeyAccess::READ])
.counted_at(1);

const ZINTER: Spec = ZUNION.variant("zinter", |context, arguments| {
    answer(context, arguments, Algebra::Intersection)
});

const ZDIFF: Spec = ZUNION.variant("zdiff", |context, arguments| {
    answer(context, arguments, Algebra::Difference)
});

const ZUNIONSTORE: Spec = Spec::on_key("zunionstore", -4, |context, arguments| {
    keep(context, arguments, Algebra::Union, "zunionstore")
})
.flags(Flags::GROW_KEYS.with(Flags::MOVABLE_KEYS))
.and(Flags::WHOLE_VALUE)
.about(Categories::SORTED_SET, KeyAccess::STORE)
.counted_at(2);

const ZINTERSTORE: Spec = ZUNIONSTORE.variant("zinterstore", |context, arguments| {
    keep(context, arguments, Algebra::Intersection, "zinterstore")
});

const ZDIFFSTORE: Spec = ZUNIONSTORE.variant("zdiffstore", |context, arguments| {
    keep(context, arguments, Algebra::Difference, "zdiffstore")
});

const ZINTERCARD: Spec = ZUNION.variant("zintercard", zintercard);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algebra {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the result, which decides about the options there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultUse {
    Reply,
    Store,
    Count,
}

fn answer(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    operation: Algebra,
) -> Result<Reply, ErrorReply> {
    let request = Request::parse(context, arguments, 1, operation, ResultUse::Reply)?;
    let shape = MemberShape::of(request.options.with_scores, context.caller.protocol);
    let members = request.members(context, operation)?;
    let mut replies = Vec::new();
    for (member, score) in &members {
        shape.add(member, *score, context.effects, &mut replies)?;
    }
    Ok(Reply::Array(replies))
}

fn keep(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    operation: Algebra,
    event: &'static str,
) -> Result<Reply, ErrorReply> {
    let request = Request::parse(context, arguments, 2, operation, ResultUse::Store)?;
    let members = request.members(context, operation)?;
    let members = members.iter().map(|(member, score)| (&**member, *score));
    let set = set_of(context, members)?;
    context.store_result(arguments[1], set, (Class::SortedSet, event))
}

fn zintercard(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let operation = Algebra::Intersection;
    let request = Request::parse(context, arguments, 1, operation, ResultUse::Count)?;
    let sources = request.sources(context, operation)?;
    let limit = match request.options.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let common = intersection(&sources, request.options.aggregate)?;
    Ok(Reply::count(common.take(limit).count()))
}

/// The keys of the inputs, and what is to be done with them.
struct Request {
    found: Vec<KeySlot>,
    options: AlgebraOptions,
}

#[derive(Debug)]
struct AlgebraOptions {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// How many members are counted at most; 0 for all.
    limit: usize,
}

/// What becomes of the scores that a member has in several inputs.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Request {
    /// In Redis's order: the number of keys, their types, and then the options. `at` is where the
    /// number of keys is.
    fn parse(
        context: &mut CommandContext<'_>,
        arguments: &[&[u8]],
        at: usize,
        operation: Algebra,
        purpose: ResultUse,
    ) -> Result<Request, ErrorReply> {
        let (number, rest) = (integer(arguments[at])?, &arguments[at..][1..]);
        if number < 1 {
            return Err(ErrorReply::new(format!(
                "ERR at least 1 input key is needed for '{}' command",
                String::from_utf8_lossy(arguments[0]).to_ascii_lowercase()
            )));
        }
        let number = usize::try_from(number).map_err(|_| ErrorReply::SYNTAX)?;
        let (keys, rest) = rest.split_at_checked(number).ok_or(ErrorReply::SYNTAX)?;
        // As in Redis what comes behind a key of another type is not looked for, nor told of as missing.
        let mut found: Vec<KeySlot> = Vec::with_capacity(keys.len());
        for key in keys {
            let one = context.lookup(key);
            InputSet::of(context, &one)?;
            found.push(one);
        }
        let options = AlgebraOptions::parse(rest, keys.len(), operation, purpose)?;
        Ok(Request { found, options })
    }

    /// The inputs in the order in which scores are computed.
    fn sources<'s>(
        &self,
        context: &'s CommandContext<'_>,
        operation: Algebra,
    ) -> Result<Vec<WeightedInput<'s>>, ErrorReply> {
        let found = self.found.iter().zip(&self.options.weights);
        let sources = found.map(|(found, &weight)| {
            let input = InputSet::of(context, found)?;
            Ok(WeightedInput { input, weight })
        });
        let mut sources = sources.collect::<Result<Vec<_>, ErrorReply>>()?;
        if operation != Algebra::Difference {
            // As in Redis the smallest comes first: sums of doubles depend on the order.
            sources.sort_by_key(|source| source.input.len());
        }
        Ok(sources)
    }

    /// The members of the result with their scores, in their order.
    fn members(
        &self,
        context: &CommandContext<'_>,
        operation: Algebra,
    ) -> Result<Vec<OwnedScored>, ErrorReply> {
        let sources = self.sources(context, operation)?;
        let (aggregate, seed) = (self.options.aggregate, context.keyspace.seed());
        let mut members: Vec<Scored<'_>> = match operation {
            Algebra::Union => union(&sources, aggregate, seed)?,
            Algebra::Intersection => intersection(&sources, aggregate)?.collect(),
            Algebra::Difference => difference(&sources, seed)?,
        };
        members.sort_unstable_by(|(one, score), (other, other_score)| {
            let by_score = score.partial_cmp(other_score).unwrap_or(Ordering::Equal);
            by_score.then_with(|| one.cmp(other))
        });
        let members = members.into_iter();
        Ok(members
            .map(|(member, score)| (Arc::clone(member), score))
            .collect())
    }
}

impl AlgebraOptions {
    fn parse(
        mut arguments: &[&[u8]],
        keys: usize,
        operation: Algebra,
        purpose: ResultUse,
    ) -> Result<AlgebraOptions, ErrorReply> {
        let is_computed = operation != Algebra::Difference && purpose != ResultUse::Count;
        let mut options = AlgebraOptions {
            weights: vec![1.0; keys],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        while let [option, rest @ ..] = arguments {
            arguments = if is_computed && rest.len() >= keys && is_option(option, "weights") {
                let (weights, rest) = rest.split_at(keys);
                for (place, given) in options.weights.iter_mut().zip(weights) {
                    *place = weight(given)?;
                }
                rest
            } else if let ([name, rest @ ..], true) =
                (rest, is_computed && is_option(option, "aggregate"))
            {
                options.aggregate = Aggregate::parse(name)?;
                rest
            } else if purpose == ResultUse::Reply && is_option(option, "withscores") {
                options.with_scores = true;
                rest
            } else if let ([limit, rest @ ..], true) = (
                rest,
                purpose == ResultUse::Count && is_option(option, "limit"),
            ) {
                let limit = parse_integer(limit).and_then(|limit| usize::try_from(limit).ok());
                options.limit = limit.ok_or(ErrorReply::fixed("ERR LIMIT can't be negative"))?;
                rest
            } else {
                return Err(ErrorReply::SYNTAX);
            };
        }
        Ok(options)
    }
}

impl Aggregate {
    fn parse(name: &[u8]) -> Result<Aggregate, ErrorReply> {
        match name.to_ascii_lowercase().as_slice() {
            b"sum" => Ok(Aggregate::Sum),
            b"min" => Ok(Aggregate::Least),
            b"max" => Ok(Aggregate::Greatest),
            _ => Err(ErrorReply::SYNTAX),
        }
    }

    /// Infinities that cancel each other make 0, as in Redis.
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(one + other),
            Aggregate::Least if other < one => other,
            Aggregate::Greatest if other > one => other,
            Aggregate::Least | Aggregate::Greatest => one,
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What a key holds: a sorted set, or a set whose members all have the score 1.
#[derive(Clone, Copy, Debug)]
enum InputSet<'s> {
    Absent,
    Set(&'s Members),
    SortedSet(&'s SortedSet),
}

/// A member with its score.
type Scored<'s> = (&'s Arc<[u8]>, f64);

/// The same without its input.
type OwnedScored = (Arc<[u8]>, f64);

impl<'s> InputSet<'s> {
    fn of(context: &'s CommandContext<'_>, found: &KeySlot) -> Result<InputSet<'s>, ErrorReply> {
        match found.live.map(|slot| context.value(slot)) {
            None => Ok(InputSet::Absent),
            Some(ValueRef::Collection(Collection::Set(set))) => Ok(InputSet::Set(set)),
            Some(ValueRef::Collection(Collection::SortedSet(set))) => Ok(InputSet::SortedSet(set)),
            Some(_) => Err(ErrorReply::WRONG_TYPE),
        }
    }

    fn len(self) -> usize {
        match self {
            InputSet::Absent => 0,
            InputSet::Set(set) => set.len(),
            InputSet::SortedSet(set) => set.len(),
        }
    }

    fn bytes(self) -> usize {
        match self {
            InputSet::Absent => 0,
            InputSet::Set(set) => set.bytes(),
            InputSet::SortedSet(set) => set.bytes(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            InputSet::Absent => None,
            InputSet::Set(set) => set.contains(member).then_some(1.0),
            InputSet::SortedSet(set) => set.score(member),
        }
    }

    /// All members, in any order.
    fn iter(self) -> impl Iterator<Item = Scored<'s>> {
        let (members, scored) = match self {
            InputSet::Absent => (None, None),
            InputSet::Set(set) => (Some(set), None),
            InputSet::SortedSet(set) => (None, Some(set)),
        };
        let members = members.into_iter().flat_map(|set| set.iter());
        members
            .map(|member| (member, 1.0))
            .chain(scored.into_iter().flat_map(SortedSet::iter))
    }
}

/// An input with its weight.
#[derive(Clone, Copy, Debug)]
struct WeightedInput<'s> {
    input: InputSet<'s>,
    weight: f64,
}

fn union<'s>(
    sources: &[WeightedInput<'s>],
    aggregate: Aggregate,
    seed: u64,
) -> Result<Vec<Scored<'s>>, ErrorReply> {
    admit(sources)?;
    let mut members: Vec<Scored<'s>> = Vec::new();
    let mut places = HashMap::with_hasher(FixedState::with_seed(seed));
    for source in sources {
        for (member, score) in source.input.iter() {
            let score = number_or_zero(source.weight * score);
            let place = *places.entry(&**member).or_insert(members.len());
            match members.get_mut(place) {
                Some((_, sum)) => *sum = aggregate.of(*sum, score),
                None => members.push((member, score)),
            }
        }
    }
    Ok(members)
}

fn intersection<'s>(
    sources: &[WeightedInput<'s>],
    aggregate: Aggregate,
) -> Result<impl Iterator<Item = Scored<'s>>, ErrorReply> {
    // The first one has the fewest members. Without any there is nothing to be done.
    let is_empty = sources.iter().any(|source| source.input.len() == 0);
    let sources = if is_empty { &[] } else { sources };
    admit(sources)?;
    let (first, others) = match sources {
        [first, others @ ..] => (Some(first), others),
        [] => (None, sources),
    };
    Ok(first.into_iter().flat_map(move |first| {
        first.input.iter().filter_map(move |(member, score)| {
            let mut result = number_or_zero(first.weight * score);
            for other in others {
                let score = other.input.score(member)?;
                result = aggregate.of(result, score * other.weight);
            }
            Some((member, result))
        })
    }))
}

fn difference<'s>(sources: &[WeightedInput<'s>], seed: u64) -> Result<Vec<Scored<'s>>, ErrorReply> {
    let [first, others @ ..] = sources else {
        return Ok(Vec::new());
    };
    if first.input.len() == 0 {
        return Ok(Vec::new());
    }
    let bytes = admit(sources)?;
    // All of the first one in each of the others, or all of the others once.
    if first.input.bytes().saturating_mul(others.len()) <= bytes {
        let is_left = |(member, _): &Scored<'_>| {
            let mut others = others.iter();
            others.all(|other| other.input.score(member).is_none())
        };
        return Ok(first.input.iter().filter(is_left).collect());
    }
    let mut taken: HashSet<&[u8], _> = HashSet::with_hasher(FixedState::with_seed(seed));
    for other in others {
        taken.extend(other.input.iter().map(|(member, _)| &**member));
    }
    let members = first.input.iter();
    Ok(members
        .filter(|(member, _)| !taken.contains(&***member))
        .collect())
}

/// Refuses inputs that would keep all other commands waiting. Returns the bytes of all.
fn admit(sources: &[WeightedInput<'_>]) -> Result<usize, ErrorReply> {
    let inputs = sources.iter().map(|source| source.input);
    admit_sizes(inputs.map(|input| (input.len(), input.bytes())))
}
