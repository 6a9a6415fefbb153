//! What is known of a command without running it: its row in the table.

use crate::command::about::{Categories, Description, Docs, KeyAccess};
pub use crate::command::flags::{Flags, KeyPositions};
pub use crate::command::handler::NodeCommand;
pub(crate) use crate::command::handler::{Handler, KeysFunction, ScriptCommand};
use crate::number::parse_integer;

/// What is known of a command without running it.
#[derive(Debug)]
pub struct Spec {
    /// The name in lower case.
    pub name: &'static str,
    /// The number of arguments with the name; negative means at least that many.
    pub arity: i8,
    /// What kind of command it is.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: KeyPositions,
    /// What its execution does not depend on.
    pub about: Docs,
    pub(crate) handler: Handler,
}

/// A family is the commands of one file.
pub(crate) type Family = &'static [&'static Spec];

/// How the row of a command is written: what executes it, and then what differs from other rows.
impl Spec {
    /// A row that says nothing yet but name, arity and what executes the command.
    pub(crate) const fn new(name: &'static str, arity: i8, handler: Handler) -> Spec {
        Spec {
            name,
            arity,
            flags: Flags::NONE,
            keys: KeyPositions::NONE,
            about: Docs::new(Categories::NONE, &[]),
            handler,
        }
    }

    /// That of a command on the key that is its first argument.
    pub(crate) const fn on_key(name: &'static str, arity: i8, function: KeysFunction) -> Spec {
        Spec::on_keys(name, arity, function).keys(KeyPositions::ONE)
    }

    /// That of a command on other keys, or on none.
    pub(crate) const fn on_keys(name: &'static str, arity: i8, function: KeysFunction) -> Spec {
        Spec::new(name, arity, Handler::Keys(function))
    }

    /// The row of another command on keys, which differs in these and in what follows.
    pub(crate) const fn variant(mut self, name: &'static str, function: KeysFunction) -> Spec {
        self.name = name;
        self.handler = Handler::Keys(function);
        self
    }

    pub(crate) const fn arity(mut self, arity: i8) -> Spec {
        self.arity = arity;
        self
    }

    pub(crate) const fn flags(mut self, flags: Flags) -> Spec {
        self.flags = flags;
        self
    }

    /// These flags as well.
    pub(crate) const fn and(mut self, flags: Flags) -> Spec {
        self.flags = self.flags.with(flags);
        self
    }

    pub(crate) const fn keys(mut self, keys: KeyPositions) -> Spec {
        self.keys = keys;
        self
    }

    /// What it is for, and what it does with its keys.
    pub(crate) const fn about(
        mut self,
        categories: Categories,
        access: &'static [KeyAccess],
    ) -> Spec {
        self.about = Docs::new(categories, access);
        self
    }

    /// This argument says how many keys follow it.
    pub(crate) const fn counted_at(mut self, argument: usize) -> Spec {
        self.about.key_count_at = argument;
        self
    }

    pub(crate) const fn subcommands(mut self, subcommands: &'static [Description]) -> Spec {
        self.about.subcommands = subcommands;
        self
    }
}

impl Spec {
    /// What is told of it.
    pub const fn description(&self) -> Description {
        Description {
            name: self.name,
            arity: self.arity,
            flags: self.flags,
            keys: self.keys,
            about: self.about,
        }
    }

    /// Which command of the node a request is; none where the engine executes it. Of a command that both execute the
    /// subcommand decides.
    #[inline]
    pub fn node_command_of(&self, arguments: &[&[u8]]) -> Option<NodeCommand> {
        match self.handler {
            Handler::Node(command) => Some(command),
            Handler::KeysAndNode(_, command, parts) => {
                let given = arguments.get(1)?;
                let is_it = |part: &&str| part.as_bytes().eq_ignore_ascii_case(given);
                parts.iter().any(is_it).then_some(command)
            }
            _ => None,
        }
    }

    /// Which command of the node it is; none where the engine executes it, or some of its subcommands.
    pub const fn node_command(&self) -> Option<NodeCommand> {
        match self.handler {
            Handler::Node(command) => Some(command),
            _ => None,
        }
    }

    /// Why a node does not have the command, if it does not.
    pub const fn refusal(&self) -> Option<&'static str> {
        match self.handler {
            Handler::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Whether the engine executes it.
    pub(crate) const fn is_of_engine(&self) -> bool {
        matches!(
            self.handler,
            Handler::Keys(_) | Handler::KeysAndNode(..) | Handler::Script(_)
        )
    }

    /// Which argument is the first key, if the engine executes the command and it has one.
    pub(crate) fn first_key(&self) -> Option<usize> {
        match usize::try_from(self.keys.first) {
            _ if !self.is_of_engine() => None,
            Ok(0) if self.flags.contains(Flags::SCRIPT) => Some(SCRIPT_KEY),
            Ok(position) if position > 0 => Some(position),
            _ => None,
        }
    }

    /// The arguments that are keys.
    pub(crate) fn keys_of<'a>(
        &self,
        arguments: &'a [&'a [u8]],
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let KeyPositions { first, last, step } = self.keys;
        let distance = usize::from(last.unsigned_abs());
        let end = match last < 0 {
            true => arguments.len().saturating_sub(distance.saturating_sub(1)),
            false => distance.saturating_add(1).min(arguments.len()),
        };
        let keys = match first {
            0 => &[],
            _ => arguments
                .get(usize::from(first.unsigned_abs())..end)
                .unwrap_or_default(),
        };
        let step = usize::from(step.unsigned_abs()).max(1);
        let counted = self.counted_keys(arguments).iter();
        keys.iter().step_by(step).chain(counted).copied()
    }

    /// The keys whose number stands in an argument before them.
    fn counted_keys<'a>(&self, arguments: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        let at = self.about.key_count_at;
        let count = arguments.get(at).filter(|_| at > 0);
        let count = count.and_then(|count| parse_integer(count));
        let count = count.and_then(|count| usize::try_from(count).ok());
        let after = arguments.get(at.saturating_add(1)..).unwrap_or_default();
        count
            .and_then(|count| after.get(..count))
            .unwrap_or_default()
    }

    /// Whether the command may have that many arguments, its name included.
    pub(crate) fn accepts(&self, arguments: usize) -> bool {
        is_arity(self.arity, arguments)
    }
}

/// Whether a command of this arity may have that many arguments, its name included. As in Redis an
/// arity is the exact number, or the least where it is negative.
pub fn is_arity(arity: i8, arguments: usize) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 {
        arguments >= needed
    } else {
        arguments == needed
    }
}

/// `EVAL script 1 key`.
const SCRIPT_KEY: usize = 3;
