//! The rows of the commands about the connection: AUTH, HELLO, QUIT, RESET, PING, ECHO, SELECT and CLIENT.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("auth", -2, NodeCommand::Auth)
        .flags(BEFORE_AUTH)
        .of(CONNECTION),
    &row("hello", -1, NodeCommand::Hello)
        .flags(BEFORE_AUTH)
        .of(CONNECTION),
    &row("quit", -1, NodeCommand::Quit)
        .flags(BEFORE_AUTH.with(Flags::AT_ONCE))
        .and(Flags::WHILE_LISTENING)
        .of(CONNECTION),
    &row("reset", 1, NodeCommand::Reset)
        .flags(BEFORE_AUTH.with(Flags::AT_ONCE))
        .and(Flags::WHILE_LISTENING)
        .of(CONNECTION),
    &row("ping", -1, NodeCommand::Ping)
        .flags(Flags::FAST.with(Flags::BRIEF).with(Flags::WHILE_LISTENING))
        .of(CONNECTION),
    &row("echo", 2, NodeCommand::Echo)
        .and(Flags::BRIEF)
        .of(CONNECTION),
    &row("select", 2, NodeCommand::Select)
        .and(Flags::BRIEF)
        .of(CONNECTION),
    &row("client", -2, NodeCommand::Client).divided(CLIENT),
];

const BEFORE_AUTH: Flags = Flags::ALWAYS
    .with(Flags::FAST)
    .with(Flags::NO_SCRIPT)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY)
    .with(Flags::BRIEF);
const CONNECTION: Categories = Categories::CONNECTION;
const OPEN: Flags = Flags::NO_SCRIPT.with(Flags::ALWAYS);
const ADMIN: Flags = OPEN.with(Flags::ADMIN);

/// The subcommands of CLIENT.
const CLIENT: &[Description] = &[
    part("caching", 3, OPEN).of(CONNECTION),
    part("getname", 2, OPEN).of(CONNECTION),
    part("getredir", 2, OPEN).of(CONNECTION),
    help(CONNECTION),
    part("id", 2, OPEN).of(CONNECTION),
    part("info", 2, OPEN).of(CONNECTION),
    part("kill", -3, ADMIN).of(CONNECTION),
    part("list", -2, ADMIN).of(CONNECTION),
    part("no-evict", 3, ADMIN).of(CONNECTION),
    part("no-touch", 3, OPEN).of(CONNECTION),
    part("pause", -3, ADMIN).of(CONNECTION),
    part("reply", 3, OPEN).of(CONNECTION),
    part("setinfo", 4, OPEN).of(CONNECTION),
    part("setname", 3, OPEN).of(CONNECTION),
    part("tracking", -3, OPEN).of(CONNECTION),
    part("trackinginfo", 2, OPEN).of(CONNECTION),
    part("unblock", -3, ADMIN).of(CONNECTION),
    part("unpause", 2, ADMIN).of(CONNECTION),
];
