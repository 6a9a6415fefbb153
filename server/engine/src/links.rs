//! A hash table from hashes to numbers of things that are kept elsewhere.

use hashbrown::HashTable;

/// Links to things by their hashes. Whether a thing is the one that is looked for says who keeps it.
#[derive(Debug, Default)]
pub(crate) struct Links(HashTable<HashLink>);

/// A thing's number, with enough of its hash to grow the table without looking at the thing.
#[derive(Clone, Copy, Debug)]
struct HashLink {
    hash: u32,
    number: u32,
}

impl HashLink {
    /// Keeps the lowest bits of a hash: where there are several tables, others choose one.
    fn new(hash: u64, number: u32) -> HashLink {
        let [a, b, c, d, ..] = hash.to_le_bytes();
        HashLink {
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
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number, among those with the same 32 bits of the hash, of the thing that is looked for.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let wanted = HashLink::new(hash, 0);
        let matches = |link: &HashLink| link.hash == wanted.hash && is_it(link.number);
        let found = self.0.find(wanted.spread(), matches);
        found.map(|link| link.number)
    }

    /// Adds a thing that is not there yet.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let link = HashLink::new(hash, number);
        self.0
            .insert_unique(link.spread(), link, |link| link.spread());
    }

    /// Takes out the link with this number. False if there is none.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, number: u32) -> bool {
        let wanted = HashLink::new(hash, number).spread();
        let found = self.0.find_entry(wanted, |link| link.number == number);
        let was_there = found.map(|occupied| occupied.remove()).is_ok();
        shrink_if_sparse(&mut self.0, |link| link.spread());
        was_there
    }

    /// Gives a thing another number. False if there is none with the first one.
    pub(crate) fn renumber(&mut self, hash: u64, from: u32, to: u32) -> bool {
        let wanted = HashLink::new(hash, from).spread();
        let found = self.0.find_mut(wanted, |link| link.number == from);
        found.map(|link| link.number = to).is_some()
    }
}

/// Gives the memory of a table back that holds little of what it has room for. It has room for twice as much then, so that
/// not every removal copies all.
#[inline]
pub(crate) fn shrink_if_sparse<T>(table: &mut HashTable<T>, hash_of: impl Fn(&T) -> u64) {
    let buckets = table.num_buckets();
    if buckets > BUCKETS_KEPT && table.len() < buckets / 8 {
        table.shrink_to(table.len().saturating_mul(2), hash_of);
    }
}

/// A table with so few keeps them.
const BUCKETS_KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two things may have the same hash, or the same 32 bits of it.
    #[test]
    fn who_keeps_the_things_says_which_one_it_is() {
        let (one, other) = (0x11_2345_6789, 0x22_2345_6789);
        let mut links = Links::default();
        links.insert(one, 1);
        links.insert(other, 2);
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
    fn a_table_that_was_large_once_gives_its_memory_back() {
        let mut links = Links::default();
        let hash = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..10_000).for_each(|number| links.insert(hash(number), number));
        for left in [1000, 100, 1, 0] {
            for number in left..10_000 {
                links.remove(hash(number), number);
            }
            let buckets = links.0.num_buckets();
            assert!(buckets <= 16.max(8 * left as usize), "{buckets} for {left}");
            let found = |number| links.find(hash(number), |found| found == number);
            assert!((0..left).all(|number| found(number) == Some(number)));
            assert_eq!(found(left), None);
        }
    }

    #[test]
    fn a_number_is_changed_for_the_thing_that_had_it() {
        let mut links = Links::default();
        links.insert(7, 1);
        links.insert(7, 2);
        assert!(links.renumber(7, 1, 3));
        assert!(!links.renumber(7, 1, 4));
        for (number, is_there) in [(1, false), (2, true), (3, true)] {
            assert_eq!(links.remove(7, number), is_there, "{number}");
        }
    }

    #[test]
    fn the_lowest_and_the_highest_bits_differ_where_hashes_do() {
        assert_eq!(
            HashLink::new(0xffff_ffff_1234_5678, 0).spread(),
            0x1234_5678_1234_5678
        );
    }
}
