//! What makes two copies of a message one: a tail behind its bytes, by which agents know them.
//!
//! Who listens on a node without an agent sees the message with the tail.

use std::fmt::Write as _;

use bytes::Bytes;

/// Who has published a message, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The run of an agent.
    pub(crate) run: u64,
    /// Which of its messages: each has a larger number than those before.
    pub(crate) number: u64,
    /// The one before on the same channel, 0 where there was none or that is not known.
    pub(crate) before: u64,
}

impl Envelope {
    /// The message with its tail.
    pub(crate) fn around(&self, payload: &[u8]) -> Bytes {
        let mut tail = String::with_capacity(TAIL_BYTES);
        write!(
            tail,
            "{MARK}{:016x}-{:016x}-{:016x}",
            self.run, self.number, self.before
        )
        .expect("writing to memory cannot fail");
        Bytes::from([payload, tail.as_bytes()].concat())
    }

    /// What was published, and by whom; none where no agent has.
    pub(crate) fn of(message: &Bytes) -> Option<(Self, Bytes)> {
        let at = message.len().checked_sub(TAIL_BYTES)?;
        let numbers = message[at..].strip_prefix(MARK.as_bytes())?;
        let part = |index: usize| {
            let digits = &numbers[17 * index..17 * index + 16];
            let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
            let text = std::str::from_utf8(digits).ok()?;
            let number = u64::from_str_radix(text, 16).ok()?;
            digits.iter().all(is_digit).then_some(number)
        };
        if numbers[16] != b'-' || numbers[33] != b'-' {
            return None;
        }
        let envelope = Self {
            run: part(0)?,
            number: part(1)?,
            before: part(2)?,
        };
        Some((envelope, message.slice(..at)))
    }
}

const MARK: &str = "~message-";
/// The mark, and three numbers of sixteen digits with a dash between them.
pub(crate) const TAIL_BYTES: usize = 9 + 3 * 16 + 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let envelope = Envelope {
            run: u64::MAX,
            number: 2,
            before: 1,
        };
        for payload in [&b""[..], b"text", b"\xff\0\r\n"] {
            let message = envelope.around(payload);
            assert_eq!(message.len(), payload.len() + TAIL_BYTES);
            let (read, inside) = Envelope::of(&message).unwrap();
            assert_eq!((read, &inside[..]), (envelope, payload));
            // One that was published by a caller as it came is a message like any other.
            let (_, inside) = Envelope::of(&envelope.around(&message)).unwrap();
            assert_eq!(inside, message);
        }
    }

    #[test]
    fn what_only_looks_so_is_the_message_of_a_plain_client() {
        let whole = Envelope {
            run: 10,
            number: 11,
            before: 12,
        }
        .around(b"text");
        for at in 4..whole.len() {
            let mut other = whole.to_vec();
            other[at] = b'X';
            assert_eq!(Envelope::of(&other.into()), None, "{at}");
            assert_eq!(Envelope::of(&whole.slice(..at)), None, "{at}");
        }
        assert_eq!(Envelope::of(&Bytes::new()), None);
    }
}
