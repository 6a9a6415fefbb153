//! The elements of a list, set or sorted set in another order, and what keys named after them hold: SORT and SORT_RO.
//!
//! All that one command looks at is counted, elements and keys alike, so that it ends soon whatever they hold. Text is
//! compared byte by byte, as Redis does in the locale `C`.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::double::parse_double;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::list::{End, List};
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&SORT, &SORT_RO];

const SORT: Spec = Spec::on_key("sort", -2, |context, arguments| {
    sort(
        context,
        arguments,
        SortOptions::parse(&arguments[2..], true)?,
    )
})
.flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
.and(Flags::MOVABLE_KEYS)
.about(CATEGORIES, KeyAccess::COPY);

const SORT_RO: Spec = SORT
    .variant("sort_ro", |context, arguments| {
        sort(
            context,
            arguments,
            SortOptions::parse(&arguments[2..], false)?,
        )
    })
    .flags(Flags::READ_KEYS.with(Flags::MOVABLE_KEYS))
    .about(CATEGORIES, &[KeyAccess::READ]);

const CATEGORIES: Categories = Categories::SET
    .with(Categories::SORTED_SET)
    .with(Categories::LIST)
    .with(Categories::DANGEROUS);

fn sort(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    mut options: SortOptions<'_>,
) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let mut work = SortWork::default();
    let is_set = matches!(collection(context, &found)?, Some(Collection::Set(_)));
    if options.is_unsorted && is_set && (options.store.is_some() || context.keyspace.is_recording())
    {
        // As in Redis, where a set has no order that replicas could agree on.
        (options.is_unsorted, options.is_text, options.by) = (false, true, None);
    }
    let (mut elements, range) = load(context, &found, &options, &mut work)?;
    if !options.is_unsorted {
        elements = sorted(context, elements, &options, &mut work)?;
    }
    let wanted = elements.get(range).unwrap_or_default();
    match options.store {
        None => answer(context, wanted, &options.gets, &mut work),
        Some(key) => store(context, wanted, &options.gets, key, &mut work),
    }
}

type Elements = Vec<Arc<[u8]>>;

/// What follows the key.
#[derive(Default)]
struct SortOptions<'a> {
    by: Option<Pattern<'a>>,
    gets: Vec<Pattern<'a>>,
    limit: Option<(i64, i64)>,
    is_descending: bool,
    is_text: bool,
    /// Named after BY was what names no key.
    is_unsorted: bool,
    store: Option<&'a [u8]>,
}

