//! A selector: commands together with the keys and channels that they may name. A user has one of its own, and any number
//! of others; a request is allowed where one of them allows all of it.

use quorlock_engine::{GlobBudget, PATTERN_BYTES_MAX};

use crate::acl::RuleError;
use crate::acl::commands::CommandRules;

/// What is allowed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(super) commands: CommandRules,
    /// None where all keys are allowed.
    keys: Patterns<KeyPattern>,
    channels: Patterns<Vec<u8>>,
}

/// All, or what matches one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Patterns<T> {
    All,
    Some(Vec<T>),
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns::Some(Vec::new())
    }
}

/// Keys, and what may be done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    may_read: bool,
    may_write: bool,
    pattern: Vec<u8>,
}

impl Selector {
    /// One in which everything is allowed.
    pub(super) fn all() -> Self {
        let mut selector = Selector {
            keys: Patterns::All,
            channels: Patterns::All,
            ..Selector::default()
        };
        selector.commands.set_all(true);
        selector
    }

    /// A selector in parentheses.
    pub(super) fn parse(rules: &[u8]) -> Result<Self, RuleError> {
        let mut selector = Selector::default();
        for rule in rules.split(u8::is_ascii_whitespace) {
            if !rule.is_empty() {
                selector.apply(rule)?;
            }
        }
        Ok(selector)
    }

    /// Applies a rule; one that is refused changes nothing.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"allkeys" | b"~*" => self.keys = Patterns::All,
            b"resetkeys" => self.keys = Patterns::default(),
            b"allchannels" | b"&*" => self.channels = Patterns::All,
            b"resetchannels" => self.channels = Patterns::default(),
            b"allcommands" | b"+@all" => self.commands.set_all(true),
            b"nocommands" | b"-@all" => self.commands.set_all(false),
            _ => match rule {
                [b'~' | b'%', ..] => self.add_keys(rule)?,
                [b'&', pattern @ ..] => self.add_channels(pattern)?,
                _ => self.commands.apply(rule)?,
            },
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let Patterns::Some(patterns) = &mut self.keys else {
            return Err(RuleError::BehindAllKeys);
        };
        let new = KeyPattern::parse(rule)?;
        match patterns.iter_mut().find(|it| it.pattern == new.pattern) {
            Some(known) => {
                known.may_read |= new.may_read;
                known.may_write |= new.may_write;
                Ok(())
            }
            None => push(patterns, new),
        }
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let Patterns::Some(patterns) = &mut self.channels else {
            return Err(RuleError::BehindAllChannels);
        };
        let pattern = checked(pattern)?;
        match patterns.contains(&pattern) {
            true => Ok(()),
            false => push(patterns, pattern),
        }
    }

    /// Whether everything is allowed, on all keys and channels.
    pub(super) fn allows_all(&self) -> bool {
        self.commands.are_all() && self.has_all_keys() && self.has_all_channels()
    }

    pub(super) fn has_all_keys(&self) -> bool {
        matches!(self.keys, Patterns::All)
    }

    pub(super) fn has_all_channels(&self) -> bool {
        matches!(self.channels, Patterns::All)
    }

    /// Whether every key may be read, whatever its name is.
    pub(super) fn reads_all_keys(&self) -> bool {
        match &self.keys {
            Patterns::All => true,
            Patterns::Some(patterns) => {
                let is_all = |it: &KeyPattern| it.may_read && it.pattern == b"*";
                patterns.iter().any(is_all)
            }
        }
    }

    /// Whether a key may be used like this. A pattern that takes too long to match does not match.
    pub(super) fn allows_key(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        let Patterns::Some(patterns) = &self.keys else {
            return true;
        };
        let mut budget = GlobBudget::default();
        let mut may_be = patterns
            .iter()
            .filter(|pattern| (!reads || pattern.may_read) && (!writes || pattern.may_write));
        may_be.any(|it| budget.matches(&it.pattern, key) == Ok(true))
    }

    /// Whether a channel may be used. A pattern of channels must be one of this selector's, letter by letter.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let Patterns::Some(patterns) = &self.channels else {
            return true;
        };
        let mut budget = GlobBudget::default();
        patterns.iter().any(|pattern| match is_pattern {
            true => pattern == channel,
            false => budget.matches(pattern, channel) == Ok(true),
        })
    }

    /// The rules about keys.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        match &self.keys {
            Patterns::All => b"~*".to_vec(),
            Patterns::Some(patterns) => {
                let patterns: Vec<Vec<u8>> = patterns.iter().map(KeyPattern::show).collect();
                patterns.join(&b' ')
            }
        }
    }

    /// The rules about channels.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        match &self.channels {
            Patterns::All => b"&*".to_vec(),
            Patterns::Some(patterns) => {
                let patterns = patterns.iter().map(|pattern| [b"&", &**pattern].concat());
                patterns.collect::<Vec<Vec<u8>>>().join(&b' ')
            }
        }
    }

    /// The rules about commands.
    pub(crate) fn describe_commands(&self) -> String {
        self.commands.describe()
    }

    /// All rules, as they can be given again.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut rules = vec![self.describe_keys()];
        if !self.has_all_channels() {
            rules.push(b"resetchannels".to_vec());
        }
        rules.push(self.describe_channels());
        rules.push(self.describe_commands().into_bytes());
        rules.retain(|rule| !rule.is_empty());
        rules.join(&b' ')
    }
}

impl KeyPattern {
    /// `~pattern`, or `%R~pattern`, `%W~pattern`, `%RW~pattern`.
    fn parse(rule: &[u8]) -> Result<Self, RuleError> {
        let (letters, mut rest) = match rule {
            [b'~', rest @ ..] => {
                return Ok(Self {
                    may_read: true,
                    may_write: true,
                    pattern: checked(rest)?,
                });
            }
            [_, rest @ ..] => (rest, rest),
            [] => return Err(RuleError::Syntax),
        };
        let (mut may_read, mut may_write) = (false, false);
        for letter in letters {
            rest = &rest[1..];
            match letter {
                b'R' | b'r' if !may_read => may_read = true,
                b'W' | b'w' if !may_write => may_write = true,
                b'~' if may_read || may_write => {
                    return Ok(Self {
                        may_read,
                        may_write,
                        pattern: checked(rest)?,
                    });
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Err(RuleError::Syntax)
    }

    fn show(&self) -> Vec<u8> {
        let sign: &[u8] = match (self.may_read, self.may_write) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        [sign, &*self.pattern].concat()
    }
}

/// A pattern without spaces, of a bounded length.
fn checked(pattern: &[u8]) -> Result<Vec<u8>, RuleError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(RuleError::TooMany);
    }
    match has_spaces(pattern) {
        true => Err(RuleError::Syntax),
        false => Ok(pattern.to_owned()),
    }
}

fn push<T>(patterns: &mut Vec<T>, pattern: T) -> Result<(), RuleError> {
    if patterns.len() >= PATTERNS_MAX {
        return Err(RuleError::TooMany);
    }
    patterns.push(pattern);
    Ok(())
}

/// Whether there are spaces in Redis's sense, or zero bytes: a line of a file could not be read back.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter()
        .any(|byte| matches!(byte, b'\t'..=b'\r' | b' ' | 0))
}

const PATTERNS_MAX: usize = 1024;
