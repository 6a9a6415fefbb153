//! Walking over keys: KEYS and SCAN.
//!
//! SCAN goes over the slots of a database from the last to the first, and its cursor is how many of them are left. A
//! key that moves gets a slot nearer to the first, so a key that is there from the first call to the last
//! is always returned. Where the database shrinks meanwhile it may be returned more than once, as in Redis. A cursor is
//! anybody's number: where there are fewer slots, the scan goes on with the last one.

use crate::command::about::Categories;
use crate::command::arguments::{integer, is_option};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::glob::{GlobBudget, PATTERN_BYTES_MAX, PATTERN_TOO_EXPENSIVE, PATTERN_TOO_LONG};
use crate::keyspace::entry::{Entry, Slot};
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&KEYS, &SCAN];

const KEYS: Spec = Spec::on_keys("keys", 2, keys)
    .flags(Flags::READ_KEYS.with(Flags::DANGEROUS))
    .about(Categories::KEYSPACE.with(Categories::DANGEROUS), &[]);

fn keys(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let mut filter = ScanFilter::of_names(arguments[1])?;
    context.reveal_all();
    let mut found = Vec::new();
    for (_, entry) in context.keyspace.entries(Some(context.caller.database)) {
        if filter.admits(context, entry)? {
            context.effects.charge(entry.key().len())?;
            found.push(Reply::bulk(entry.key()));
        }
    }
    Ok(Reply::Array(found))
}

const SCAN: Spec = Spec::on_keys("scan", -2, scan)
    .flags(Flags::READ_KEYS)
    .about(Categories::KEYSPACE, &[]);

fn scan(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let start = cursor(arguments[1])?;
    let ScanOptions { mut filter, count } = ScanOptions::parse(&arguments[2..], true)?;
    context.reveal_all();
    let mut found = Vec::new();
    let left = page_of_slots(context, start, count, |context, slot| {
        let entry = context.keyspace.entry(slot);
        if filter.admits(context, entry)? {
            context.effects.charge(entry.key().len())?;
            found.push(Reply::bulk(entry.key()));
        }
        Ok(())
    })?;
    let cursor = Reply::bulk(itoa::Buffer::new().format(left));
    Ok(Reply::Array(vec![cursor, Reply::Array(found)]))
}

/// Looks at the keys of one page, at most `count`, from a cursor on; returns the next cursor.
pub(super) fn page_of_slots<'e>(
    context: &mut CommandContext<'e>,
    start: u64,
    count: u64,
    mut look: impl FnMut(&mut CommandContext<'e>, Slot) -> Result<(), ErrorReply>,
) -> Result<u32, ErrorReply> {
    let number = context.keyspace.number_in_entries(context.caller.database);
    let slots = context.keyspace.slots(number);
    let mut left = match u32::try_from(start) {
        Ok(0) | Err(_) => slots,
        Ok(left) => left.min(slots),
    };
    // A free slot costs little, but something: a page looks at a bounded number of slots.
    let last = u64::from(left).saturating_sub(count.saturating_mul(SLOTS_PER_KEY));
    let mut seen = 0_u64;
    while u64::from(left) > last && seen < count {
        left = left.saturating_sub(1);
        let slot = context.keyspace.slot_at(number, left);
        if is_visible(context, context.keyspace.entry(slot)) {
            seen = seen.saturating_add(1);
            look(context, slot)?;
        }
    }
    Ok(left)
}

/// Read as C reads it, and so Redis: nothing is 0, a sign `+` may come first, and a zero byte ends it.
pub(super) fn cursor(argument: &[u8]) -> Result<u64, ErrorReply> {
    let text = argument.split(|&byte| byte == 0).next();
    let text = text.unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    // Rust reads the sign as well.
    let text = std::str::from_utf8(text).ok();
    text.and_then(|digits| digits.parse().ok())
        .ok_or(ErrorReply::fixed("ERR invalid cursor"))
}

/// Whether an entry is a key of the caller's database now.
pub(super) fn is_visible(context: &CommandContext<'_>, entry: &Entry) -> bool {
    !entry.is_vacant()
        && context.keyspace.is_in(entry, context.caller.database)
        && entry.is_live(context.now.node)
}

fn pattern(given: &[u8]) -> Result<&[u8], ErrorReply> {
    match given.len() <= PATTERN_BYTES_MAX {
        true => Ok(given),
        false => Err(PATTERN_TOO_LONG),
    }
}

/// Which keys are wanted, or which parts of a collection.
#[derive(Default)]
pub(super) struct ScanFilter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    budget: GlobBudget,
}

impl<'a> ScanFilter<'a> {
    /// Keys of any type whose names match a pattern.
    pub(super) fn of_names(given: &'a [u8]) -> Result<ScanFilter<'a>, ErrorReply> {
        Ok(ScanFilter {
            pattern: Some(pattern(given)?),
            ..ScanFilter::default()
        })
    }

    fn admits(&mut self, context: &CommandContext<'_>, entry: &Entry) -> Result<bool, ErrorReply> {
        if !is_visible(context, entry) {
            return Ok(false);
        }
        let value = entry.value().type_name();
        if self.type_name.is_some_and(|name| !is_option(name, value)) {
            return Ok(false);
        }
        self.admits_name(entry.key())
    }

    pub(super) fn admits_name(&mut self, name: &[u8]) -> Result<bool, ErrorReply> {
        match self.pattern {
            None | Some(b"*") => Ok(true),
            Some(pattern) => {
                let is_match = self.budget.matches(pattern, name);
                is_match.map_err(|_| PATTERN_TOO_EXPENSIVE)
            }
        }
    }
}

/// The options of SCAN, HSCAN and their like.
pub(super) struct ScanOptions<'a> {
    pub(super) filter: ScanFilter<'a>,
    /// How many keys or parts a page looks at.
    pub(super) count: u64,
}

impl<'a> ScanOptions<'a> {
    /// The options of HSCAN and its like: parts have no types.
    pub(super) fn of_parts(arguments: &[&'a [u8]]) -> Result<ScanOptions<'a>, ErrorReply> {
        ScanOptions::parse(arguments, false)
    }

    fn parse(arguments: &[&'a [u8]], may_have_type: bool) -> Result<ScanOptions<'a>, ErrorReply> {
        let (mut filter, mut count) = (ScanFilter::default(), COUNT_DEFAULT);
        for pair in arguments.chunks(2) {
            let &[name, value] = pair else {
                return Err(ErrorReply::SYNTAX);
            };
            if is_option(name, "match") {
                filter.pattern = Some(pattern(value)?);
            } else if may_have_type && is_option(name, "type") {
                filter.type_name = Some(value);
            } else if is_option(name, "count") {
                count = match u64::try_from(integer(value)?) {
                    Err(_) | Ok(0) => return Err(ErrorReply::SYNTAX),
                    Ok(number) => number,
                };
            } else {
                return Err(ErrorReply::SYNTAX);
            }
        }
        Ok(ScanOptions { filter, count })
    }
}

const COUNT_DEFAULT: u64 = 10;
const SLOTS_PER_KEY: u64 = 16;