impl<'a> SortOptions<'a> {
    fn parse(mut rest: &[&'a [u8]], may_store: bool) -> Result<SortOptions<'a>, ErrorReply> {
        let mut options = SortOptions::default();
        while let Some((&word, after)) = rest.split_first() {
            rest = after;
            match *after {
                _ if is_option(word, "asc") => options.is_descending = false,
                _ if is_option(word, "desc") => options.is_descending = true,
                _ if is_option(word, "alpha") => options.is_text = true,
                [offset, count, ref after @ ..] if is_option(word, "limit") => {
                    options.limit = Some((integer(offset)?, integer(count)?));
                    rest = after;
                }
                [key, ref after @ ..] if may_store && is_option(word, "store") => {
                    options.store = Some(key);
                    rest = after;
                }
                [pattern, ref after @ ..] if is_option(word, "by") => {
                    let pattern = Pattern::of(pattern);
                    options.is_unsorted |= !matches!(pattern, Pattern::Key { .. });
                    options.by = Some(pattern);
                    rest = after;
                }
                [pattern, ref after @ ..] if is_option(word, "get") => {
                    options.gets.push(Pattern::of(pattern));
                    rest = after;
                }
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        Ok(options)
    }

    /// The part of so many elements that is wanted.
    fn range(&self, length: usize) -> Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(offset.max(0)).map_or(length, |start| start.min(length));
        let end = match usize::try_from(count) {
            // It is negative.
            Err(_) => length,
            Ok(count) => start.saturating_add(count).min(length),
        };
        start..end
    }
}

/// Where to look for what belongs to an element.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// A key with the element in its name, or a field of it.
    Key {
        before: &'a [u8],
        after: &'a [u8],
        field: Option<&'a [u8]>,
    },
    /// What names the same key for all elements is not looked for.
    Nothing,
}

impl<'a> Pattern<'a> {
    fn of(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else {
            return Pattern::Nothing;
        };
        let (before, after) = (&text[..star], &text[star..][1..]);
        let arrow = after.windows(2).position(|two| two == b"->");
        // An arrow with nothing behind it is a part of the key.
        let named = arrow.map(|at| (&after[..at], &after[at..][2..]));
        match named.filter(|(_, field)| !field.is_empty()) {
            Some((after, field)) => Pattern::Key {
                before,
                after,
                field: Some(field),
            },
            None => Pattern::Key {
                before,
                after,
                field: None,
            },
        }
    }

    /// What is there for an element, if anything is.
    fn value(
        self,
        context: &mut CommandContext<'_>,
        element: &Arc<[u8]>,
        work: &mut SortWork,
    ) -> Result<Option<Arc<[u8]>>, ErrorReply> {
        let (before, after, field) = match self {
            Pattern::Element => return Ok(Some(Arc::clone(element))),
            Pattern::Nothing => return Ok(None),
            Pattern::Key {
                before,
                after,
                field,
            } => (before, after, field),
        };
        let length = before.len().saturating_add(after.len());
        work.take(length.saturating_add(element.len()))?;
        let key = [before, element, after].concat();
        if context.is_anybody_told() {
            context.tell_if_expired(&key);
        }
        let Some(slot) = context.lookup(&key).live else {
            return Ok(None);
        };
        let body = &context.keyspace.entry(slot).body;
        let value = match (body.value(), field) {
            (ValueRef::String(bytes), None) => {
                work.take(bytes.len())?;
                let shared = body.shared().map(Arc::clone);
                Some(shared.unwrap_or_else(|| bytes.into()))
            }
            (ValueRef::Collection(Collection::Hash(fields)), Some(field)) => {
                fields.get(field).map(Arc::clone)
            }
            _ => None,
        };
        Ok(value)
    }
}

/// What a command has looked at so far.
#[derive(Default)]
struct SortWork {
    elements: usize,
    bytes: usize,
}

impl SortWork {
    /// Counts an element, a key or a value of so many bytes.
    fn take(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        self.elements = self.elements.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.elements > ELEMENTS_MAX {
            return Err(ErrorReply::new(format!(
                "ERR this command looks at more than {ELEMENTS_MAX} elements and keys, and everybody who wants a \
                 lock would wait, so nothing was done. Sort in the client"
            )));
        }
        if self.bytes > BYTES_MAX {
            return Err(ErrorReply::new(format!(
                "ERR the elements and keys that this command looks at take more than {BYTES_MAX} bytes, and \
                 everybody who wants a lock would wait, so nothing was done. Sort in the client"
            )));
        }
        Ok(())
    }
}

fn collection<'c>(
    context: &'c CommandContext<'_>,
    found: &KeySlot,
) -> Result<Option<&'c Collection>, ErrorReply> {
    match found.live.map(|slot| context.value(slot)) {
        None => Ok(None),
        Some(
            ValueRef::Collection(Collection::Hash(_) | Collection::SharedLock(_))
            | ValueRef::String(_),
        ) => Err(ErrorReply::WRONG_TYPE),
        Some(ValueRef::Collection(collection)) => Ok(Some(collection)),
    }
}

/// The elements, and which of them are wanted once they are in order. Of those that are in order already no others
/// are taken.
fn load(
    context: &CommandContext<'_>,
    found: &KeySlot,
    options: &SortOptions<'_>,
    work: &mut SortWork,
) -> Result<(Elements, Range<usize>), ErrorReply> {
    let Some(collection) = collection(context, found)? else {
        return Ok((Vec::new(), 0..0));
    };
    let length = collection.len();
    let range = options.range(length);
    let is_in_order = options.is_unsorted && !matches!(collection, Collection::Set(_));
    let taken = match (is_in_order, options.is_descending) {
        (false, _) => 0..length,
        (true, false) => range.clone(),
        (true, true) => length.saturating_sub(range.end)..length.saturating_sub(range.start),
    };
    let mut elements = Vec::new();
    let mut add = |element: &Arc<[u8]>| {
        work.take(element.len())?;
        elements.push(Arc::clone(element));
        Ok(())
    };
    match collection {
        Collection::List(list) => list.range(taken).try_for_each(&mut add)?,
        Collection::SortedSet(set) => set.range(taken).try_for_each(|(member, _)| add(member))?,
        Collection::Set(members) => members.iter().try_for_each(&mut add)?,
        Collection::Hash(_) | Collection::SharedLock(_) => return Err(ErrorReply::WRONG_TYPE),
    }
    if is_in_order {
        if options.is_descending {
            elements.reverse();
        }
        let all = 0..elements.len();
        return Ok((elements, all));
    }
    Ok((elements, range))
}

