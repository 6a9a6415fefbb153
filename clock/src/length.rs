//! Lengths of time: as counts of 64 bits, and as people read them.

use std::time::Duration;

/// The length of a duration in nanoseconds. One of more than 584 years is longer than a node or a client lives: it becomes the
/// longest that 64 bits can count, which stands for "without end".
#[must_use]
pub fn saturated_nanos(duration: Duration) -> u64 {
    saturated(duration.as_nanos())
}

/// A length or a count that is compared with others or shown to people: the largest number of 64 bits stands for anything
/// above it.
#[must_use]
pub fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A duration for people, cut to what they read: `350 ms`, `7.2 s`, `30 s`, `4 min 5 s`.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match (ms / 1_000, ms % 1_000 / 100) {
        (0, _) => format!("{ms} ms"),
        (seconds @ 1..120, 0) => format!("{seconds} s"),
        (seconds @ 1..120, tenths) => format!("{seconds}.{tenths} s"),
        (seconds, _) if seconds % 60 == 0 => format!("{} min", seconds / 60),
        (seconds, _) => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_cut_to_what_people_read() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (7_299, "7.2 s"),
            (30_099, "30 s"),
            (60_000, "60 s"),
            (119_999, "119.9 s"),
            (120_000, "2 min"),
            (120_999, "2 min"),
            (245_000, "4 min 5 s"),
            (3_599_900, "59 min 59 s"),
        ] {
            assert_eq!(show_duration(Duration::from_millis(ms)), text);
        }
    }
}
