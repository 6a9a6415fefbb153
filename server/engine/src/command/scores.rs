//! Scores and the bounds of ranges of sorted sets, read as Redis reads them: with C's `strtod`.

use std::ops::Range;

use crate::command::arguments::integer;
use crate::double::parse_double;
use crate::error::ErrorReply;
use crate::keyspace::sorted_set::SortedSet;

/// A score or an increment: any number, and both infinities.
pub(super) fn score(argument: &[u8]) -> Result<f64, ErrorReply> {
    parse_score(argument).ok_or(ErrorReply::fixed("ERR value is not a valid float"))
}

/// What an input's scores are multiplied with.
pub(super) fn weight(argument: &[u8]) -> Result<f64, ErrorReply> {
    parse_score(argument).ok_or(ErrorReply::fixed("ERR weight value is not a float"))
}

/// A number that is written as such: one too large is no infinity, and one too small no zero.
fn parse_score(text: &[u8]) -> Option<f64> {
    let number = parse_double(text)?;
    let is_out_of_range = if number == 0.0 {
        is_written_nonzero(text)
    } else {
        number.is_infinite() && text.iter().any(u8::is_ascii_digit)
    };
    (!is_out_of_range).then_some(number)
}

/// Whether there is another digit than 0 before the exponent.
fn is_written_nonzero(text: &[u8]) -> bool {
    let is_hexadecimal = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    let mark = if is_hexadecimal { b'p' } else { b'e' };
    let is_mark = |byte: &u8| byte.eq_ignore_ascii_case(&mark);
    let digits = text.split(is_mark).next().unwrap_or_default();
    digits
        .iter()
        .any(|byte| byte.is_ascii_hexdigit() && *byte != b'0')
}

/// Which members a command is about. Every such range is one of ranks.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberRange<'a> {
    /// From this rank to that one, both included; negative ones count from the end.
    Ranks(i64, i64),
    /// From this score to that one.
    Scores(ScoreBound, ScoreBound),
    /// From this member to that one, where all have the same score.
    Members(MemberBound<'a>, MemberBound<'a>),
}

/// What the bounds of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeKind {
    Ranks,
    Scores,
    Members,
}

/// One end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreBound {
    score: f64,
    is_exclusive: bool,
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberBound<'a> {
    Lowest,
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> MemberRange<'a> {
    /// Reads both bounds, the lower one first.
    pub(super) fn parse(
        kind: RangeKind,
        low: &'a [u8],
        high: &'a [u8],
    ) -> Result<MemberRange<'a>, ErrorReply> {
        match kind {
            RangeKind::Ranks => Ok(MemberRange::Ranks(integer(low)?, integer(high)?)),
            RangeKind::Scores => ScoreBound::parse(low)
                .zip(ScoreBound::parse(high))
                .map(|(low, high)| MemberRange::Scores(low, high))
                .ok_or(ErrorReply::fixed("ERR min or max is not a float")),
            RangeKind::Members => MemberBound::parse(low)
                .zip(MemberBound::parse(high))
                .map(|(low, high)| MemberRange::Members(low, high))
                .ok_or(ErrorReply::fixed(
                    "ERR min or max not valid string range item",
                )),
        }
    }

    /// The ranks of a set's members within the range. `is_reverse`: ranks count from the other end.
    pub(super) fn ranks(&self, set: &SortedSet, is_reverse: bool) -> Range<usize> {
        let (start, end) = match *self {
            MemberRange::Ranks(from, to) => {
                let ranks = ranks_between(from, to, set.len());
                return match is_reverse {
                    false => ranks,
                    true => {
                        let length = set.len();
                        length.saturating_sub(ranks.end)..length.saturating_sub(ranks.start)
                    }
                };
            }
            MemberRange::Scores(low, high) => (
                set.count_before(|_, score| low.is_above(score)),
                set.count_before(|_, score| !high.is_below(score)),
            ),
            MemberRange::Members(low, high) => (
                set.count_before(|member, _| low.is_above(member)),
                set.count_before(|member, _| !high.is_below(member)),
            ),
        };
        start..end.max(start)
    }
}

