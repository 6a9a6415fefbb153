//! LOCK.SESSION, which an agent carries out in place of a node.

use crate::command::about::{Categories, Docs};
use crate::command::locks::SINCE;
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::error::ErrorReply;

pub(super) const FAMILY: Family = &[&SESSION];

const SESSION: Spec = Spec {
    name: "lock.session",
    about: Docs::new(SINCE, Categories::CONNECTION, &[]),
    arity: -2,
    flags: Flags::FAST.with(Flags::NO_SCRIPT).with(Flags::NO_MULTI),
    keys: KeyPositions::NONE,
    summary: "Ties the locks that an agent's client takes to its connection, or to a session that several connections share",
    syntax: "<ON [session] | OFF>",
    handler: Handler::Keys(|_, _| Err(OF_AGENTS)),
};

const OF_AGENTS: ErrorReply = ErrorReply::fixed(
    "ERR a node keeps each lock until it is released or its ttl is over: LOCK.SESSION is for clients of quorlock agent",
);
