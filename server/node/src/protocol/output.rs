//! The bytes that a connection has yet to send: rendered replies, and long values that are shared
//! with the keyspace and never copied.
//!
//! Invariant: bytes leave in the order in which they came. Without shared values this is one `Vec`
//! and costs what that costs. It does not know sockets: who sends takes [`Output::runs`] and says
//! with [`Output::advance`] how far the socket got.

use std::collections::VecDeque;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes on their way to one client.
#[derive(Debug, Default)]
pub struct Output {
    /// All bytes that are not shared, one after the other.
    owned: Vec<u8>,
    owned_sent: usize,
    shared: VecDeque<SharedRun>,
    /// How much of the first shared run has left.
    shared_sent: usize,
    /// What has not left of all shared runs.
    shared_left: usize,
    /// The bytes of all shared runs with a charge.
    charged: usize,
}

/// A run of bytes that lies elsewhere.
#[derive(Debug)]
struct SharedRun {
    /// So many owned bytes come before it, counted from the first one ever written.
    at: usize,
    bytes: Arc<[u8]>,
    charge: Option<Arc<Charge>>,
}

/// Bytes that many outputs share and that are counted once, for as long as one of them has this.
#[derive(Debug)]
pub struct Charge {
    bytes: usize,
    sum: Arc<AtomicUsize>,
}

impl Charge {
    /// Counts so many bytes.
    pub fn new(bytes: usize, sum: &Arc<AtomicUsize>) -> Self {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Self {
            bytes,
            sum: Arc::clone(sum),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Output {
    /// Where short bytes are appended. What is there already must not be touched.
    pub fn owned(&mut self) -> &mut Vec<u8> {
        &mut self.owned
    }

    /// Appends `bytes` without copying them, unless they are so short that a copy costs less.
    pub fn push_shared(&mut self, bytes: &Arc<[u8]>) {
        self.push_charged(bytes, None);
    }

    fn push_charged(&mut self, bytes: &Arc<[u8]>, charge: Option<&Arc<Charge>>) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.owned.extend_from_slice(bytes);
        }
        self.shared_left += bytes.len();
        if charge.is_some() {
            self.charged += bytes.len();
        }
        self.shared.push_back(SharedRun {
            at: self.owned.len(),
            bytes: Arc::clone(bytes),
            charge: charge.cloned(),
        });
    }

    /// Counts what is shared here, and in all outputs to which this is appended, with `charge` alone.
    pub fn charge(&mut self, charge: &Arc<Charge>) {
        for run in &mut self.shared {
            run.charge = Some(Arc::clone(charge));
            self.charged += run.bytes.len();
        }
    }

    /// Appends what another one holds, of which nothing has left.
    pub fn append(&mut self, other: &Output) {
        let mut start = 0;
        for run in &other.shared {
            self.owned.extend_from_slice(&other.owned[start..run.at]);
            self.push_charged(&run.bytes, run.charge.as_ref());
            start = run.at;
        }
        self.owned.extend_from_slice(&other.owned[start..]);
    }

    /// How many bytes have not left.
    pub fn len(&self) -> usize {
        self.owned.len() - self.owned_sent + self.shared_left
    }

    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory this keeps: its own, and all of what it shares, since the keyspace may have
    /// dropped that meanwhile.
    pub fn memory(&self) -> usize {
        let runs = self.shared.capacity() * size_of::<SharedRun>();
        self.owned.capacity() + self.shared_left + self.shared_sent + runs
    }

    /// What of that is counted with a charge.
    pub fn charged(&self) -> usize {
        self.charged
    }

    /// What has not left, run by run; none is empty.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = self.owned_sent;
        let mut skipped = self.shared_sent;
        let between = self.shared.iter().flat_map(move |run| {
            let before = &self.owned[start..run.at];
            start = run.at;
            [before, &run.bytes[std::mem::take(&mut skipped)..]]
        });
        let tail = self.shared.back().map_or(self.owned_sent, |run| run.at);
        between
            .chain(once(&self.owned[tail..]))
            .filter(|run| !run.is_empty())
    }

