//! The names of the files of a log.
//!
//! Invariant: one number has one name that is given, and one that earlier versions gave; a name that is not exactly ours is
//! somebody else's file. The earlier suffix `.log` invited what clears away log files; a start gives such a segment its new
//! name.

/// What a name in the directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A segment: complete in size before it got this name.
    Segment(u64),
    /// A segment that was being made when the process ended.
    Unfinished(u64),
    /// The lock file.
    Lock,
    /// Not a file of the log.
    Foreign,
}

/// The name of segment `number`.
pub(crate) fn segment(number: u64) -> String {
    format!("{PREFIX}{number:010}{SEGMENT_SUFFIX}")
}

/// The name that earlier versions gave to segment `number`.
pub(crate) fn earlier(number: u64) -> String {
    format!("{PREFIX}{number:010}{EARLIER_SUFFIX}")
}

/// The name segment `number` has while it is being made.
pub(crate) fn unfinished(number: u64) -> String {
    format!("{PREFIX}{number:010}{UNFINISHED_SUFFIX}")
}

/// Whether a log has files of this name.
pub fn is_log_file(name: &str) -> bool {
    parse(name) != Name::Foreign
}

/// What `name` stands for.
pub(crate) fn parse(name: &str) -> Name {
    if name == LOCK {
        return Name::Lock;
    }
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return Name::Foreign;
    };
    let number = |suffix| {
        rest.strip_suffix(suffix)
            .and_then(|digits: &str| digits.parse().ok())
    };
    let is_exact =
        |number: u64, exact: fn(u64) -> String| is_possible(number) && exact(number) == name;
    let segment_number = number(SEGMENT_SUFFIX).or_else(|| number(EARLIER_SUFFIX));
    match (segment_number, number(UNFINISHED_SUFFIX)) {
        (Some(number), _) if is_exact(number, segment) || is_exact(number, earlier) => {
            Name::Segment(number)
        }
        (_, Some(number)) if is_exact(number, unfinished) => Name::Unfinished(number),
        _ => Name::Foreign,
    }
}

/// No node ever comes near the bound, so numbers can be counted up without a check.
fn is_possible(number: u64) -> bool {
    (1..=NUMBER_MAX).contains(&number)
}

/// The file whose lock says, beside that of the directory, that a process uses it. It holds the process id, for people.
pub const LOCK: &str = "quorlock.lock";
const NUMBER_MAX: u64 = 1 << 53;
const PREFIX: &str = "segment-";
const SEGMENT_SUFFIX: &str = ".segment";
const EARLIER_SUFFIX: &str = ".log";
const UNFINISHED_SUFFIX: &str = ".new";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_foreign() {
        for number in [1, 9_999_999_999, 10_000_000_000, NUMBER_MAX] {
            assert_eq!(parse(&segment(number)), Name::Segment(number));
            assert_eq!(parse(&earlier(number)), Name::Segment(number));
            assert_eq!(parse(&unfinished(number)), Name::Unfinished(number));
        }
        assert_eq!(parse(LOCK), Name::Lock);
        for name in [
            "segment-1.log",
            "segment-1.segment",
            "segment-0000000001.log.segment",
            "segment-0000000000.log",
            "segment-+000000001.log",
            "segment-00000000001.log",
            "segment-0000000001.log.bak",
            "segment-18446744073709551615.log",
            "segment-99999999999999999999999.log",
            "segment-.log",
            "",
            "notes.txt",
        ] {
            assert_eq!(parse(name), Name::Foreign, "{name}");
        }
    }
}
