//! The columns of the table: what each of them says of a node that serves, in little room.
//!
//! Invariant: what matters first stands first, for a narrow terminal leaves out the last ones.

use std::time::Duration;

use crate::cluster::info::{Figures, ServingState};

/// A column that is left out where it has no room.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) width: u16,
    cell: fn(&Serving<'_>) -> String,
}

/// A node that serves.
struct Serving<'a> {
    keys: u64,
    uptime_seconds: u64,
    figures: &'a Figures,
    p99: Option<Duration>,
}

impl Column {
    /// Those that fit beside each other into this width.
    pub(super) fn fitting(width: u16) -> Vec<&'static Self> {
        let mut left = width;
        let fits = |column: &&Self| {
            let has_room = left > column.width;
            left = left.saturating_sub(column.width + 1);
            has_room
        };
        COLUMNS.iter().take_while(fits).collect()
    }

    /// What it says of a node with this answer, 99 of 100 of whose commands took no longer than this lately.
    pub(super) fn text(&self, answer: &ServingState, p99: Option<Duration>) -> String {
        match answer {
            ServingState::Serving {
                keys,
                uptime_seconds,
                figures,
            } => (self.cell)(&Serving {
                keys: *keys,
                uptime_seconds: *uptime_seconds,
                figures,
                p99,
            }),
            _ => NOTHING.to_owned(),
        }
    }
}

/// All of them stand on a terminal of 80 columns.
const COLUMNS: [Column; 7] = [
    Column {
        heading: "uptime",
        width: 7,
        cell: |node| age(node.uptime_seconds),
    },
    Column {
        heading: "keys",
        width: 5,
        cell: |node| count(node.keys),
    },
    Column {
        heading: "ops/s",
        width: 5,
        cell: |node| count(node.figures.operations_per_second),
    },
    Column {
        heading: "p99",
        width: 5,
        cell: |node| node.p99.map_or_else(|| NOTHING.to_owned(), latency),
    },
    Column {
        heading: "log MiB",
        width: 7,
        cell: |node| mebibytes(node.figures.log_bytes),
    },
    Column {
        heading: "unsynced",
        width: 8,
        cell: |node| node.figures.unsynced.to_string(),
    },
    Column {
        heading: "clock",
        width: 6,
        cell: |node| {
            node.figures
                .ahead_ms
                .map_or_else(|| NOTHING.to_owned(), ahead)
        },
    },
];

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn count(number: u64) -> String {
    match number {
        0..100_000 => number.to_string(),
        100_000..10_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

fn latency(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        10_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}.{}s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes / (1 << 20) * 10 + bytes % (1 << 20) * 10 / (1 << 20);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// How far a clock is ahead of this machine's.
fn ahead(ms: i128) -> String {
    // To the nearest: what is measured is some microseconds off.
    let seconds = (ms + ms.signum() * 500) / 1_000;
    match (ms.unsigned_abs(), seconds.unsigned_abs()) {
        (0, _) => "0".to_owned(),
        (1..1_000, _) => format!("{ms:+}ms"),
        (_, 0..10_000) => format!("{seconds:+}s"),
        (_, 10_000..360_000) => format!("{:+}h", seconds / 3_600),
        _ => format!("{:+}d", seconds / 86_400),
    }
}

const NOTHING: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_their_columns() {
        for (shown, width) in [
            (age(86_399), 7),
            (age(86_400 * 9_999), 7),
            (count(99_999), 5),
            (count(9_999_999), 5),
            (latency(Duration::from_micros(999)), 5),
            (latency(Duration::from_micros(9_999)), 5),
            (latency(Duration::from_micros(1_073_741)), 5),
            (mebibytes(9 << 30), 7),
            (ahead(-999), 6),
            (ahead(9_999_499), 6),
            (ahead(359_999_000), 6),
            (ahead(86_400_000 * 9_999), 6),
        ] {
            assert!(shown.len() <= width, "{shown}");
        }
    }

    #[test]
    fn figures_read_as_people_say_them() {
        for (us, shown) in [
            (1, "1us"),
            (528, "528us"),
            (1_056, "1.0ms"),
            (16_895, "16ms"),
            (541_065, "541ms"),
            (1_073_741, "1.0s"),
        ] {
            assert_eq!(latency(Duration::from_micros(us)), shown);
        }
        for (ms, shown) in [
            (0, "0"),
            (2, "+2ms"),
            (-999, "-999ms"),
            (30_999, "+31s"),
            (-31_001, "-31s"),
            (7_200_000, "+7200s"),
            (72_000_000, "+20h"),
            (31_536_000_000, "+365d"),
        ] {
            assert_eq!(ahead(ms), shown);
        }
        assert_eq!(count(123_456), "123k");
        assert_eq!(count(12_345_678), "12M");
    }
}
