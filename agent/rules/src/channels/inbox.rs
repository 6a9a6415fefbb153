//! Which message is a new one, and when it is passed on.
//!
//! Every node sends a copy of each message, in the order in which it got them; some nodes have missed some. The first copy
//! counts. A copy whose predecessor on the channel has not come waits: until that comes, or every node that sends this channel
//! has sent this message or a later one, so that the predecessor cannot come any more, or for a bounded time.
//!
//! Invariants: a message of an agent is passed on once, behind those that the same agent has published before it on the channel. What
//! is remembered of an agent and a channel is one number, and is forgotten when no copy can come any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::channels::Topic;
use quorlock_clock::ClientInstant;

use super::NAMES_BYTES_MAX;
use super::envelope::Envelope;

/// A message for those who listen to its channel.
pub(crate) type Delivery = (Bytes, Bytes);

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    courses: HashMap<Key, Course>,
    /// Those that have something to wait for.
    waiting: BTreeSet<Key>,
    held_bytes: usize,
    /// Of the names of channels that are remembered.
    name_bytes: usize,
}

/// The run of an agent, and a channel.
type Key = (u64, Bytes);

/// The messages of one agent on one channel.
#[derive(Debug, Default)]
struct Course {
    /// The last one that was passed on.
    delivered: u64,
    held: BTreeMap<u64, Held>,
    /// The last one that each node has sent.
    sent: BTreeMap<usize, u64>,
    /// For how many rounds of [`Inbox::age`] nothing has come.
    age: u32,
}

#[derive(Debug)]
struct Held {
    before: u64,
    payload: Bytes,
    /// Why it was sent.
    topic: Topic,
    until: ClientInstant,
}

/// A copy of a message as a node has sent it.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) node: usize,
    pub(crate) topic: Topic,
    pub(crate) channel: Bytes,
    pub(crate) envelope: Envelope,
    pub(crate) payload: Bytes,
}

/// The nodes that send what a topic names, as bits.
pub(crate) type Standing<'a> = &'a dyn Fn(&Topic) -> u64;

impl Inbox {
    pub(crate) fn take(
        &mut self,
        now: ClientInstant,
        copy: Copy,
        standing: Standing<'_>,
        out: &mut Vec<Delivery>,
    ) {
        let Copy {
            node,
            topic,
            channel,
            envelope,
            payload,
        } = copy;
        let key = (envelope.run, channel);
        if !self.courses.contains_key(&key) {
            if !self.make_room(key.1.len()) {
                // It is not remembered, so a later copy is taken for a new message, as of what was forgotten.
                out.push((key.1, payload));
                return;
            }
            self.name_bytes += key.1.len();
        }
        let course = self.courses.entry(key.clone()).or_default();
        course.age = 0;
        let sent = course.sent.entry(node).or_default();
        *sent = envelope.number.max(*sent);
        let is_new =
            envelope.number > course.delivered && !course.held.contains_key(&envelope.number);
        if is_new {
            self.held_bytes += payload.len() + HELD_BYTES;
            let held = Held {
                before: envelope.before,
                payload,
                topic,
                until: now.after(HELD_FOR),
            };
            course.held.insert(envelope.number, held);
        }
        self.pass_on(now, &key, standing, out);
    }

    /// Passes on what waits in vain by now.
    pub(crate) fn look(
        &mut self,
        now: ClientInstant,
        standing: Standing<'_>,
        out: &mut Vec<Delivery>,
    ) {
        let waiting: Vec<Key> = self.waiting.iter().cloned().collect();
        for key in waiting {
            self.pass_on(now, &key, standing, out);
        }
    }

    /// Forgets those of which nothing has come for long. It is called no more often than once a second, after all that had arrived
    /// was taken: an agent that was stopped forgets nothing before it has seen what came meanwhile.
    pub(crate) fn age(&mut self) {
        self.courses.retain(|_, course| {
            course.age += 1;
            course.age <= AGE_MAX || !course.held.is_empty()
        });
        self.count_names();
    }

    fn count_names(&mut self) {
        self.name_bytes = self.courses.keys().map(|(_, channel)| channel.len()).sum();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.courses.is_empty()
    }

    /// When something is passed on that waits in vain.
    pub(crate) fn next_time(&self) -> Option<ClientInstant> {
        let waiting = self.waiting.iter().filter_map(|key| self.courses.get(key));
        let untils = waiting.filter_map(|course| course.held.values().next());
        untils.map(|held| held.until).reduce(ClientInstant::earlier)
    }

