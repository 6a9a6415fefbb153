//! LOCK.SESSION, which an agent carries out in place of a node.

use crate::command::about::Categories;
use crate::command::spec::{Family, Flags, Spec};
use crate::error::ErrorReply;

pub(super) const FAMILY: Family = &[&SESSION];

const SESSION: Spec = Spec::on_keys("lock.session", -2, |_, _| Err(OF_AGENTS))
    .flags(Flags::FAST.with(Flags::NO_SCRIPT).with(Flags::NO_MULTI))
    .about(Categories::CONNECTION, &[]);

const OF_AGENTS: ErrorReply = ErrorReply::fixed(
    "ERR a node keeps each lock until it is released or its ttl is over: LOCK.SESSION is for clients of quorlock agent",
);
