//! A hash table from hashes to numbers of things that are kept elsewhere.

use hashbrown::HashTable;

/// Links to things by their hashes. Whether a thing is the one that is looked for says who keeps it.
#[derive(Debug, Default)]
pub(crate) struct Links(HashTable<Link>);

/// A thing's number, with enough of its hash to grow the table without looking at the thing.
#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u32,
    number: u32,
}

impl Link {
    /// Keeps the lowest bits of a hash: where there are several tables, others choose one.
    fn new(hash: u64, number: u32) -> Link {
        let [a, b, c, d, ..] = hash.to_le_bytes();
        Link {
            hash: u32::from_le_bytes([a, b, c, d]),
            number,
        }
    }

    /// The hash the table sees: it uses the lowest and the highest bits.
    fn spread(self) -> u64 {
        u64::from(self.hash) | u64::from(self.hash) << 32
    }
}

impl Links {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number, among those with the same 32 bits of the hash, of the thing that is looked for.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let wanted = Link::new(hash, 0);
        let matches = |link: &Link| link.hash == wanted.hash && is_it(link.number);
        let found = self.0.find(wanted.spread(), matches);
        found.map(|link| link.number)
    }

    /// Adds a thing that is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let link = Link::new(hash, number);
        self.0
            .insert_unique(link.spread(), link, |link| link.spread());
    }

    /// Takes out the link with this number. False if there is none.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, number: u32) -> bool {
        let wanted = Link::new(hash, number).spread();
        let found = self.0.find_entry(wanted, |link| link.number == number);
        found.map(|occupied| occupied.remove()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two things may have the same hash, or the same 32 bits of it.
    #[test]
    fn who_keeps_the_things_says_which_one_it_is() {
        let (one, other) = (0x11_2345_6789, 0x22_2345_6789);
        let mut links = Links::default();
        assert!(links.is_empty());
        links.insert(one, 1);
        links.insert(other, 2);
        assert!(!links.is_empty());
        for wanted in [1, 2] {
            assert_eq!(links.find(one, |number| number == wanted), Some(wanted));
        }
        assert_eq!(links.find(one, |_| false), None);
        assert_eq!(links.find(0x1234, |_| true), None, "another hash");
        assert!(links.remove(other, 2));
        assert!(!links.remove(other, 2));
        assert_eq!(links.find(one, |_| true), Some(1));
    }

    #[test]
    fn the_lowest_and_the_highest_bits_differ_where_hashes_do() {
        assert_eq!(
            Link::new(0xffff_ffff_1234_5678, 0).spread(),
            0x1234_5678_1234_5678
        );
    }
}
