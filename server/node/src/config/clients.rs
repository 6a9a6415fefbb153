//! Limits on clients as they are written: `client-output-buffer-limit` and `maxmemory-clients`.

use std::time::Duration;

use super::error::Problem;
use super::value::{integer, memory, one_of};

/// How much may wait for one client (`client-output-buffer-limit`), for one class of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// A client with this much is closed at once; 0: no limit.
    pub hard_bytes: u64,
    /// A client that has this much for `soft` is closed; 0: no limit.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft: Duration,
}

/// The limits of all classes. A node has normal clients only; the others are kept as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Every client of a node.
    pub normal: OutputLimit,
    /// Replicas, of which a node has none.
    pub replica: OutputLimit,
    /// Subscribers, of which this release has none.
    pub pubsub: OutputLimit,
}

/// What the buffers of all clients may take together (`maxmemory-clients`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMemory {
    /// So many bytes; 0: no limit.
    Bytes(u64),
    /// So many percent of the machine's memory.
    Percent(u8),
}

impl OutputLimits {
    /// What a node has where nothing is said.
    pub(super) const DEFAULT: Self = Self {
        normal: OutputLimit::new(128 << 20, 8 << 20, 60),
        replica: OutputLimit::new(256 << 20, 64 << 20, 60),
        pubsub: OutputLimit::new(32 << 20, 8 << 20, 60),
    };

    /// These limits with those of some classes replaced: `<class> <hard> <soft> <soft seconds>`, as
    /// often as wanted, as words or as one text (CONFIG SET).
    pub(super) fn with(mut self, values: &[String]) -> Result<Self, Problem> {
        let words: Vec<&str> = values
            .iter()
            .flat_map(|value| value.split_ascii_whitespace())
            .collect();
        let (groups, []) = words.as_chunks::<4>() else {
            return Err(Problem::wrong_number_of_arguments());
        };
        if groups.is_empty() {
            return Err(Problem::wrong_number_of_arguments());
        }
        for [class, hard, soft, seconds] in groups {
            let limit = OutputLimit {
                hard_bytes: memory(hard, 0, BYTES_MAX)?,
                soft_bytes: memory(soft, 0, BYTES_MAX)?,
                soft: Duration::from_secs(integer::<u32>(seconds, 0, 2_147_483_647)?.into()),
            };
            match one_of(CLASSES, class)? {
                ClientClass::Normal => self.normal = limit,
                ClientClass::Replica => self.replica = limit,
                ClientClass::Pubsub => self.pubsub = limit,
            }
        }
        Ok(self)
    }

    /// As CONFIG GET of Redis shows them.
    pub(super) fn show(&self) -> String {
        format!(
            "normal {} slave {} pubsub {}",
            self.normal.show(),
            self.replica.show(),
            self.pubsub.show()
        )
    }
}

impl OutputLimit {
    const fn new(hard_bytes: u64, soft_bytes: u64, soft_seconds: u64) -> Self {
        Self {
            hard_bytes,
            soft_bytes,
            soft: Duration::from_secs(soft_seconds),
        }
    }

    fn show(&self) -> String {
        format!(
            "{} {} {}",
            self.hard_bytes,
            self.soft_bytes,
            self.soft.as_secs()
        )
    }
}

impl ClientMemory {
    /// Bytes, or a number with `%`.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        match text.strip_suffix('%') {
            Some(percent) if percent.parse::<u64>().is_ok_and(|it| it > 100) => Err(Problem::new(
                "percentage argument must be less or equal to 100",
            )),
            Some(percent) => integer(percent, 1, 100).map(Self::Percent),
            None => memory(text, 0, BYTES_MAX).map(Self::Bytes),
        }
    }

    pub(super) fn show(self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum ClientClass {
    Normal,
    Replica,
    Pubsub,
}

const CLASSES: &[(&str, ClientClass)] = &[
    ("normal", ClientClass::Normal),
    ("replica", ClientClass::Replica),
    ("slave", ClientClass::Replica),
    ("pubsub", ClientClass::Pubsub),
];

/// One terabyte: nothing larger makes sense, and sums cannot overflow.
const BYTES_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn with(text: &str) -> Result<OutputLimits, Problem> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        OutputLimits::DEFAULT.with(&words)
    }

    #[test]
    fn classes_that_are_not_named_keep_their_limits() {
        let limits = with("pubsub 1mb 1k 3 Normal 2gb 0 0").unwrap();
        assert_eq!(limits.normal, OutputLimit::new(2 << 30, 0, 0));
        assert_eq!(limits.pubsub, OutputLimit::new(1 << 20, 1_000, 3));
        assert_eq!(limits.replica, OutputLimits::DEFAULT.replica);
        assert_eq!(
            limits.show(),
            "normal 2147483648 0 0 slave 268435456 67108864 60 pubsub 1048576 1000 3"
        );
        let slave = with("slave 5 4 3").unwrap();
        assert_eq!(slave.replica, OutputLimit::new(5, 4, 3));
    }

    #[test]
    fn the_words_may_be_one_text_as_config_set_sends_them() {
        let text = "normal 1 2 3 replica 4 5 6".to_owned();
        assert_eq!(
            OutputLimits::DEFAULT
                .with(std::slice::from_ref(&text))
                .unwrap(),
            with(&text).unwrap()
        );
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for text in [
            "",
            "normal",
            "normal 1 2",
            "normal 1 2 3 4",
            "master 1 2 3",
            "normal x 2 3",
            "normal 1 -2 3",
            "normal 1 2 x",
            "normal 1 2 -3",
            "normal 1 2 99999999999",
            "normal 2048gb 0 0",
            "normal 1 2 3 replica 1 2",
        ] {
            assert!(with(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_of_clients_is_bytes_or_percent() {
        for (text, expected) in [
            ("0", ClientMemory::Bytes(0)),
            ("256mb", ClientMemory::Bytes(256 << 20)),
            ("1%", ClientMemory::Percent(1)),
            ("100%", ClientMemory::Percent(100)),
        ] {
            let parsed = ClientMemory::parse(text).unwrap();
            assert_eq!(parsed, expected);
            assert_eq!(ClientMemory::parse(&parsed.show()).unwrap(), expected);
        }
        for text in ["", "%", "0%", "101%", "-1%", "1.5%", "x", "2048gb"] {
            assert!(ClientMemory::parse(text).is_err(), "{text}");
        }
    }
}
