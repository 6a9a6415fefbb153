//! Durations as people write them: `30s`, `500ms`, `1.5` (seconds), `2m`, `1h`.
//!
//! Parsing is exact (no floating point) and checked; anything else is an error that shows the
//! accepted forms. Negative and endless durations do not exist here.

use std::time::Duration;

/// Reads a duration. A bare number means seconds; fractions down to a nanosecond are kept.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write 30s, 500ms, 1.5 (seconds) or 2m");
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit_ns: u64 = match unit {
        "" | "s" => NANOS_PER_SECOND,
        "ms" => 1_000_000,
        "us" => 1_000,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_empty = whole.is_empty() && fraction.is_empty();
    if is_empty || !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(wrong());
    }
    if number.ends_with('.') {
        return Err(wrong());
    }
    let too_long = || format!("'{text}' is too long a time; the longest is 365 days");
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| too_long())?
    };
    let mut nanos = u128::from(whole) * u128::from(unit_ns);
    let mut place = u128::from(unit_ns);
    for digit in fraction.bytes() {
        place /= 10;
        nanos += place * u128::from(digit - b'0');
    }
    let nanos = u64::try_from(nanos).map_err(|_| too_long())?;
    let duration = Duration::from_nanos(nanos);
    if duration > LONGEST {
        Err(too_long())
    } else {
        Ok(duration)
    }
}

/// A lock's time to live: a duration of at least a millisecond.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration < Duration::from_millis(1) {
        return Err(format!("'{text}' is too short; a lock lives at least 1ms"));
    }
    Ok(duration)
}

/// What is left of a lease, in whole milliseconds: never more than is left.
pub(crate) fn whole_ms(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).expect("a lease lasts at most 365 days")
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const FRACTION_DIGITS_MAX: usize = 9;
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_the_manual_shows() {
        let cases = [
            ("30s", 30_000),
            ("500ms", 500),
            ("1.5", 1_500),
            ("2m", 120_000),
            ("0", 0),
            ("0.25s", 250),
            (".5", 500),
            ("1h", 3_600_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.000000001"), Ok(Duration::from_nanos(1)));
        assert_eq!(parse("8760h"), Ok(LONGEST));
    }

    #[test]
    fn refuses_everything_else() {
        let cases = [
            "",
            " ",
            "s",
            ".",
            "5.",
            "-1",
            "-1s",
            "+1",
            "1 s",
            "1s ",
            "1e3",
            "1.2.3",
            "inf",
            "NaN",
            "1d",
            "1S",
            "0x10",
            "8761h",
            "99999999999999999999",
            "18446744073709551615h",
            "0.0000000001",
            "1ms2",
        ];
        for text in cases {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_ttl_has_a_lower_bound() {
        assert!(parse_ttl("0").is_err());
        assert!(parse_ttl("0.9ms").is_err());
        assert_eq!(parse_ttl("1ms"), Ok(Duration::from_millis(1)));
    }
}
