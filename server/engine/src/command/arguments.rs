//! Arguments that are numbers or times, read as strictly as Redis reads them.

use std::time::Duration;

use crate::effects::WaitLimit;
use crate::error::ErrorReply;
use crate::extended::{ExtendedNumber, ParsedNumber};
use crate::number::{parse_integer, truncated};
use crate::time::{Deadline, Moment};

/// Whether an argument is this option, in upper or lower case. `name` is in lower case.
#[inline]
pub(crate) fn is_option(argument: &[u8], name: &str) -> bool {
    debug_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()));
    // All bytes are looked at: a comparison that ends early becomes a loop, this one a few instructions.
    let differing = |sum, (byte, of_name): (&u8, u8)| sum | (byte.to_ascii_lowercase() ^ of_name);
    argument.len() == name.len() && argument.iter().zip(name.bytes()).fold(0, differing) == 0
}

/// A number of 64 bits, or the error every command answers instead.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, ErrorReply> {
    parse_integer(argument).ok_or(ErrorReply::NOT_AN_INTEGER)
}

/// How many: a number of 64 bits that is not negative.
pub(crate) fn positive(argument: &[u8]) -> Result<usize, ErrorReply> {
    let number = parse_integer(argument).and_then(|number| usize::try_from(number).ok());
    number.ok_or(ErrorReply::fixed(
        "ERR value is out of range, must be positive",
    ))
}

/// How many, and at least one, or the error.
pub(crate) fn positive_number(argument: &[u8], error: &'static str) -> Result<usize, ErrorReply> {
    let number = parse_integer(argument).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|&number| number > 0);
    number.ok_or(ErrorReply::fixed(error))
}

/// A count of things in memory. More than can be addressed is as good as all there are.
pub(crate) fn saturated_count(count: u64) -> usize {
    match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => usize::MAX,
    }
}

/// How long a client waits at most, in seconds with a fraction; 0 is without end. Rounded up to
/// milliseconds, as Redis does.
pub(crate) fn wait_limit(argument: &[u8]) -> Result<WaitLimit, ErrorReply> {
    let seconds = match ExtendedNumber::parse(argument) {
        None => return Err(TIMEOUT_NOT_A_FLOAT),
        Some(ParsedNumber::Infinite) if argument.starts_with(b"-") => f64::NEG_INFINITY,
        Some(ParsedNumber::Infinite) => f64::INFINITY,
        Some(ParsedNumber::Finite(seconds)) => seconds.to_double(),
    };
    let ms = (seconds * 1000.0).ceil();
    if ms >= 2_f64.powi(63) {
        return Err(TIMEOUT_OUT_OF_RANGE);
    }
    match u64::try_from(truncated(ms)) {
        Err(_) => Err(ErrorReply::fixed("ERR timeout is negative")),
        Ok(0) => Ok(WaitLimit(None)),
        Ok(ms) => Ok(WaitLimit(Some(Duration::from_millis(ms)))),
    }
}

/// How a time is written in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeForm {
    /// Milliseconds in the unit.
    unit_ms: i64,
    /// Since the epoch, by the wall clock, and not from now on.
    is_absolute: bool,
}

impl TimeForm {
    pub(crate) const SECONDS: TimeForm = TimeForm {
        unit_ms: 1000,
        is_absolute: false,
    };
    pub(crate) const MILLISECONDS: TimeForm = TimeForm {
        unit_ms: 1,
        is_absolute: false,
    };
    pub(crate) const UNIX_SECONDS: TimeForm = TimeForm {
        unit_ms: 1000,
        is_absolute: true,
    };
    pub(crate) const UNIX_MILLISECONDS: TimeForm = TimeForm {
        unit_ms: 1,
        is_absolute: true,
    };

    /// The deadline that `count` units mean now. `Ok(None)` if that is not in the future,
    /// `Err(OutOfRange)` where Redis refuses it: if 64 bits cannot hold it in Unix milliseconds.
    pub(crate) fn deadline(self, count: i64, now: Moment) -> Result<Option<Deadline>, OutOfRange> {
        let ms = count.checked_mul(self.unit_ms).ok_or(OutOfRange)?;
        let Ok(unsigned_ms) = u64::try_from(ms) else {
            return Ok(None);
        };
        let asked_us = u128::from(unsigned_ms).saturating_mul(1000);
        let left_us = if self.is_absolute {
            // The wall clock is cut to a microsecond, so that this rounds up.
            asked_us.saturating_sub(u128::from(now.wall_us))
        } else {
            ms.checked_add_unsigned(now.wall_us / 1000)
                .ok_or(OutOfRange)?;
            asked_us
        };
        let nanos = left_us.saturating_mul(1000);
        let end = nanos.saturating_add(u128::from(now.node.as_nanos()));
        Ok((nanos > 0).then(|| Deadline::at_nanos(end)))
    }
}

/// A time too far away to be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

const TIMEOUT_OUT_OF_RANGE: ErrorReply = ErrorReply::fixed("ERR timeout is out of range");
const TIMEOUT_NOT_A_FLOAT: ErrorReply =
    ErrorReply::fixed("ERR timeout is not a float or out of range");
