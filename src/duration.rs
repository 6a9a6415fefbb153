//! Durations as people write them: `30s`, `500ms`, `1.5s`, `2m`, `1m30s`, `1h`, `7d`.
//!
//! Parsing is exact (no floating point) and checked; anything else is an error that shows the
//! accepted forms. Negative and endless durations do not exist here.

use std::time::Duration;

/// Reads a duration: parts of falling units. A bare number is refused, because directives of a node
/// read one as milliseconds and other tools as seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(format!("a duration is missing; write {FORMS}"));
    }
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if let Some(after) = text.strip_prefix('-') {
        return Err(
            if after.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                format!("'{text}' is negative; a duration is not: write {FORMS}")
            } else {
                format!("'{text}' stands where a duration belongs; write {FORMS}")
            },
        );
    }
    let wrong = || format!("'{text}' is not a duration; write {FORMS}");
    let too_long = || format!("'{text}' is too long a time; the longest is 365d");
    if text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(format!("'{text}' has no unit; write {FORMS}"));
    }
    let mut rest = text;
    let mut total: u128 = 0;
    let mut larger_ns = u64::MAX;
    while !rest.is_empty() {
        let unit_at = rest
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(unit_at);
        let unit_end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let unit_ns = unit_nanos(unit).ok_or_else(wrong)?;
        // 1m2h is a slip, and a fraction is for the last part only.
        if unit_ns >= larger_ns || (number.contains('.') && !next.is_empty()) {
            return Err(wrong());
        }
        larger_ns = unit_ns;
        total += part_nanos(number, unit_ns).ok_or_else(wrong)?;
        rest = next;
        if total > LONGEST.as_nanos() {
            return Err(too_long());
        }
    }
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| too_long())
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        "d" => 24 * 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// A decimal number of a unit. A number too large to count counts as the largest.
fn part_nanos(number: &str, unit_ns: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut = number.is_empty() || number.ends_with('.');
    if is_cut || !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let whole: u64 = match whole {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    let billionths: u64 = format!("{fraction:0<FRACTION_DIGITS_MAX$}").parse().ok()?;
    let unit_ns = u128::from(unit_ns);
    Some(u128::from(whole) * unit_ns + u128::from(billionths) * unit_ns / 1_000_000_000)
}

/// A lock's time to live: a duration of at least a millisecond.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration < Duration::from_millis(1) {
        return Err(format!("'{text}' is too short; a lock lives at least 1ms"));
    }
    Ok(duration)
}

/// A lease's or a delay's length in whole milliseconds: never more than it is.
pub(crate) fn whole_ms(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).expect("neither is longer than 365 days")
}

const FORMS: &str = "30s, 500ms, 1.5s, 1m30s, 2h or 1d";
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
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("0", 0),
            ("0.25s", 250),
            (".5s", 500),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("365d", 31_536_000_000),
            ("1m30s", 90_000),
            ("1h0m0.5s", 3_600_500),
            ("1s500ms", 1_500),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.000000001s"), Ok(Duration::from_nanos(1)));
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
            "5.s",
            "5",
            "1.5",
            "00",
            "-1",
            "-1s",
            "+1",
            "1 s",
            "1s ",
            "1e3",
            "1.2.3",
            "1.2.3s",
            "inf",
            "NaN",
            "1S",
            "366d",
            "364d24h1ms",
            "1m30",
            "30s1m",
            "1m1m",
            "1.5m30s",
            "1m 30s",
            "1w",
            "-",
            "--wait",
            "0x10",
            "8761h",
            "99999999999999999999",
            "18446744073709551615h",
            "0.0000000001s",
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
