//! Whether a worker that has nothing to do looks at its sockets a few times more before it sleeps.
//!
//! Sleeping and being woken costs more than the few microseconds in which, under load, the next
//! request comes; the client that wakes a worker pays as well. On a calm node nothing comes, and
//! looking would only be a waste: so it is done where it has paid of late, and tried now and then.

/// What came of looking so far.
#[derive(Debug, Default)]
pub(crate) struct Lull {
    credit: u8,
    skipped: u8,
}

impl Lull {
    /// How often to look before sleeping this time.
    pub(crate) fn looks(&mut self) -> u32 {
        if self.credit == 0 {
            self.skipped = (self.skipped + 1) % TRIED_ONCE_IN;
            if self.skipped != 0 {
                return 0;
            }
        }
        LOOKS
    }

    /// Whether something came meanwhile. It pays from about one time in three on.
    pub(crate) fn note(&mut self, has_come: bool) {
        self.credit = if has_come {
            (self.credit + 2).min(CREDIT_MAX)
        } else {
            self.credit.saturating_sub(1)
        };
    }
}

/// About two microseconds.
const LOOKS: u32 = 8;
const TRIED_ONCE_IN: u8 = 64;
const CREDIT_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_worker_hardly_looks_and_a_busy_one_does() {
        let mut lull = Lull::default();
        let mut looked = 0;
        for _ in 0..640 {
            if lull.looks() > 0 {
                looked += 1;
                lull.note(false);
            }
        }
        assert_eq!(looked, 10);
        while lull.looks() == 0 {}
        for round in 0..100 {
            lull.note(round % 5 < 2);
            assert_eq!(lull.looks(), LOOKS, "two times in five are enough");
        }
        for _ in 0..=CREDIT_MAX {
            lull.note(false);
        }
        assert_eq!(lull.looks(), 0);
    }
}
