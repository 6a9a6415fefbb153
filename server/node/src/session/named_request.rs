//! A request whose command was looked up, once: what is asked of it afterwards is read from the command's row.

use quorlock_engine::{Description, ErrorReply, Flags, NodeCommand, Spec, is_arity, numbered_spec};

use crate::acl::CheckedRequest;
use crate::command_numbers as numbers;

/// A request, and the command and the subcommand that it names. Handed on by value: most of it stays in registers, and in
/// a deep pipeline every store waits behind those of new keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedRequest<'a> {
    /// The name first.
    pub(super) arguments: &'a [&'a [u8]],
    /// The command, if the node has it.
    pub(super) spec: Option<&'static Spec>,
    /// The command's number, where there is one.
    pub(super) number: usize,
    part: Option<&'static Description>,
    /// The row that says why the node does not have the command.
    refused: Option<&'static Spec>,
}

impl<'a> NamedRequest<'a> {
    #[inline]
    pub(super) fn of(arguments: &'a [&'a [u8]]) -> Self {
        let name = arguments.first().copied().unwrap_or_default();
        let (number, row) = numbered_spec(name).unzip();
        let spec = row.filter(|row| row.refusal().is_none());
        Self {
            arguments,
            spec,
            number: number.unwrap_or_default(),
            part: spec.and_then(|spec| part_of(spec.about.subcommands, arguments)),
            refused: row.filter(|row| row.refusal().is_some()),
        }
    }

    /// Whether it names this command.
    pub(super) fn is(self, command: NodeCommand) -> bool {
        self.spec.and_then(Spec::node_command) == Some(command)
    }

    /// The names of the command and the subcommand; empty where there is none. As in Redis a subcommand that is unknown
    /// makes the command unknown.
    #[inline]
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match (self.spec, self.part) {
            (Some(spec), Some(part)) => (spec.name, part.name),
            (Some(spec), None) if !self.lacks_part(spec) => (spec.name, ""),
            _ => ("", ""),
        }
    }

    /// The name of both, as Redis writes it.
    pub(super) fn full_name(self) -> String {
        match self.names() {
            (name, "") => name.to_owned(),
            (name, part) => format!("{name}|{part}"),
        }
    }

    /// The number under which it is counted; none where its command or its subcommand is unknown.
    #[inline]
    pub(super) fn counted_as(self) -> Option<usize> {
        let spec = self.spec?;
        match self.part {
            Some(part) => {
                let mut parts = spec.about.subcommands.iter();
                let place = parts.position(|one| std::ptr::eq(one, part))?;
                Some(numbers::part(self.number, place))
            }
            None => (!self.lacks_part(spec)).then_some(self.number),
        }
    }

    /// The flags of the subcommand, or else of the command.
    pub(super) fn flags(self) -> Flags {
        let of_command = self.spec.map_or(Flags::NONE, |spec| spec.flags);
        self.part.map_or(of_command, |part| part.flags)
    }

    /// How many words name it.
    pub(super) fn name_words(self) -> usize {
        1 + usize::from(self.part.is_some())
    }

    /// What a user is checked for; none where the command or the subcommand is unknown.
    pub(super) fn asked(self) -> Option<CheckedRequest<'a>> {
        Some(CheckedRequest {
            spec: self.spec?,
            number: self.counted_as()?,
            is_part: self.part.is_some(),
            arguments: self.arguments,
        })
    }

    /// Whether it names a subcommand, if it has to, and has as many arguments as it must.
    pub(super) fn check(self) -> Result<(), ErrorReply> {
        let words = self.arguments.len();
        match (self.spec, self.part) {
            (None, _) => Err(self.unknown(self.arguments)),
            (Some(_), Some(part)) if is_arity(part.arity, words) => Ok(()),
            (Some(spec), None) if self.lacks_part(spec) => {
                let named = self.arguments.get(1).copied().unwrap_or_default();
                Err(ErrorReply::unknown_subcommand(spec.name, named))
            }
            (Some(spec), None) if is_arity(spec.arity, words) => Ok(()),
            _ => Err(ErrorReply::wrong_arity(&self.full_name())),
        }
    }

    /// The refusal of a command that the node does not have, with the reason, which shows these arguments.
    pub(super) fn unknown(self, shown: &[&[u8]]) -> ErrorReply {
        let unknown = ErrorReply::unknown_command(shown);
        match self.refused.and_then(Spec::refusal) {
            Some(why) => unknown.because(why),
            None => unknown,
        }
    }

    /// Whether it names a subcommand that its command does not have.
    fn lacks_part(self, spec: &Spec) -> bool {
        let is_divided = !spec.about.subcommands.is_empty();
        is_divided && self.part.is_none() && self.arguments.len() > 1
    }
}

/// Redis's words for a subcommand whose arguments its table does not check.
pub(super) fn try_help(command: &str, subcommand: &[u8]) -> ErrorReply {
    let shown = &subcommand[..subcommand.len().min(SHOWN_BYTES_MAX)];
    let shown = String::from_utf8_lossy(shown);
    ErrorReply::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {command} HELP."
    ))
}

const SHOWN_BYTES_MAX: usize = 128;

fn part_of(parts: &'static [Description], arguments: &[&[u8]]) -> Option<&'static Description> {
    let given = arguments.get(1).copied().unwrap_or_default();
    let is_it = |part: &&Description| part.name.as_bytes().eq_ignore_ascii_case(given);
    parts.iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_subcommand_has_the_number_of_its_name() {
        let counted_as = |words: &[&[u8]]| NamedRequest::of(words).counted_as();
        let names: Vec<String> = (numbers::counted().into_iter().map(|one| one.name)).collect();
        for (number, name) in names.iter().enumerate() {
            let words: Vec<&[u8]> = name.split('|').map(str::as_bytes).collect();
            assert_eq!(counted_as(&words), Some(number), "{name}");
        }
        assert_eq!(counted_as(&[b"CLIENT", b"NoSuch"]), None);
        assert_eq!(counted_as(&[b"nosuch"]), None);
        assert_eq!(counted_as(&[b"xadd"]), None, "a reason is no command");
        let number = counted_as(&[b"Client", b"SetName", b"x"]);
        assert_eq!(number.map(|number| &*names[number]), Some("client|setname"));
    }

    #[test]
    fn the_reason_stands_behind_the_words_that_clients_look_for() {
        let refusal = |words: &[&[u8]]| NamedRequest::of(words).unknown(words).to_string();
        let text = refusal(&[b"XAdd", b"key", b"*"]);
        let words =
            "ERR unknown command 'XAdd', with args beginning with: 'key' '*' (a lock server";
        assert!(text.starts_with(words), "{text}");
        assert_eq!(
            refusal(&[b"nosuch"]),
            "ERR unknown command 'nosuch', with args beginning with: "
        );
    }
}
