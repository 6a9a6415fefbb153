//! Which commands a selector allows: the rules as they were given, and what follows from them for each command and
//! subcommand of the table.

use std::collections::BTreeMap;

use quorlock_engine::{Categories, Spec, all_specs, numbered_spec};

use crate::acl::RuleError;
use crate::command_numbers;

/// The commands that are allowed. Numbers are those under which commands are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandRules {
    /// The rules begin with all commands, those of later releases included.
    begins_with_all: bool,
    allowed: Vec<u64>,
    /// Of commands that are not allowed as a whole, the first arguments that are.
    first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Each with its sign, in lower case, without those that a later one has replaced.
    rules: Vec<String>,
}

/// What a rule names.
enum NamedCommand {
    Command(usize, &'static Spec),
    Part(usize, String),
    /// A command of Redis that a node does not have: nothing follows from the rule, and rules that were written for Redis
    /// can be taken over.
    Refused(&'static str),
}

impl NamedCommand {
    /// A command, or a command and one of its subcommands.
    fn of(name: &[u8]) -> Option<NamedCommand> {
        let mut words = name.split(|byte| *byte == b'|');
        let (command, part) = (words.next()?, words.next());
        if words.next().is_some() {
            return None;
        }
        let (number, spec) = numbered_spec(command)?;
        let Some(part) = part else {
            return Some(match spec.refusal() {
                None => NamedCommand::Command(number, spec),
                Some(_) => NamedCommand::Refused(spec.name),
            });
        };
        let mut parts = spec.about.subcommands.iter();
        let place = parts.position(|it| it.name.as_bytes().eq_ignore_ascii_case(part))?;
        let name = spec.about.subcommands[place].name;
        let number = command_numbers::part(number, place);
        Some(NamedCommand::Part(number, format!("{}|{name}", spec.name)))
    }
}

impl CommandRules {
    /// `allcommands`, or `nocommands`.
    pub(super) fn set_all(&mut self, is_allowed: bool) {
        *self = CommandRules::default();
        if is_allowed {
            self.begins_with_all = true;
            for number in 0..command_numbers::count() {
                self.set(number, true);
            }
        }
    }

    /// A rule that begins with `+` or `-`.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.rules.len() >= RULES_MAX {
            return Err(RuleError::TooMany);
        }
        let (is_allowed, name) = match rule {
            [b'+', name @ ..] => (true, name),
            [b'-', name @ ..] => (false, name),
            _ => return Err(RuleError::Syntax),
        };
        let text = match name {
            [b'@', category @ ..] => self.set_category(category, is_allowed)?,
            _ if is_allowed && name.contains(&b'|') => self.allow_part(name)?,
            _ => match NamedCommand::of(name).ok_or(RuleError::Unknown)? {
                NamedCommand::Command(number, spec) => {
                    self.set_command(number, spec, is_allowed);
                    spec.name.to_owned()
                }
                NamedCommand::Part(number, name) => {
                    self.set(number, is_allowed);
                    name
                }
                NamedCommand::Refused(name) => name.to_owned(),
            },
        };
        self.note(&text, is_allowed);
        Ok(())
    }

    /// A subcommand, or the first argument of a command that has none.
    fn allow_part(&mut self, name: &[u8]) -> Result<String, RuleError> {
        let end = name.iter().rposition(|byte| *byte == b'|');
        let (command, part) = name.split_at(end.unwrap_or_default());
        let part = &part[1..];
        let named = NamedCommand::of(command).ok_or(RuleError::Unknown)?;
        let (number, spec) = match named {
            NamedCommand::Part(..) => return Err(RuleError::ArgumentOfPart),
            _ if part.is_empty() => return Err(RuleError::Syntax),
            NamedCommand::Command(number, spec) => (number, spec),
            NamedCommand::Refused(_) => return text_of(name),
        };
        if !spec.about.subcommands.is_empty() {
            let Some(NamedCommand::Part(number, name)) = NamedCommand::of(name) else {
                return Err(RuleError::Unknown);
            };
            self.set(number, true);
            return Ok(name);
        }
        let text = text_of(name)?;
        let arguments = self.first_arguments.entry(number).or_default();
        if !arguments.iter().any(|it| it.eq_ignore_ascii_case(part)) {
            arguments.push(part.to_owned());
        }
        Ok(text)
    }

    fn set_category(&mut self, name: &[u8], is_allowed: bool) -> Result<String, RuleError> {
        let category = Categories::named(name).ok_or(RuleError::Unknown)?;
        for (number, spec) in all_specs().enumerate() {
            if spec.description().categories().intersects(category) {
                self.set_command(number, spec, is_allowed);
            }
            for (place, part) in spec.about.subcommands.iter().enumerate() {
                if part.categories().intersects(category) {
                    self.set(command_numbers::part(number, place), is_allowed);
                }
            }
        }
        text_of(name).map(|name| format!("@{name}"))
    }

    /// A command as a whole, with its subcommands.
    fn set_command(&mut self, number: usize, spec: &Spec, is_allowed: bool) {
        self.set(number, is_allowed);
        self.first_arguments.remove(&number);
        for place in 0..spec.about.subcommands.len() {
            self.set(command_numbers::part(number, place), is_allowed);
        }
    }

    fn set(&mut self, number: usize, is_allowed: bool) {
        let (word, bit) = (number / BITS, number % BITS);
        if self.allowed.len() <= word {
            self.allowed.resize(word + 1, 0);
        }
        match is_allowed {
            true => self.allowed[word] |= 1 << bit,
            false => self.allowed[word] &= !(1 << bit),
        }
    }

    /// Keeps the text of a rule, in place of those that it makes void.
    fn note(&mut self, name: &str, is_allowed: bool) {
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(name);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        let sign = if is_allowed { '+' } else { '-' };
        self.rules.push(format!("{sign}{name}"));
    }

    /// Whether a request of the command or subcommand of this number is allowed. `first`: the argument behind its name.
    pub(super) fn allows(&self, number: usize, first: Option<&[u8]>) -> bool {
        let word = self.allowed.get(number / BITS).copied();
        if word.unwrap_or_default() & (1 << (number % BITS)) != 0 {
            return true;
        }
        let arguments = self.first_arguments.get(&number);
        let (Some(arguments), Some(first)) = (arguments, first) else {
            return false;
        };
        arguments.iter().any(|it| it.eq_ignore_ascii_case(first))
    }

    /// Whether nothing was taken away from all commands.
    pub(super) fn are_all(&self) -> bool {
        self.begins_with_all && self.rules.iter().all(|rule| rule.starts_with('+'))
    }

    /// The rules that lead here from a user that may do nothing.
    pub(super) fn describe(&self) -> String {
        let mut text = String::from(if self.begins_with_all {
            "+@all"
        } else {
            "-@all"
        });
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }
}

/// Part of a rule as it is shown, which is printable.
fn text_of(name: &[u8]) -> Result<String, RuleError> {
    if name.len() > RULE_BYTES_MAX {
        return Err(RuleError::TooMany);
    }
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(String::from_utf8_lossy(name).to_ascii_lowercase()),
        false => Err(RuleError::Syntax),
    }
}

const BITS: usize = 64;
const RULES_MAX: usize = 1024;
const RULE_BYTES_MAX: usize = 1024;