    /// The whole rest, where it is one run of owned bytes, as short replies are.
    pub fn single_run(&self) -> Option<&[u8]> {
        self.shared
            .is_empty()
            .then(|| &self.owned[self.owned_sent..])
    }

    /// Notes that so many bytes more have left. Shared values are let go as soon as they have.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "a socket took more than there was");
        let mut count = count;
        while let Some(run) = self.shared.front() {
            let before = run.at - self.owned_sent;
            if count < before {
                break;
            }
            count -= before;
            self.owned_sent = run.at;
            let left = run.bytes.len() - self.shared_sent;
            if count < left {
                self.shared_sent += count;
                self.shared_left -= count;
                return;
            }
            count -= left;
            self.shared_left -= left;
            self.shared_sent = 0;
            if run.charge.is_some() {
                self.charged -= run.bytes.len();
            }
            self.shared.pop_front();
        }
        self.owned_sent += count;
    }

    /// Drops everything, and all memory beyond `bytes_kept`.
    pub fn clear(&mut self, bytes_kept: usize) {
        self.owned.clear();
        self.owned.shrink_to(bytes_kept);
        self.owned_sent = 0;
        // Most connections never send a shared value.
        if self.shared.capacity() > 0 {
            self.shared = VecDeque::new();
        }
        (self.shared_sent, self.shared_left, self.charged) = (0, 0, 0);
    }
}

