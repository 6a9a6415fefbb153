//! Readers for single values. Each refusal names what is allowed, in Redis's words where it has some.

use std::time::Duration;

use quorlock_engine::lock_counts::LOCK_PATTERNS_MAX;
use quorlock_engine::notifications::Events;

use super::error::Problem;
use super::suggest::closest;

/// The only value of a directive that takes one.
pub(super) fn one(values: &[String]) -> Result<&str, Problem> {
    match values {
        [value] => Ok(value),
        _ => Err(Problem::wrong_number_of_arguments()),
    }
}

/// A port, 0 for any free one, or none at all.
pub(super) fn port_or_off(text: &str) -> Result<Option<u16>, Problem> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let port = text.parse().map(Some);
    port.map_err(|_| Problem::new("argument must be off, or 0 to 65535"))
}

/// An integer within bounds, both included.
pub(super) fn integer<T>(text: &str, min: T, max: T) -> Result<T, Problem>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    let value: i64 = text
        .parse()
        .map_err(|_| Problem::new("argument couldn't be parsed into an integer"))?;
    match T::try_from(value) {
        Ok(value) if value >= min && value <= max => Ok(value),
        _ => Err(out_of_bounds(min, max)),
    }
}

/// Events of keys, in Redis's letters.
pub(super) fn events(letters: &str) -> Result<Events, Problem> {
    let problem = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
    Events::parse(letters).ok_or_else(|| Problem::new(problem))
}

/// Patterns of the names of locks. They are the values of a label, so each byte is one that needs no quoting there.
pub(super) fn lock_patterns(values: &[String]) -> Result<Vec<String>, Problem> {
    let patterns = match values {
        [none] if none.is_empty() => &[],
        patterns => patterns,
    };
    if patterns.len() > LOCK_PATTERNS_MAX {
        return Err(Problem::new(format!(
            "at most {LOCK_PATTERNS_MAX} patterns: each is a set of series of its own"
        )));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"*?:./{}_-".contains(&byte);
    for (index, pattern) in patterns.iter().enumerate() {
        if !(1..=64).contains(&pattern.len()) || !pattern.bytes().all(is_allowed) {
            return Err(Problem::new(format!(
                "'{}' must be a pattern of 1 to 64 letters, digits and *?:./{{}}_-",
                pattern.escape_debug()
            )));
        }
        if patterns[..index].contains(pattern) {
            return Err(Problem::new(format!("'{pattern}' is listed twice")));
        }
    }
    Ok(patterns.to_vec())
}

/// Permissions, written in octal.
pub(super) fn octal(text: &str) -> Result<u32, Problem> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or_else(|| Problem::new("argument must be an octal number from 0 to 777".to_owned()))
}

/// `yes` or `no`.
pub(super) fn yes_or_no(text: &str) -> Result<bool, Problem> {
    if text.eq_ignore_ascii_case("yes") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("no") {
        Ok(false)
    } else {
        Err(Problem::new("argument must be 'yes' or 'no'"))
    }
}

/// How `yes_or_no` is shown.
pub(super) fn show_yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// One of a list of names.
pub(super) fn one_of<T: Copy>(names: &[(&'static str, T)], text: &str) -> Result<T, Problem> {
    match names
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
    {
        Some((_, value)) => Ok(*value),
        None => {
            let allowed: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let reason = format!(
                "argument(s) must be one of the following: {}",
                allowed.join(", ")
            );
            Err(Problem::new(reason).with_suggestion(closest(text, allowed)))
        }
    }
}

/// How `one_of` is shown. Empty for a value that has no name.
pub(super) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names
        .iter()
        .find(|(_, named)| named == value)
        .map_or("", |(name, _)| name)
}

/// A number of bytes within bounds: `1mb` is 1024 * 1024, `1m` is 1000 * 1000, as in Redis.
pub(super) fn memory<T: TryFrom<u64>>(text: &str, min: u64, max: u64) -> Result<T, Problem> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" => Some(1_000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let bytes = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    match bytes {
        Some(bytes) if (min..=max).contains(&bytes) => {
            T::try_from(bytes).map_err(|_| Problem::new("argument is too large for this machine"))
        }
        Some(_) => Err(out_of_bounds(min, max)),
        None => Err(Problem::new(
            "argument must be a memory value, such as 65536, 64kb or 16mb",
        )),
    }
}

/// A time within bounds: milliseconds, or a number with `ms`, `s`, `m` or `h`, such as `1.5s`.
pub(super) fn duration(text: &str, min: Duration, max: Duration) -> Result<Duration, Problem> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit_ms = match unit.to_ascii_lowercase().as_str() {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let millionths = unit_ms
        .and_then(|unit_ms: u64| decimal_millionths(number)?.checked_mul(unit_ms))
        .filter(|millionths| millionths % 1_000_000 == 0);
    match millionths.map(|millionths| Duration::from_millis(millionths / 1_000_000)) {
        Some(duration) if duration >= min && duration <= max => Ok(duration),
        Some(_) => Err(Problem::new(format!(
            "argument must be between {} and {} milliseconds inclusive",
            min.as_millis(),
            max.as_millis()
        ))),
        None => Err(Problem::new(
            "argument must be a time: whole milliseconds, or a number with ms, s, m or h such as \
             500ms or 1.5s",
        )),
    }
}

