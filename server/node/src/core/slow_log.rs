//! The slow log: the newest commands that took long, as SLOWLOG shows them. What is too long of a request is cut as Redis
//! cuts it, and the entries together are bounded in bytes as well as in number.

use std::collections::VecDeque;

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowCommand {
    /// Counts up from 0, and is never used again.
    pub(crate) id: u64,
    /// When it had ended, in seconds of Unix time.
    pub(crate) unix_s: u64,
    pub(crate) took_us: u64,
    /// As many as are shown, the name first.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// The address of its client.
    pub(crate) client: String,
    /// The name of its client, empty if it has none.
    pub(crate) client_name: String,
}

/// The newest slow commands, the last one first.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    entries: VecDeque<SlowCommand>,
    bytes: usize,
    next_id: u64,
}

impl SlowLog {
    /// Adds a command, which gets the next number, and keeps as many entries.
    pub(crate) fn add(&mut self, command: SlowCommand, entries_max: usize) {
        let command = SlowCommand {
            id: self.next_id,
            ..command
        };
        self.next_id += 1;
        self.bytes += command.bytes();
        self.entries.push_front(command);
        self.keep(entries_max);
    }

    /// Forgets the oldest entries beyond as many.
    pub(crate) fn keep(&mut self, entries_max: usize) {
        while self.entries.len() > entries_max || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_back() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The newest, at most as many.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &SlowCommand> {
        self.entries.iter().take(count)
    }

    /// SLOWLOG RESET. Numbers go on.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

impl SlowCommand {
    /// Memory of the entry.
    fn bytes(&self) -> usize {
        let arguments = self.arguments.iter();
        let arguments: usize = arguments.map(|word| word.len() + ARGUMENT_BYTES).sum();
        arguments + self.client.len() + self.client_name.len() + size_of::<SlowCommand>()
    }
}

/// What is kept of a request: as in Redis 32 arguments, the last of which says how many more there were, and 128 bytes
/// of each.
pub(crate) fn shortened<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = arguments.len();
    let shown = match count > ARGUMENTS_MAX {
        true => ARGUMENTS_MAX - 1,
        false => count,
    };
    let mut kept: Vec<Vec<u8>> = arguments.take(shown).map(shortened_argument).collect();
    if shown < count {
        let more = count - shown;
        kept.push(format!("... ({more} more arguments)").into_bytes());
    }
    kept
}

fn shortened_argument(argument: &[u8]) -> Vec<u8> {
    match argument.split_at_checked(ARGUMENT_BYTES_MAX) {
        Some((begin, rest)) if !rest.is_empty() => {
            let more = format!("... ({} more bytes)", rest.len());
            [begin, more.as_bytes()].concat()
        }
        _ => argument.to_vec(),
    }
}

/// All commands are measured where such a short one is slow.
pub(crate) const ALL_MEASURED_BELOW_NS: u64 = 1_000_000;

const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;
/// Memory of an argument beside its bytes.
const ARGUMENT_BYTES: usize = 40;
/// `slowlog-max-len` may be any number.
const BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn command(word: &[u8]) -> SlowCommand {
        SlowCommand {
            id: 0,
            unix_s: 1,
            took_us: 2,
            arguments: shortened([word].into_iter()),
            client: String::new(),
            client_name: String::new(),
        }
    }

    #[test]
    fn the_newest_come_first_and_the_oldest_are_forgotten() {
        let mut log = SlowLog::default();
        for word in [b"a", b"b", b"c"] {
            log.add(command(word), 2);
        }
        let ids = |log: &SlowLog| log.newest(9).map(|one| one.id).collect::<Vec<_>>();
        assert_eq!((log.len(), ids(&log)), (2, vec![2, 1]));
        log.keep(1);
        assert_eq!(ids(&log), [2]);
        log.clear();
        assert_eq!((log.len(), log.bytes), (0, 0));
        log.add(command(b"d"), 2);
        assert_eq!(ids(&log), [3], "numbers go on");
        log.add(command(b"e"), 0);
        assert_eq!((log.len(), log.bytes), (0, 0));
    }

    #[test]
    fn whatever_may_be_kept_takes_bounded_memory() {
        let mut log = SlowLog::default();
        let words = vec![&[b'x'; 4_000][..]; 4_000];
        let arguments = shortened(words.into_iter());
        for _ in 0..10_000 {
            let arguments = arguments.clone();
            log.add(
                SlowCommand {
                    arguments,
                    ..command(b"")
                },
                usize::MAX,
            );
        }
        assert!(log.bytes <= BYTES_MAX, "{}", log.bytes);
        assert!((1_000..10_000).contains(&log.len()), "{}", log.len());
    }

    #[test]
    fn what_is_long_is_cut_as_redis_cuts_it() {
        let long = [b'x'; 129];
        assert_eq!(shortened([&long[..128]].into_iter()), [&long[..128]]);
        let cut = shortened([&long[..]].into_iter()).remove(0);
        assert!(cut.ends_with(b"x... (1 more bytes)") && cut.len() == 128 + 18);
        let words = |count| shortened(vec![&b"w"[..]; count].into_iter());
        assert_eq!(words(32), vec![b"w"; 32]);
        let cut = words(33);
        assert_eq!(
            (cut.len(), &cut[31][..]),
            (32, &b"... (2 more arguments)"[..])
        );
    }
}
