//! The rows of the commands about the connection: AUTH, HELLO, QUIT, RESET, PING, ECHO, SELECT and CLIENT.

use super::row;
use crate::command::about::{Categories, Description};
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
        .flags(
            BEFORE_AUTH
                .with(Flags::AT_ONCE)
                .with(Flags::WHILE_LISTENING),
        )
        .documented("1.0.0", CONNECTION, "Ends the connection"),
    &row("reset", 1, NodeCommand::Reset)
        .flags(
            BEFORE_AUTH
                .with(Flags::AT_ONCE)
                .with(Flags::WHILE_LISTENING),
        )
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
        .documented(
            "2.4.0",
            Categories::NONE,
            "Names, lists and ends connections",
        ),
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
    of(
        "caching",
        3,
        OPEN,
        "6.0.0",
        "Says whether what the next request reads is kept",
    )
    .syntax("<mode: YES|NO>"),
    of("getname", 2, OPEN, "2.6.9", "Tells this connection's name"),
    of(
        "getredir",
        2,
        OPEN,
        "6.0.0",
        "Tells which connection is told of changes in place of this one",
    ),
    of(
        "help",
        2,
        Flags::ALWAYS,
        "5.0.0",
        "Tells of the subcommands",
    ),
    of("id", 2, OPEN, "5.0.0", "Tells this connection's number"),
    of("info", 2, OPEN, "6.2.0", "Tells of this connection"),
    of("kill", -3, ADMIN, "2.4.0", "Closes connections").syntax(
        "<filter: ip:port|<new-format: [ID client-id]|\
         [TYPE <normal_master_slave_pubsub: NORMAL|MASTER|SLAVE|REPLICA|PUBSUB>]|[USER username]|\
         [ADDR ip:port]|[LADDR ip:port]|[SKIPME yes/no]|[MAXAGE maxage]> [...]>",
    ),
    of("list", -2, ADMIN, "2.4.0", "Tells of all connections")
        .syntax("[TYPE <NORMAL|MASTER|REPLICA|PUBSUB>] [ID client-id [client-id ...]]"),
    of(
        "no-evict",
        3,
        ADMIN,
        "7.0.0",
        "Closes this connection after all others",
    )
    .syntax("<enabled: ON|OFF>"),
    of("no-touch", 3, OPEN, "7.2.0", "Has no effect").syntax("<enabled: ON|OFF>"),
    of("pause", -3, ADMIN, "3.0.0", "Holds up requests for a time")
        .syntax("timeout:integer [mode: WRITE|ALL]"),
    of("reply", 3, OPEN, "3.2.0", "Leaves out replies").syntax("<ON|OFF|SKIP>"),
    of(
        "setinfo",
        4,
        OPEN,
        "7.2.0",
        "Names this connection's library",
    )
    .syntax("<attr: LIB-NAME libname|LIB-VER libver>"),
    of("setname", 3, OPEN, "2.6.9", "Names this connection").syntax("connection-name"),
    of(
        "tracking",
        -3,
        OPEN,
        "6.0.0",
        "Tells this connection, or another one, of changes of keys",
    )
    .syntax(
        "<status: ON|OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] \
         [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    ),
    of(
        "trackinginfo",
        2,
        OPEN,
        "6.2.0",
        "Tells how this connection is told",
    ),
    of(
        "unblock",
        -3,
        ADMIN,
        "5.0.0",
        "Ends what another connection waits for",
    )
    .syntax("client-id [TIMEOUT|ERROR]"),
    of("unpause", 2, ADMIN, "6.2.0", "Ends a pause"),
];

const fn of(
    name: &'static str,
    arity: i8,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
) -> Description {
    Description::subcommand(name, arity, flags, since, Categories::CONNECTION, summary)
}
