//! How far the list of one node was walked, and when that ends.
//!
//! Invariant: every walk ends, whatever cursors the node gives: behind the last page, where a cursor comes again, behind a number of pages, or
//! when its time is over. In doubt the list is not whole. A cursor of an honest node does not come again, because each page begins behind the
//! one before. No clock is read here: the caller says how long the walk has taken.

use std::time::Duration;

use quorlock_clock::show_duration;

/// A walk over the pages of one node.
#[derive(Debug)]
pub struct PageWalk {
    patience: Duration,
    pages: u64,
    cursor: Vec<u8>,
    /// The cursor behind the last page whose number is a power of two. A cycle leads back to it, however long it is.
    earlier: Vec<u8>,
}

/// What follows from a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStep {
    /// The next page is asked for.
    Next,
    /// It was the last one.
    Whole,
    /// No more pages are asked for, for this reason: the list is not whole.
    Unfinished(String),
}

impl PageWalk {
    /// Before the first page. Behind this time no further one is asked for.
    #[must_use]
    pub fn start(patience: Duration) -> Self {
        Self {
            patience,
            pages: 0,
            cursor: END.to_vec(),
            earlier: Vec::new(),
        }
    }

    /// The cursor of the page that is asked for.
    #[must_use]
    pub fn cursor(&self) -> &[u8] {
        &self.cursor
    }

    /// A page was read, behind which the list goes on at this cursor, when the walk had taken so long.
    pub fn read(&mut self, next: &[u8], took: Duration) -> PageStep {
        self.pages += 1;
        if next == END {
            return PageStep::Whole;
        }
        let pages = self.pages;
        if next == self.cursor || next == self.earlier {
            return PageStep::Unfinished(format!(
                "its list of locks begins anew before it ends: a cursor came again after {pages} pages"
            ));
        }
        if pages >= PAGES_MAX || took > self.patience {
            let took = show_duration(took);
            return PageStep::Unfinished(format!(
                "its list of locks had no end after {pages} pages in {took}"
            ));
        }
        if pages.is_power_of_two() {
            self.earlier = next.to_vec();
        }
        self.cursor = next.to_vec();
        PageStep::Next
    }
}

/// The cursor of the first page, and the one behind the last.
const END: &[u8] = b"0";
/// For 100 million keys of a Quorlock node, and a thousand million of Redis.
const PAGES_MAX: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Walks over the pages of a node that gives these cursors, one page a millisecond.
    fn walk(patience: Duration, cursor: impl Fn(u64) -> u64) -> (u64, PageStep) {
        let mut walk = PageWalk::start(patience);
        let (mut pages, mut took) = (0, Duration::ZERO);
        loop {
            assert!(pages <= PAGES_MAX, "it does not end");
            (pages, took) = (pages + 1, took + MS);
            let next = cursor(pages).to_string();
            match walk.read(next.as_bytes(), took) {
                PageStep::Next => assert_eq!(walk.cursor(), next.as_bytes()),
                ended => return (pages, ended),
            }
        }
    }

    fn unfinished(step: &PageStep) -> &str {
        match step {
            PageStep::Unfinished(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_that_ends_is_whole() {
        for count in [1, 2, 3, 1_000] {
            let ended = walk(Duration::MAX, |page| page % count);
            assert_eq!(ended, (count, PageStep::Whole));
        }
        // Its last page came late, and is there.
        assert_eq!(walk(2 * MS, |page| page % 3), (3, PageStep::Whole));
    }

    #[test]
    fn cursors_that_never_end_are_followed_for_a_time_and_a_number_of_pages() {
        let (pages, ended) = walk(70 * MS, |page| page);
        assert_eq!(pages, 71);
        let why = "its list of locks had no end after 71 pages in 71 ms";
        assert_eq!(unfinished(&ended), why);
        let (pages, ended) = walk(Duration::MAX, |page| page);
        assert_eq!(pages, PAGES_MAX);
        assert!(unfinished(&ended).contains("had no end after 1000000 pages"));
    }

    #[test]
    fn a_cursor_that_comes_again_ends_the_walk_however_late() {
        for (before, cycle) in [(0, 1), (0, 2), (5, 1), (5, 7), (100, 3), (3, 1_000)] {
            let (pages, ended) = walk(Duration::MAX, |page| match page <= before {
                true => page,
                false => before + 1 + (page - before) % cycle,
            });
            assert!(
                pages <= 3 * (before + cycle) + 3,
                "{before} {cycle}: {pages}"
            );
            let why = unfinished(&ended);
            assert!(why.contains("a cursor came again"), "{why}");
        }
    }
}
