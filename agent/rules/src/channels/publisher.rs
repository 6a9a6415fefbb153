//! What this agent publishes: a number for each message, and which one was before it on its channel.
//!
//! Invariant: numbers only grow. A channel that is forgotten begins anew: those who listen wait for nothing then.

use std::collections::HashMap;

use bytes::Bytes;
use rand::Rng;

use super::NAMES_BYTES_MAX;
use super::envelope::Envelope;

#[derive(Debug)]
pub(crate) struct Publisher {
    run: u64,
    number: u64,
    /// The last message of each channel, and for how long there was none.
    last: HashMap<Bytes, (u64, u32)>,
    /// Of these names.
    name_bytes: usize,
}

impl Publisher {
    pub(crate) fn new(random: &mut dyn Rng) -> Self {
        Self {
            run: random.next_u64(),
            number: 0,
            last: HashMap::new(),
            name_bytes: 0,
        }
    }

    /// The next message on this channel.
    pub(crate) fn next(&mut self, channel: &Bytes) -> Envelope {
        self.number += 1;
        let number = self.number;
        let before = self.last.get_mut(channel).map_or(0, |last| last.0);
        if let Some(last) = self.last.get_mut(channel) {
            *last = (number, 0);
        } else if self.last.len() < CHANNELS_MAX
            && self.name_bytes + channel.len() <= NAMES_BYTES_MAX
        {
            self.name_bytes += channel.len();
            // A name that shares its request's bytes would keep the whole request.
            let name = Bytes::copy_from_slice(channel);
            self.last.insert(name, (number, 0));
        }
        Envelope {
            run: self.run,
            number,
            before,
        }
    }

    /// Forgets channels of which no copy can be on its way any more.
    pub(crate) fn age(&mut self) {
        self.last.retain(|_, (_, age)| {
            *age += 1;
            *age <= AGE_MAX
        });
        self.name_bytes = self.last.keys().map(Bytes::len).sum();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

const CHANNELS_MAX: usize = 100_000;
/// Less than those who listen remember.
const AGE_MAX: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    #[test]
    fn a_message_names_the_one_before_it_on_its_channel() {
        let mut publisher = Publisher::new(&mut StdRng::seed_from_u64(1));
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let mut next = |channel| {
            let envelope = publisher.next(channel);
            (envelope.number, envelope.before)
        };
        assert_eq!([next(&a), next(&b), next(&a)], [(1, 0), (2, 0), (3, 1)]);
        for _ in 0..=AGE_MAX {
            publisher.age();
        }
        assert!(publisher.is_empty());
        let again = publisher.next(&a);
        assert_eq!((again.number, again.before), (4, 0));
    }

    #[test]
    fn channels_that_are_remembered_have_so_many_bytes_together() {
        let mut publisher = Publisher::new(&mut StdRng::seed_from_u64(1));
        let name = |number: usize| Bytes::from(format!("{number:0>60000}"));
        let most = NAMES_BYTES_MAX / 60_000;
        for number in 0..most + 9 {
            publisher.next(&name(number));
        }
        assert_eq!(publisher.last.len(), most);
        assert_ne!(publisher.next(&name(0)).before, 0);
        assert_eq!(publisher.next(&name(most)).before, 0);
        for _ in 0..=AGE_MAX {
            publisher.age();
        }
        publisher.next(&name(most));
        assert_ne!(publisher.next(&name(most)).before, 0);
    }
}