    fn pass_on(
        &mut self,
        now: ClientInstant,
        key: &Key,
        standing: Standing<'_>,
        out: &mut Vec<Delivery>,
    ) {
        let Some(course) = self.courses.get_mut(key) else {
            return;
        };
        while let Some(first) = course.held.first_entry() {
            let number = *first.key();
            let held = first.get();
            let has_sent = |node: usize| course.sent.get(&node).is_some_and(|sent| *sent >= number);
            let nodes = standing(&held.topic);
            let is_next = held.before <= course.delivered;
            let is_over = now.has_reached(held.until) || self.held_bytes > HELD_BYTES_MAX;
            let all_have_sent = || (0..64).all(|node| nodes & (1 << node) == 0 || has_sent(node));
            if !is_next && !is_over && !all_have_sent() {
                break;
            }
            let held = first.remove();
            self.held_bytes -= held.payload.len() + HELD_BYTES;
            course.delivered = number;
            out.push((key.1.clone(), held.payload));
        }
        match course.held.is_empty() {
            true => drop(self.waiting.remove(key)),
            false => drop(self.waiting.insert(key.clone())),
        }
    }

    /// Before one more is remembered than may be, whose name has so many bytes: those are forgotten of which nothing has come for the
    /// longest time. Says whether there is room: what has messages that wait stays.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes > NAMES_BYTES_MAX {
            return false;
        }
        while self.courses.len() >= COURSES_MAX || self.name_bytes + bytes > NAMES_BYTES_MAX {
            let may_go = |course: &&Course| course.held.is_empty();
            let ages = self.courses.values().filter(may_go);
            let Some(oldest) = ages.map(|course| course.age).max() else {
                return false;
            };
            let mut left = self.courses.len().div_ceil(10);
            self.courses.retain(|_, course| {
                let goes = left > 0 && course.age >= oldest.div_ceil(2) && course.held.is_empty();
                left -= usize::from(goes);
                !goes
            });
            self.count_names();
        }
        true
    }
}