/// Below this a copy costs less than a run of its own: a count that is raised and lowered, and one
/// more piece for the system call.
const SHARED_BYTES_MIN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(byte: u8, length: usize) -> Arc<[u8]> {
        vec![byte; length].into()
    }

    fn rest(output: &Output) -> Vec<u8> {
        output.runs().flatten().copied().collect()
    }

    /// Owned bytes and shared runs in every neighbourhood: at the front, twice in a row, at the end.
    fn mixed() -> (Output, Vec<u8>) {
        let (long, longer) = (
            shared(b'x', SHARED_BYTES_MIN),
            shared(b'y', SHARED_BYTES_MIN + 3),
        );
        let mut output = Output::default();
        output.push_shared(&long);
        output.owned().extend_from_slice(b"ab");
        output.push_shared(&longer);
        output.push_shared(&long);
        output.owned().extend_from_slice(b"cd");
        output.push_shared(&shared(b's', 1));
        output.push_shared(&longer);
        let parts: [&[u8]; 7] = [&long, b"ab", &longer, &long, b"cd", b"s", &longer];
        (output, parts.concat())
    }

    #[test]
    fn short_replies_are_one_run_of_one_vec() {
        let mut output = Output::default();
        assert!(output.is_empty());
        assert_eq!(output.memory(), 0, "an idle connection keeps nothing");
        output.owned().extend_from_slice(b"+OK\r\n");
        output.push_shared(&shared(b's', SHARED_BYTES_MIN - 1));
        assert_eq!(output.len(), 5 + SHARED_BYTES_MIN - 1);
        assert_eq!(output.single_run().map(<[u8]>::len), Some(output.len()));
        output.advance(2);
        assert_eq!(&output.single_run().unwrap_or_default()[..3], b"K\r\n");
    }

    #[test]
    fn bytes_leave_in_order_wherever_a_socket_stops() {
        let (whole, expected) = mixed();
        assert_eq!(rest(&whole), expected);
        assert_eq!(whole.runs().count(), 6, "`cd` and `s` are one run");
        let edges = [0, 1, 2, 3, 4095, 4096, 4097, 4098, 4099];
        let ends = edges.iter().flat_map(|edge| {
            [edge, &(edge + 4099), &(edge + 8195), &(edge + 12_293)].map(|end| *end)
        });
        for first in ends.clone() {
            for second in ends.clone().filter(|second| *second >= first) {
                let (mut output, _) = mixed();
                output.advance(first);
                output.advance(second - first);
                assert_eq!(rest(&output), expected[second..]);
                assert_eq!(output.len(), expected.len() - second);
            }
        }
    }

    #[test]
    fn what_is_appended_is_shared_as_well() {
        let (other, appended) = mixed();
        let mut output = Output::default();
        output.owned().extend_from_slice(b"before");
        output.append(&other);
        output.append(&Output::default());
        output.append(&other);
        assert_eq!(rest(&output), [b"before", &*appended, &appended].concat());
        assert_eq!(output.shared.len(), 2 * other.shared.len());
    }

    #[test]
    fn what_many_share_is_counted_once_until_the_last_has_sent_it() {
        let sum = Arc::new(AtomicUsize::new(0));
        let counted = || sum.load(Ordering::Relaxed);
        let value = shared(b'v', 2 * SHARED_BYTES_MIN);
        let mut message = Output::default();
        message.push_shared(&value);
        message.push_shared(&shared(b's', 3));
        message.charge(&Arc::new(Charge::new(9000, &sum)));
        let (mut one, mut other) = (Output::default(), Output::default());
        one.append(&message);
        one.append(&message);
        other.push_shared(&value);
        other.append(&message);
        assert_eq!(
            (one.charged(), other.charged()),
            (4 * SHARED_BYTES_MIN, 2 * SHARED_BYTES_MIN)
        );
        drop(message);
        assert_eq!(counted(), 9000);
        one.advance(2 * SHARED_BYTES_MIN + 4);
        assert_eq!(one.charged(), 2 * SHARED_BYTES_MIN);
        one.clear(0);
        assert_eq!((one.charged(), counted()), (0, 9000));
        other.advance(other.len());
        assert_eq!((other.charged(), counted()), (0, 0));
    }

    #[test]
    fn bytes_leave_in_order_one_by_one() {
        let (mut output, expected) = mixed();
        for sent in 0..expected.len() {
            assert_eq!(output.len(), expected.len() - sent);
            assert_eq!(
                output.runs().next().and_then(|run| run.first()),
                expected.get(sent)
            );
            output.advance(1);
        }
        assert!(output.is_empty());
        assert_eq!(output.runs().count(), 0);
    }

    #[test]
    fn a_shared_value_is_neither_copied_nor_kept_longer_than_needed() {
        let value = shared(b'v', SHARED_BYTES_MIN);
        let mut output = Output::default();
        for _ in 0..250 {
            output.push_shared(&value);
        }
        assert_eq!(Arc::strong_count(&value), 251);
        assert_eq!(output.len(), 250 * SHARED_BYTES_MIN);
        assert!(output.runs().all(|run| run.as_ptr() == value.as_ptr()));
        assert!(output.owned().is_empty());
        output.advance(100 * SHARED_BYTES_MIN + 1);
        assert_eq!(Arc::strong_count(&value), 151);
        assert!(
            output.memory() >= 150 * SHARED_BYTES_MIN,
            "what the keyspace drops lives on here"
        );
        output.clear(1024);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!((output.len(), output.memory()), (0, 0));
    }

    #[test]
    fn bytes_may_come_while_others_leave() {
        let value = shared(b'v', SHARED_BYTES_MIN);
        let mut output = Output::default();
        output.owned().extend_from_slice(b"abc");
        output.push_shared(&value);
        output.advance(3 + SHARED_BYTES_MIN);
        output.owned().extend_from_slice(b"d");
        output.push_shared(&value);
        output.owned().extend_from_slice(b"e");
        assert_eq!(rest(&output), [b"d", &*value, b"e"].concat());
    }

    #[test]
    #[should_panic(expected = "took more than there was")]
    fn more_than_there_is_cannot_leave() {
        let (mut output, expected) = mixed();
        output.advance(expected.len() + 1);
    }
}
