//! Which refused requests are worth a line of the log: each kind once a minute.
//!
//! A program that sends what is no step of a lock sends it again and again. The kind is the command and the reason; a line has no
//! value, and no argument that the reason does not name.
//!
//! Invariant: the number of kinds is bounded. What comes beyond it in a minute is counted and not shown.

use std::time::Duration;

use quorlock_clock::ClientInstant;
use quorlock_engine::Reply;

/// The kinds of the last minute.
#[derive(Debug, Default)]
pub struct RefusalLog {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    /// The command in capital letters, and the text of the refusal.
    command: String,
    reason: String,
    said: ClientInstant,
    /// How often it came since.
    unsaid: u64,
}

impl RefusalLog {
    /// A reply leaves. Returns the line to be logged, if it is a refusal whose kind is due.
    pub fn note(&mut self, now: ClientInstant, command: &[u8], reply: &Reply) -> Option<String> {
        let Reply::Error(error) = reply else {
            return None;
        };
        if error.code() != b"NOTALOCK" {
            return None;
        }
        let command = String::from_utf8_lossy(command).to_ascii_uppercase();
        let text = String::from_utf8_lossy(error.as_bytes());
        let reason = text.strip_prefix("NOTALOCK ").unwrap_or(&text).to_owned();
        let is_over = |kind: &Kind| now.since(kind.said) >= EVERY;
        let known =
            (self.kinds.iter_mut()).find(|kind| kind.command == command && kind.reason == reason);
        let before = match known {
            Some(kind) if !is_over(kind) => {
                kind.unsaid += 1;
                return None;
            }
            Some(kind) => {
                kind.said = now;
                std::mem::take(&mut kind.unsaid)
            }
            None => {
                self.kinds.retain(|kind| !is_over(kind));
                if self.kinds.len() >= KINDS_MAX {
                    return None;
                }
                self.kinds.push(Kind {
                    command: command.clone(),
                    reason: reason.clone(),
                    said: now,
                    unsaid: 0,
                });
                0
            }
        };
        let again = match before {
            0 => String::new(),
            count => format!(" ({count} more of this kind since the last line)"),
        };
        Some(format!("refused {command} with -NOTALOCK: {reason}{again}"))
    }
}

/// How long nothing more is said of a kind.
const EVERY: Duration = Duration::from_secs(60);
/// More than programs have. A reason may name a length, so the kinds are not counted beforehand.
const KINDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use quorlock_engine::ErrorReply;

    use super::*;

    fn refusal(reason: &str) -> Reply {
        Reply::Error(ErrorReply::new(format!("NOTALOCK {reason}")))
    }

    fn at(seconds: u64) -> ClientInstant {
        let nanos = 1_000_000_000 * (100 + seconds);
        ClientInstant::from_nanos(nanos, nanos)
    }

    #[test]
    fn a_kind_is_said_once_a_minute_with_the_number_of_what_was_not_said() {
        let mut log = RefusalLog::default();
        let mut said = Vec::new();
        for second in 0..=121 {
            let line = log.note(at(second), b"incr", &refusal("it counts. Use SET"));
            said.extend(line.map(|line| (second, line)));
        }
        let line = "refused INCR with -NOTALOCK: it counts. Use SET";
        let again = format!("{line} (59 more of this kind since the last line)");
        assert_eq!(
            said,
            [(0, line.to_owned()), (60, again.clone()), (120, again)]
        );
        // Another command, and another reason, is another kind.
        for (command, reason) in [("DECR", "it counts. Use SET"), ("incr", "no ttl")] {
            let line = log.note(at(121), command.as_bytes(), &refusal(reason));
            assert!(line.is_some(), "{command} {reason}");
        }
    }

    #[test]
    fn other_replies_are_not_said_and_kinds_are_bounded_until_they_are_over() {
        let mut log = RefusalLog::default();
        let error = Reply::Error(ErrorReply::fixed("NOQUORUM 2 of 5"));
        for reply in [Reply::Ok, Reply::Nil, error] {
            assert_eq!(log.note(at(0), b"set", &reply), None);
        }
        let kinds = (0..KINDS_MAX).map(|number| refusal(&number.to_string()));
        for reply in kinds {
            assert!(log.note(at(0), b"set", &reply).is_some());
        }
        assert_eq!(log.note(at(59), b"set", &refusal("one more")), None);
        assert!(log.note(at(60), b"set", &refusal("one more")).is_some());
        assert_eq!(log.kinds.len(), 1, "the others are over");
    }
}