/// How long a message waits for the one before it: longer than copies on different nodes differ by, and no longer than a caller may
/// wait.
const HELD_FOR: Duration = Duration::from_millis(500);
/// What waits in all.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Memory of a message that waits, beside its bytes.
const HELD_BYTES: usize = 128;
/// Connections that are silent for longer than a few seconds are given up, so no copy is later than the first by more.
const AGE_MAX: u32 = 60;
/// About 20 MB with names of usual lengths.
const COURSES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_clock::{Clock, SettableClock};

    const ALL: u64 = 0b11111;

    struct Tested {
        inbox: Inbox,
        clock: SettableClock,
        now: ClientInstant,
        standing: u64,
        out: Vec<Delivery>,
    }

    impl Tested {
        fn new() -> Self {
            let clock = SettableClock::new();
            Self {
                inbox: Inbox::default(),
                now: clock.now(),
                clock,
                standing: ALL,
                out: Vec::new(),
            }
        }

        /// A node sends a message of run 1: its number, and that of the one before.
        fn copy(&mut self, node: usize, number: u64, before: u64) -> Vec<String> {
            self.copy_of(1, node, number, before)
        }

        fn copy_of(&mut self, run: u64, node: usize, number: u64, before: u64) -> Vec<String> {
            let copy = Copy {
                node,
                topic: Topic::channel("c"),
                channel: Bytes::from_static(b"c"),
                envelope: Envelope {
                    run,
                    number,
                    before,
                },
                payload: Bytes::from(number.to_string()),
            };
            let standing = self.standing;
            (self.inbox).take(self.now, copy, &|_| standing, &mut self.out);
            self.taken()
        }

        /// A message on a channel with this name, and the number of the one before it.
        fn copy_on(&mut self, channel: String, number: u64, before: u64) {
            let copy = Copy {
                node: 0,
                topic: Topic::channel("c"),
                channel: Bytes::from(channel),
                envelope: Envelope {
                    run: 1,
                    number,
                    before,
                },
                payload: Bytes::from_static(b"x"),
            };
            let standing = self.standing;
            (self.inbox).take(self.now, copy, &|_| standing, &mut self.out);
        }

        /// How many bytes the names have that are remembered.
        fn names(&self) -> usize {
            let names = self.inbox.courses.keys();
            let bytes = names.map(|(_, channel)| channel.len()).sum();
            assert_eq!(bytes, self.inbox.name_bytes);
            bytes
        }

        fn look(&mut self) -> Vec<String> {
            let standing = self.standing;
            self.inbox.look(self.now, &|_| standing, &mut self.out);
            self.taken()
        }

        fn taken(&mut self) -> Vec<String> {
            let out = std::mem::take(&mut self.out);
            out.iter()
                .map(|(_, payload)| String::from_utf8_lossy(payload).into_owned())
                .collect()
        }
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn the_first_copy_counts_and_the_others_are_none() {
        let mut tested = Tested::new();
        assert_eq!(tested.copy(0, 1, 0), ["1"]);
        for node in 1..5 {
            assert_eq!(tested.copy(node, 1, 0), NOTHING);
        }
        assert_eq!(tested.copy(3, 2, 1), ["2"]);
        assert_eq!(tested.copy_of(2, 3, 1, 0), ["1"], "another agent");
    }

    #[test]
    fn a_message_waits_for_the_one_before_it() {
        let mut tested = Tested::new();
        assert_eq!(tested.copy(0, 1, 0), ["1"]);
        // Node 0 has missed the second one.
        assert_eq!(tested.copy(0, 3, 1 + 1), NOTHING);
        assert_eq!(tested.copy(0, 4, 3), NOTHING);
        assert_eq!(tested.copy(1, 2, 1), ["2", "3", "4"]);
        assert_eq!(tested.copy(1, 3, 2), NOTHING);
        assert!(tested.inbox.next_time().is_none());
    }

    #[test]
    fn what_cannot_come_any_more_is_not_waited_for() {
        let mut tested = Tested::new();
        for node in 0..4 {
            assert_eq!(tested.copy(node, 7, 6), NOTHING);
        }
        assert_eq!(tested.copy(4, 7, 6), ["7"]);
        for node in 0..4 {
            assert_eq!(tested.copy(node, 9, 8), NOTHING);
        }
        // The connection to the last node ends.
        tested.standing = 0b01111;
        assert_eq!(tested.look(), ["9"]);
        // It is late by more than could be waited for: the order is kept.
        assert_eq!(tested.copy(4, 8, 7), NOTHING);
    }

    #[test]
    fn a_node_that_hangs_holds_a_message_up_for_a_bounded_time() {
        let mut tested = Tested::new();
        assert_eq!(tested.copy(0, 7, 6), NOTHING);
        let until = tested.inbox.next_time();
        assert_eq!(until, Some(tested.now.after(HELD_FOR)));
        tested.clock.advance(HELD_FOR);
        tested.now = tested.clock.now();
        assert_eq!(tested.look(), ["7"]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_in_the_end() {
        let mut tested = Tested::new();
        for run in 0..COURSES_MAX as u64 + 10 {
            tested.copy_of(run, 0, 1, 0);
        }
        assert!(tested.inbox.courses.len() <= COURSES_MAX);
        for _ in 0..AGE_MAX {
            tested.inbox.age();
            tested.copy(0, 2, 0);
        }
        tested.inbox.age();
        assert_eq!(tested.inbox.courses.len(), 1, "the one that goes on");
        for _ in 0..=AGE_MAX {
            tested.inbox.age();
        }
        assert!(tested.inbox.is_empty());
    }

    #[test]
    fn names_of_channels_that_are_remembered_have_so_many_bytes_together() {
        let mut tested = Tested::new();
        for number in 0..400 {
            tested.copy_on(format!("{number:0>60000}"), 1, 0);
            assert!(tested.names() <= NAMES_BYTES_MAX);
        }
        assert!(tested.inbox.courses.len() > 200, "no more go than have to");
    }

    #[test]
    fn many_short_names_give_way_to_long_ones() {
        let mut tested = Tested::new();
        for number in 0..COURSES_MAX {
            tested.copy_on(number.to_string(), 1, 0);
        }
        assert_eq!(tested.inbox.courses.len(), COURSES_MAX);
        for number in 0..100 {
            tested.copy_on(format!("{number:0>4}").repeat(1 << 16), 1, 0);
            assert!(tested.names() <= NAMES_BYTES_MAX);
        }
        assert_eq!(tested.out.len(), COURSES_MAX + 100);
    }

    #[test]
    fn what_has_messages_that_wait_gives_way_to_none_and_others_are_passed_on() {
        let mut tested = Tested::new();
        for number in 0..NAMES_BYTES_MAX / 60_000 {
            tested.copy_on(format!("{number:0>60000}"), 2, 1);
        }
        assert_eq!(tested.out.len(), 0);
        let names = tested.names();
        tested.copy_on(format!("{:0>60000}", "other"), 2, 1);
        assert_eq!((tested.out.len(), tested.names()), (1, names));
    }

    #[test]
    fn too_much_that_waits_waits_no_longer() {
        let mut tested = Tested::new();
        let payload = Bytes::from(vec![b'x'; 1 << 20]);
        for number in 1..=20 {
            let copy = Copy {
                node: 0,
                topic: Topic::channel("c"),
                channel: Bytes::from_static(b"c"),
                envelope: Envelope {
                    run: 1,
                    number: 2 * number,
                    before: 2 * number - 1,
                },
                payload: payload.clone(),
            };
            (tested.inbox).take(tested.now, copy, &|_| ALL, &mut tested.out);
            assert!(tested.inbox.held_bytes <= HELD_BYTES_MAX + (1 << 20) + HELD_BYTES);
        }
        assert!(tested.out.len() >= 4, "{}", tested.out.len());
    }
}