/// As in Redis: what is before the first rank begins with it, what is behind the last ends with it.
fn ranks_between(from: i64, to: i64, length: usize) -> Range<usize> {
    let count = i64::try_from(length).expect("it counts members in memory");
    let counted = |rank: i64| match rank {
        0.. => rank,
        _ => rank.saturating_add(count),
    };
    let cut = |rank: i64| {
        usize::try_from(rank.clamp(0, count)).expect("it is between 0 and a count of members")
    };
    let (start, end) = (cut(counted(from)), cut(counted(to).saturating_add(1)));
    start..end.max(start)
}

impl ScoreBound {
    /// `(` excludes the score itself. What follows a zero byte does not count, and nothing is 0.
    fn parse(text: &[u8]) -> Option<ScoreBound> {
        let (is_exclusive, text) = match text {
            [b'(', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let spaces = text.iter().take_while(|byte| is_space(byte)).count();
        let score = match text.is_empty() {
            true => 0.0,
            false => parse_double(&text[spaces..])?,
        };
        Some(ScoreBound {
            score,
            is_exclusive,
        })
    }

    /// Whether a score is below this lower bound.
    fn is_above(self, score: f64) -> bool {
        score < self.score || (self.is_exclusive && score == self.score)
    }

    /// Whether a score is above this upper bound.
    fn is_below(self, score: f64) -> bool {
        score > self.score || (self.is_exclusive && score == self.score)
    }
}

impl<'a> MemberBound<'a> {
    fn parse(text: &'a [u8]) -> Option<MemberBound<'a>> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(MemberBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Some(MemberBound::Highest),
            [b'[', member @ ..] => Some(MemberBound::Included(member)),
            [b'(', member @ ..] => Some(MemberBound::Excluded(member)),
            _ => None,
        }
    }

    /// Whether a member is below this lower bound.
    fn is_above(self, member: &[u8]) -> bool {
        match self {
            MemberBound::Lowest => false,
            MemberBound::Highest => true,
            MemberBound::Included(bound) => member < bound,
            MemberBound::Excluded(bound) => member <= bound,
        }
    }

    /// Whether a member is above this upper bound.
    fn is_below(self, member: &[u8]) -> bool {
        match self {
            MemberBound::Lowest => true,
            MemberBound::Highest => false,
            MemberBound::Included(bound) => member > bound,
            MemberBound::Excluded(bound) => member >= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_any_number_that_a_double_can_hold() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("+.5", Some(0.5)),
            ("-0", Some(0.0)),
            ("0e400", Some(0.0)),
            ("-Inf", Some(f64::NEG_INFINITY)),
            ("infinity", Some(f64::INFINITY)),
            ("0x1p-2", Some(0.25)),
            ("0x.0p9999", Some(0.0)),
            ("1e400", None),
            ("1e-400", None),
            ("0x1p1024", None),
            ("0x1p-2000", None),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1\0", None),
            ("1e", None),
            ("0x", None),
        ] {
            assert_eq!(score(text.as_bytes()).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_bound_may_be_empty_too_large_or_behind_spaces() {
        for (text, expected) in [
            ("", Some((0.0, false))),
            ("(", Some((0.0, true))),
            (" \t5", Some((5.0, false))),
            ("( 5", Some((5.0, true))),
            ("5\0x", Some((5.0, false))),
            ("1e400", Some((f64::INFINITY, false))),
            (" ", None),
            ("5 ", None),
            ("((5", None),
            ("nan", None),
        ] {
            let bound = ScoreBound::parse(text.as_bytes());
            let parts = bound.map(|bound| (bound.score, bound.is_exclusive));
            assert_eq!(parts, expected, "{text:?}");
        }
    }

    #[test]
    fn ranks_are_cut_to_those_there_are() {
        for (from, to, expected) in [
            (0, -1, 0..5),
            (-3, -2, 2..4),
            (-100, 100, 0..5),
            (3, 1, 3..3),
            (5, 9, 5..5),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MIN, 5..5),
        ] {
            assert_eq!(ranks_between(from, to, 5), expected, "{from} {to}");
        }
    }
}
