//! Keyspace notifications: which events of keys are published, and on which channels.
//!
//! A command's function reports an event behind the change that it made: `context.notify(Class::List, "lpush", key)`,
//! then `context.notify(Class::Generic, "del", key)` where that has emptied the key. The context itself reports a key that
//! is new, and `CommandContext::lookup` one that was read and is not there; what looks for a key in order to change it uses
//! `lookup_to_write`. With no events asked for this is one comparison. Events are published as messages are.

use std::fmt;

/// What an event is about. A node has no streams, evicts no keys and loads no modules; their classes are for
/// configurations of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Commands of any type: DEL, EXPIRE, RENAME.
    Generic,
    /// Commands on strings.
    String,
    /// Commands on lists.
    List,
    /// Commands on sets.
    Set,
    /// Commands on hashes.
    Hash,
    /// Commands on sorted sets.
    SortedSet,
    /// A key's time has come.
    Expired,
    /// A key was evicted.
    Evicted,
    /// Commands on streams.
    Stream,
    /// Modules.
    Module,
    /// A key is new.
    New,
    /// A key was looked for and is not there.
    KeyMiss,
}

/// Which events are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u16);

impl Events {
    /// Reads Redis's letters; `None` where one is not known.
    pub fn parse(letters: &str) -> Option<Events> {
        let mut events = Events::default();
        for letter in letters.chars() {
            events.0 |= match letter {
                'A' => ALL,
                'K' => KEYSPACE,
                'E' => KEYEVENT,
                _ => LETTERS.iter().find(|(_, it)| *it == letter)?.0.bit(),
            };
        }
        Some(events)
    }

    /// Whether nothing is published.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether events of this class are published.
    #[inline]
    pub(crate) fn contain(self, class: Class) -> bool {
        self.0 & class.bit() != 0
    }

    /// Whether they are published on the channel of the key.
    pub(crate) fn are_of_keys(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Whether they are published on the channel of the event.
    pub(crate) fn are_of_events(self) -> bool {
        self.0 & KEYEVENT != 0
    }
}

/// In Redis's order. As there, `n` is not shown beside `A`.
impl fmt::Display for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_all = self.0 & ALL == ALL;
        if is_all {
            formatter.write_str("A")?;
        }
        let shown = |class: Class| self.contain(class) && class != Class::KeyMiss;
        for (_, letter) in LETTERS.iter().filter(|(class, _)| shown(*class) && !is_all) {
            write!(formatter, "{letter}")?;
        }
        let others = [
            (self.are_of_keys(), 'K'),
            (self.are_of_events(), 'E'),
            (self.contain(Class::KeyMiss), 'm'),
        ];
        for (_, letter) in others.iter().filter(|(is_so, _)| *is_so) {
            write!(formatter, "{letter}")?;
        }
        Ok(())
    }
}

impl Class {
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

const LETTERS: &[(Class, char)] = &[
    (Class::Generic, 'g'),
    (Class::String, '$'),
    (Class::List, 'l'),
    (Class::Set, 's'),
    (Class::Hash, 'h'),
    (Class::SortedSet, 'z'),
    (Class::Expired, 'x'),
    (Class::Evicted, 'e'),
    (Class::Stream, 't'),
    (Class::Module, 'd'),
    (Class::New, 'n'),
    (Class::KeyMiss, 'm'),
];

const KEYSPACE: u16 = 1 << 14;
const KEYEVENT: u16 = 1 << 15;

/// `A`: all but what is new and what is missing.
const ALL: u16 = Class::New.bit() - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_and_shown_as_redis_does() {
        for (written, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKEnm", "AKEm"),
            ("g$", "g$"),
            ("Kg", "gK"),
            ("Eg$lshzxetdnm", "AEm"),
            ("tm", "tm"),
            ("n", "n"),
            ("EEmmxx", "xEm"),
        ] {
            let events = Events::parse(written).map(|events| events.to_string());
            assert_eq!(events.as_deref(), Some(shown), "{written}");
        }
        for wrong in ["KEB", "a", "K E", "\u{e9}"] {
            assert_eq!(Events::parse(wrong), None);
        }
        let events = Events::parse("AK").unwrap_or_default();
        assert!(!events.contain(Class::New) && !events.contain(Class::KeyMiss));
        assert!(events.contain(Class::Module) && !events.are_of_events());
    }
}