fn sorted(
    context: &mut CommandContext<'_>,
    elements: Elements,
    options: &SortOptions<'_>,
    work: &mut SortWork,
) -> Result<Elements, ErrorReply> {
    let mut weighed = Vec::with_capacity(elements.len());
    let mut is_all_numbers = true;
    for element in elements {
        let weight = match options.by {
            None => Some(Arc::clone(&element)),
            Some(pattern) => pattern.value(context, &element, work)?,
        };
        let weight = match (options.is_text, weight) {
            (true, weight) => Weight::Text(weight),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => {
                let number = number(&text);
                is_all_numbers &= number.is_some();
                Weight::Number(number.unwrap_or_default())
            }
        };
        weighed.push((weight, element));
    }
    if !is_all_numbers {
        return Err(NOT_NUMBERS);
    }
    weighed.sort_by(|(one, element), (two, other)| {
        let order = match (one, two) {
            (Weight::Number(one), Weight::Number(two)) => {
                // Neither of them is no number.
                let order = one.partial_cmp(two).unwrap_or(Ordering::Equal);
                order.then_with(|| element.cmp(other))
            }
            (Weight::Text(one), Weight::Text(two)) => one.cmp(two),
            // All are of one kind.
            _ => Ordering::Equal,
        };
        match options.is_descending {
            true => order.reverse(),
            false => order,
        }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// What an element is sorted by.
enum Weight {
    Number(f64),
    /// An element without one comes before all others.
    Text(Option<Arc<[u8]>>),
}

/// A number as C reads it: spaces may come before it, a zero byte ends it, and nothing is 0.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let digits = &text[start..];
    let number = parse_double(digits)?;
    let is_beyond = number.is_infinite() && digits.iter().any(u8::is_ascii_digit);
    let mut mantissa = digits
        .iter()
        .take_while(|byte| !matches!(byte, b'e' | b'E' | b'p' | b'P'));
    let is_beneath = number.abs() < f64::MIN_POSITIVE
        && mantissa.any(|byte| byte.is_ascii_digit() && *byte != b'0');
    (!is_beyond && !is_beneath).then_some(number)
}

/// What a command returns of an element: the element, or what each GET names.
fn outputs(
    context: &mut CommandContext<'_>,
    elements: &[Arc<[u8]>],
    gets: &[Pattern<'_>],
    work: &mut SortWork,
    mut add: impl FnMut(&mut CommandContext<'_>, Option<Arc<[u8]>>) -> Result<(), ErrorReply>,
) -> Result<(), ErrorReply> {
    for element in elements {
        if gets.is_empty() {
            add(context, Some(Arc::clone(element)))?;
        }
        for get in gets {
            let value = get.value(context, element, work)?;
            add(context, value)?;
        }
    }
    Ok(())
}

fn answer(
    context: &mut CommandContext<'_>,
    elements: &[Arc<[u8]>],
    gets: &[Pattern<'_>],
    work: &mut SortWork,
) -> Result<Reply, ErrorReply> {
    let mut replies = Vec::new();
    outputs(context, elements, gets, work, |context, value| {
        context
            .effects
            .charge(value.as_ref().map_or(0, |value| value.len()))?;
        replies.push(value.map_or(Reply::Nil, |value| Reply::value(&value)));
        Ok(())
    })?;
    Ok(Reply::Array(replies))
}

fn store(
    context: &mut CommandContext<'_>,
    elements: &[Arc<[u8]>],
    gets: &[Pattern<'_>],
    key: &[u8],
    work: &mut SortWork,
) -> Result<Reply, ErrorReply> {
    let mut list = List::default();
    outputs(context, elements, gets, work, |context, value| {
        list.push(End::Right, value.unwrap_or_default());
        context.admit_collection(list.bytes())?;
        context.admit_bytes(list.bytes())
    })?;
    if context.is_anybody_told() {
        context.tell_if_expired(key);
    }
    context.store_result(key, list, (Class::List, "sortstore"))
}

/// What one command looks at: about a fifth of a second of work.
const ELEMENTS_MAX: usize = 1 << 19;
const BYTES_MAX: usize = 32 << 20;

const NOT_NUMBERS: ErrorReply =
    ErrorReply::fixed("ERR One or more scores can't be converted into double");