/// A time as CONFIG GET shows it.
pub(super) fn show_milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// A percentage with at most four decimals within bounds, in millionths of the whole.
pub(super) fn percent_millionths(text: &str, min: u32, max: u32) -> Result<u32, Problem> {
    let problem = || {
        let percent = |millionths| show_percent(millionths);
        Problem::new(format!(
            "argument must be a percentage between {} and {} with at most four decimals",
            percent(min),
            percent(max)
        ))
    };
    let millionths = decimal_millionths(text).ok_or_else(problem)?;
    let of_the_whole = u32::try_from(millionths / 100).map_err(|_| problem())?;
    let is_exact = millionths % 100 == 0;
    if is_exact && of_the_whole >= min && of_the_whole <= max {
        Ok(of_the_whole)
    } else {
        Err(problem())
    }
}

/// How `percent_millionths` is shown: without superfluous decimals.
pub(super) fn show_percent(millionths: u32) -> String {
    let text = format!("{}.{:04}", millionths / 10_000, millionths % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Free text without control characters, at most `bytes_max` long.
pub(super) fn text(value: &str, bytes_max: usize) -> Result<String, Problem> {
    if value.len() > bytes_max {
        Err(Problem::new(format!(
            "argument must have at most {bytes_max} bytes"
        )))
    } else if value.chars().any(char::is_control) {
        Err(Problem::new("argument must not contain control characters"))
    } else {
        Ok(value.to_owned())
    }
}

/// A name that can stand in logs and error texts: letters, digits, dot, dash, underscore. Empty: none.
pub(super) fn label(value: &str) -> Result<Option<String>, Problem> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if value.len() > LABEL_BYTES_MAX || !value.chars().all(is_allowed) {
        return Err(Problem::new(format!(
            "argument must have at most {LABEL_BYTES_MAX} letters, digits, '.', '-' or '_'"
        )));
    }
    Ok((!value.is_empty()).then(|| value.to_owned()))
}

/// A decimal number without sign or exponent, in millionths. None when it has more than six decimals.
pub(super) fn decimal_millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || text.ends_with('.') || fraction.len() > 6 || !is_digits(fraction) {
        return None;
    }
    if !is_digits(whole) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<6}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(fraction)
}

fn out_of_bounds<T: std::fmt::Display>(min: T, max: T) -> Problem {
    Problem::new(format!(
        "argument must be between {min} and {max} inclusive"
    ))
}

const LABEL_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn time(text: &str) -> Result<u128, Problem> {
        duration(text, Duration::from_millis(1), Duration::from_secs(3600))
            .map(|duration| duration.as_millis())
    }

    #[test]
    fn times_are_milliseconds_or_carry_a_unit() {
        for (text, ms) in [
            ("1", 1),
            ("500", 500),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("0.001s", 1),
            ("60S", 60_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(time(text).unwrap(), ms, "{text}");
        }
        for text in [
            "",
            "0",
            "0ms",
            "-1",
            "+1",
            "1.",
            ".5s",
            "1.5",
            "0.0001s",
            "1 s",
            "s",
            "1d",
            "1e3",
            "3600001",
            "2h",
            "99999999999999999999",
            "18446744073709551615h",
            "1..2s",
            "1.1.1s",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_units_are_redis_s() {
        for (text, bytes) in [
            ("0", 0),
            ("64", 64),
            ("64b", 64),
            ("64k", 64_000),
            ("64kb", 65_536),
            ("64m", 64_000_000),
            ("64MB", 67_108_864),
            ("1g", 1_000_000_000),
            ("1Gb", 1_073_741_824),
        ] {
            assert_eq!(memory::<u64>(text, 0, u64::MAX).unwrap(), bytes, "{text}");
        }
        for text in [
            "",
            "-1",
            "mb",
            "1 mb",
            "1tb",
            "1.5mb",
            "99999999999999999999",
            "1mbb",
        ] {
            assert!(memory::<u64>(text, 0, u64::MAX).is_err(), "{text}");
        }
        assert!(memory::<u64>("18446744073709551615gb", 0, u64::MAX).is_err());
        assert!(memory::<u64>("9", 10, 20).is_err());
        assert!(memory::<u64>("21", 10, 20).is_err());
    }

    #[test]
    fn percentages_are_exact() {
        for (text, millionths, shown) in [
            ("1", 10_000, "1"),
            ("0.5", 5_000, "0.5"),
            ("0.0001", 1, "0.0001"),
            ("10.00", 100_000, "10"),
        ] {
            assert_eq!(percent_millionths(text, 1, 100_000).unwrap(), millionths);
            assert_eq!(show_percent(millionths), shown);
        }
        for text in [
            "", "0", "-1", "1%", "0.00005", "10.0001", "nan", "inf", "1e1",
        ] {
            assert!(percent_millionths(text, 1, 100_000).is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_name_what_is_allowed() {
        let text = |problem: Problem| problem.to_string();
        assert_eq!(
            text(integer("65536", 0_u16, 65_535).unwrap_err()),
            "argument must be between 0 and 65535 inclusive"
        );
        assert_eq!(
            text(integer("x", 0_u16, 65_535).unwrap_err()),
            "argument couldn't be parsed into an integer"
        );
        assert_eq!(
            text(one_of(&[("everysec", 1), ("always", 2), ("no", 3)], "alwys").unwrap_err()),
            "argument(s) must be one of the following: everysec, always, no. Did you mean 'always'?"
        );
        assert_eq!(
            text(yes_or_no("maybe").unwrap_err()),
            "argument must be 'yes' or 'no'"
        );
        assert!(super::text("a\nb", 10).is_err());
        assert!(label("a b").is_err());
        assert_eq!(label(""), Ok(None));
    }
}
