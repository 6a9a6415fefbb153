//! The rows of the commands about the connection: AUTH, HELLO, QUIT, RESET, PING, ECHO, SELECT and CLIENT.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("auth", -2, NodeCommand::Auth)
        .flags(BEFORE_AUTH)
        .documented("1.0.0", CONNECTION, "Says the password")
        .syntax("[username] password"),
    &row("hello", -1, NodeCommand::Hello)
        .flags(BEFORE_AUTH)
        .documented("6.0.0", CONNECTION, "Chooses the protocol")
        .syntax("[arguments: protover [AUTH username password] [SETNAME clientname]]"),
    &row("quit", -1, NodeCommand::Quit)
        .flags(BEFORE_AUTH.with(Flags::AT_ONCE))
        .and(Flags::WHILE_LISTENING)
        .documented("1.0.0", CONNECTION, "Ends the connection"),
    &row("reset", 1, NodeCommand::Reset)
        .flags(BEFORE_AUTH.with(Flags::AT_ONCE))
        .and(Flags::WHILE_LISTENING)
        .documented(
            "6.2.0",
            CONNECTION,
            "Makes the connection as if it were new",
        ),
    &row("ping", -1, NodeCommand::Ping)
        .flags(Flags::FAST.with(Flags::BRIEF).with(Flags::WHILE_LISTENING))
        .documented("1.0.0", CONNECTION, "Answers")
        .syntax("[message]"),
    &row("echo", 2, NodeCommand::Echo)
        .and(Flags::BRIEF)
        .documented("1.0.0", CONNECTION, "Answers what it is given")
        .syntax("message"),
    &row("select", 2, NodeCommand::Select)
        .and(Flags::BRIEF)
        .documented("1.0.0", CONNECTION, "Chooses a database")
        .syntax("index"),
    &row("client", -2, NodeCommand::Client)
        .divided(CLIENT)
        .since("2.4.0", "Names, lists and ends connections"),
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
    part("caching", 3, OPEN)
        .documented(
            "6.0.0",
            CONNECTION,
            "Says whether what the next request reads is kept",
        )
        .syntax("<mode: YES|NO>"),
    part("getname", 2, OPEN).documented("2.6.9", CONNECTION, "Tells this connection's name"),
    part("getredir", 2, OPEN).documented(
        "6.0.0",
        CONNECTION,
        "Tells which connection is told of changes in place of this one",
    ),
    help("5.0.0", CONNECTION),
    part("id", 2, OPEN).documented("5.0.0", CONNECTION, "Tells this connection's number"),
    part("info", 2, OPEN).documented("6.2.0", CONNECTION, "Tells of this connection"),
    part("kill", -3, ADMIN)
        .documented("2.4.0", CONNECTION, "Closes connections")
        .syntax(
            "<filter: ip:port|<new-format: [ID client-id]|\
         [TYPE <normal_master_slave_pubsub: NORMAL|MASTER|SLAVE|REPLICA|PUBSUB>]|[USER username]|\
         [ADDR ip:port]|[LADDR ip:port]|[SKIPME yes/no]|[MAXAGE maxage]> [...]>",
        ),
    part("list", -2, ADMIN)
        .documented("2.4.0", CONNECTION, "Tells of all connections")
        .syntax("[TYPE <NORMAL|MASTER|REPLICA|PUBSUB>] [ID client-id [client-id ...]]"),
    part("no-evict", 3, ADMIN)
        .documented(
            "7.0.0",
            CONNECTION,
            "Closes this connection after all others",
        )
        .syntax("<enabled: ON|OFF>"),
    part("no-touch", 3, OPEN)
        .documented("7.2.0", CONNECTION, "Has no effect")
        .syntax("<enabled: ON|OFF>"),
    part("pause", -3, ADMIN)
        .documented("3.0.0", CONNECTION, "Holds up requests for a time")
        .syntax("timeout:integer [mode: WRITE|ALL]"),
    part("reply", 3, OPEN)
        .documented("3.2.0", CONNECTION, "Leaves out replies")
        .syntax("<ON|OFF|SKIP>"),
    part("setinfo", 4, OPEN)
        .documented("7.2.0", CONNECTION, "Names this connection's library")
        .syntax("<attr: LIB-NAME libname|LIB-VER libver>"),
    part("setname", 3, OPEN)
        .documented("2.6.9", CONNECTION, "Names this connection")
        .syntax("connection-name"),
    part("tracking", -3, OPEN)
        .documented(
            "6.0.0",
            CONNECTION,
            "Tells this connection, or another one, of changes of keys",
        )
        .syntax(
            "<status: ON|OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] \
         [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        ),
    part("trackinginfo", 2, OPEN).documented(
        "6.2.0",
        CONNECTION,
        "Tells how this connection is told",
    ),
    part("unblock", -3, ADMIN)
        .documented(
            "5.0.0",
            CONNECTION,
            "Ends what another connection waits for",
        )
        .syntax("client-id [TIMEOUT|ERROR]"),
    part("unpause", 2, ADMIN).documented("6.2.0", CONNECTION, "Ends a pause"),
];
