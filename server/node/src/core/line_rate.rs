//! How many log lines of a kind are written in a second.
//!
//! What clients do in a flood must not become a flood of lines: a few are written, and then how many were left out.

use quorlock_engine::RawTime;

/// The lines of one kind.
#[derive(Debug, Default)]
pub(crate) struct LineRate {
    second: u64,
    written: u32,
    left_out: u64,
}

impl LineRate {
    /// Whether a line may be written now, of at most `lines_max` in a second; and how many of an earlier second were not
    /// written, if nobody was told of them yet.
    pub(crate) fn admit(&mut self, now: RawTime, lines_max: u32) -> Option<u64> {
        let second = now.as_nanos() / 1_000_000_000;
        let mut left_out = 0;
        if self.second != second {
            left_out = std::mem::take(&mut self.left_out);
            (self.second, self.written) = (second, 0);
        }
        if self.written < lines_max {
            self.written += 1;
            Some(left_out)
        } else {
            self.left_out += 1;
            None
        }
    }

    /// How many lines were not written in this second.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_says_how_many_it_left_out() {
        let mut lines = LineRate::default();
        let second = RawTime::from_nanos(5_000_000_000);
        for _ in 0..10 {
            assert_eq!(lines.admit(second, 10), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(lines.admit(second.plus_nanos(999_999_999), 10), None);
        }
        assert_eq!(lines.admit(second.plus_nanos(1_000_000_000), 10), Some(7));
        assert_eq!(lines.admit(second.plus_nanos(1_000_000_000), 10), Some(0));
    }
}
