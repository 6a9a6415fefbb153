//! Whether a user may do what a request asks for.

use quorlock_engine::channels::Subscription;
use quorlock_engine::{Flags, NodeCommand, RequestKey, Spec, keys_of_request};

use crate::acl::selector::Selector;
use crate::acl::user::User;

/// A request whose command is known. One whose arguments are not right in number is refused elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedRequest<'a> {
    pub(crate) spec: &'static Spec,
    /// Under which the command, or the subcommand, is counted.
    pub(crate) number: usize,
    /// It names a subcommand.
    pub(crate) is_part: bool,
    /// The name first.
    pub(crate) arguments: &'a [&'a [u8]],
}

/// Why a request is refused. Of several reasons the last one is given that no selector got beyond, as in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The command is not allowed.
    Command,
    /// This key is not.
    Key(Vec<u8>),
    /// This channel is not.
    Channel(Vec<u8>),
    /// This option of SORT reads keys of any name.
    Sort(&'static str),
}

impl Denial {
    fn rank(&self) -> u8 {
        match self {
            Denial::Command => 0,
            Denial::Key(_) => 1,
            Denial::Channel(_) => 2,
            Denial::Sort(_) => 3,
        }
    }
}

/// What a request names, found once for all selectors.
struct RequestedAccess<'a> {
    keys: Vec<RequestKey<'a>>,
    channels: &'a [&'a [u8]],
    is_pattern: bool,
    reads_any: Option<&'static str>,
    /// It tells the values of keys that it does not name.
    tells_all: bool,
}

impl User {
    /// Whether a request is allowed.
    pub(crate) fn check(&self, asked: CheckedRequest<'_>) -> Result<(), Denial> {
        let named = RequestedAccess::of(asked);
        // The position among the keys or channels decides between two of the same rank.
        let mut denial = (Denial::Command, 0);
        for selector in self.selectors_all() {
            match selector.check(asked, &named) {
                Ok(()) => return Ok(()),
                Err(other) => {
                    if (other.0.rank(), other.1) > (denial.0.rank(), denial.1) {
                        denial = other;
                    }
                }
            }
        }
        Err(denial.0)
    }
}

impl Selector {
    fn check(
        &self,
        asked: CheckedRequest<'_>,
        named: &RequestedAccess<'_>,
    ) -> Result<(), (Denial, usize)> {
        let first = asked.arguments.get(1 + usize::from(asked.is_part)).copied();
        let is_free = asked.spec.flags.contains(Flags::NO_AUTH);
        if !is_free && !self.commands.allows(asked.number, first) {
            return Err((Denial::Command, 0));
        }
        for (place, key) in named.keys.iter().enumerate() {
            let (reads, writes) = (key.access.reads(), key.access.writes());
            if !self.allows_key(key.name, reads, writes) {
                return Err((Denial::Key(key.name.to_owned()), place));
            }
        }
        for (place, channel) in named.channels.iter().enumerate() {
            if !self.allows_channel(channel, named.is_pattern) {
                return Err((Denial::Channel(channel.to_vec()), place));
            }
        }
        if named.tells_all && !self.reads_all_keys() {
            return Err((Denial::Key(b"*".to_vec()), 0));
        }
        match named.reads_any {
            Some(option) if !self.reads_all_keys() => Err((Denial::Sort(option), 0)),
            _ => Ok(()),
        }
    }
}

impl<'a> RequestedAccess<'a> {
    fn of(asked: CheckedRequest<'a>) -> Self {
        let (spec, arguments) = (asked.spec, asked.arguments);
        let (channels, is_pattern) = match (spec.node_command(), spec.name) {
            (Some(NodeCommand::Subscribe(to)), _) => (&arguments[1..], to == Subscription::Pattern),
            (None, "publish" | "spublish") => (arguments.get(1..2).unwrap_or_default(), false),
            _ => (&arguments[..0], false),
        };
        RequestedAccess {
            // A command whose keys cannot be told refuses the request itself.
            keys: keys_of_request(spec.description(), arguments).unwrap_or_default(),
            channels,
            is_pattern,
            reads_any: option_that_reads_any(spec, arguments),
            // Tokens and owners, with which locks can be released.
            tells_all: match spec.name {
                "lock.list" => true,
                "monitor" => arguments.len() > 1,
                _ => false,
            },
        }
    }
}

/// The option of a SORT that reads keys which it does not name. In doubt an option does.
fn option_that_reads_any(spec: &Spec, arguments: &[&[u8]]) -> Option<&'static str> {
    if !matches!(spec.name, "sort" | "sort_ro") {
        return None;
    }
    let options = arguments.windows(2).skip(2);
    let mut found = options.filter_map(|pair| {
        let is = |name: &[u8]| pair[0].eq_ignore_ascii_case(name);
        if is(b"by") && pair[1].contains(&b'*') {
            return Some("BY");
        }
        (is(b"get") && pair[1] != b"#").then_some("GET")
    });
    found.next()
}
