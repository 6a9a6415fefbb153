//! What two strings have in common: LCS, their longest common subsequence.
//!
//! The work grows with the product of the two lengths, and the memory as well, so the product is bounded.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option, saturated_count};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&LCS];

const LCS: Spec = Spec::on_keys("lcs", -3, lcs)
    .keys(KeyPositions::TWO)
    .flags(Flags::READ_KEYS)
    .about(Categories::STRING, &[KeyAccess::READ]);

/// In Redis's order: the keys come before the options.
fn lcs(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = [context.lookup(arguments[1]), context.lookup(arguments[2])];
    let [one, two] = &found;
    let (Ok(one), Ok(two)) = (context.string(one), context.string(two)) else {
        return Err(ErrorReply::fixed(
            "ERR The specified keys must contain string values",
        ));
    };
    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
    let options = SubsequenceOptions::parse(&arguments[3..])?;
    let cells = one.len().saturating_add(1);
    if cells.saturating_mul(two.len().saturating_add(1)) > CELLS_MAX {
        return Err(ErrorReply::new(format!(
            "ERR the lengths of the two strings multiplied are more than {CELLS_MAX}, and everybody who wants a lock \
             would wait. Compute it in the client"
        )));
    }
    let lengths = Lengths::of(one, two);
    let length = lengths.whole();
    if options.is_length {
        return Ok(Reply::count(length));
    }
    let (common, matches) = lengths.walk_back(one, two);
    if !options.has_indexes {
        context.effects.charge(common.len())?;
        return Ok(Reply::Bulk(common));
    }
    let mut replies = Vec::new();
    for found in matches {
        if found.length >= options.least {
            (0..MATCH_ELEMENTS).try_for_each(|_| context.effects.charge(0))?;
            replies.push(found.reply(options.has_lengths));
        }
    }
    Ok(Reply::Map(vec![
        (Reply::bulk("matches"), Reply::Array(replies)),
        (Reply::bulk("len"), Reply::count(length)),
    ]))
}

#[derive(Default)]
struct SubsequenceOptions {
    is_length: bool,
    has_indexes: bool,
    has_lengths: bool,
    /// The shortest match that is shown.
    least: usize,
}

impl SubsequenceOptions {
    fn parse(mut rest: &[&[u8]]) -> Result<SubsequenceOptions, ErrorReply> {
        let mut options = SubsequenceOptions::default();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            match after {
                _ if is_option(word, "idx") => options.has_indexes = true,
                _ if is_option(word, "len") => options.is_length = true,
                _ if is_option(word, "withmatchlen") => options.has_lengths = true,
                [least, after @ ..] if is_option(word, "minmatchlen") => {
                    options.least = saturated_count(integer(least)?.max(0).cast_unsigned());
                    rest = after;
                }
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        if options.has_indexes && options.is_length {
            return Err(ErrorReply::fixed(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// For all beginnings of two strings the length of what they have in common.
struct Lengths {
    /// Row by row, one for each byte of the first string and one before it.
    cells: Vec<u16>,
    width: usize,
}

impl Lengths {
    /// The shorter of the strings has fewer bytes than 16 bits count: the product is bounded.
    fn of(one: &[u8], two: &[u8]) -> Lengths {
        let width = two.len().saturating_add(1);
        let height = one.len().saturating_add(1);
        let mut cells = vec![0_u16; width.saturating_mul(height)];
        let mut rows = cells.chunks_exact_mut(width);
        let mut above = rows.next().unwrap_or_default();
        for (byte, row) in one.iter().zip(rows) {
            let mut left = 0;
            let pairs = above.windows(2).zip(&mut row[1..]).zip(two);
            for ((diagonal_and_up, cell), other) in pairs {
                left = match byte == other {
                    true => diagonal_and_up[0].saturating_add(1),
                    false => diagonal_and_up[1].max(left),
                };
                *cell = left;
            }
            above = row;
        }
        Lengths { cells, width }
    }

    fn whole(&self) -> usize {
        self.cells.last().copied().unwrap_or_default().into()
    }

    fn at(&self, one: usize, two: usize) -> u16 {
        let cell = one.saturating_mul(self.width).saturating_add(two);
        self.cells.get(cell).copied().unwrap_or_default()
    }

    /// What the strings have in common, and where, from the last match to the first: as Redis finds it, of several
    /// that are equally long the same one.
    fn walk_back(&self, one: &[u8], two: &[u8]) -> (Vec<u8>, Vec<Match>) {
        let (mut i, mut j) = (one.len(), two.len());
        let (mut common, mut matches) = (Vec::with_capacity(self.whole()), Vec::new());
        let mut current: Option<Match> = None;
        while let (Some(before_i), Some(before_j)) = (i.checked_sub(1), j.checked_sub(1)) {
            if one[before_i] == two[before_j] {
                common.push(one[before_i]);
                let length = current.map_or(0, |current| current.length);
                current = Some(Match {
                    one: before_i,
                    two: before_j,
                    length: length.saturating_add(1),
                });
                (i, j) = (before_i, before_j);
                continue;
            }
            matches.extend(current.take());
            match self.at(before_i, j) > self.at(i, before_j) {
                true => i = before_i,
                false => j = before_j,
            }
        }
        matches.extend(current);
        common.reverse();
        (common, matches)
    }
}

/// The same bytes in both strings, one after the other.
#[derive(Clone, Copy)]
struct Match {
    /// Where they begin in each.
    one: usize,
    two: usize,
    length: usize,
}

impl Match {
    fn reply(self, has_length: bool) -> Reply {
        let range = |start: usize| {
            let end = start.saturating_add(self.length).saturating_sub(1);
            Reply::Array(vec![Reply::count(start), Reply::count(end)])
        };
        let mut parts = vec![range(self.one), range(self.two)];
        if has_length {
            parts.push(Reply::count(self.length));
        }
        Reply::Array(parts)
    }
}

/// The product of the lengths, each with one more: about a thirtieth of a second of work, and 32 MiB.
const CELLS_MAX: usize = 16 << 20;
/// What the reply has for each match: the match, two pairs, their four numbers, and a length.
const MATCH_ELEMENTS: usize = 8;
