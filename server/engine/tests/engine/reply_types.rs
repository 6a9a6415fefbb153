//! Types of replies that look alike in text: RESP3 shows them, and clients go by them.

use quorlock_engine::{Protocol, Reply};

use crate::harness::{Node, state_of};

fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Nil => "nil",
        Reply::NilArray => "nil array",
        Reply::Set(_) => "set",
        Reply::Array(parts) => match parts.first() {
            Some(Reply::Array(_)) => "array of arrays",
            _ => "array",
        },
        _ => "another",
    }
}

/// Where a reply has the members of a set, and each of them once, it is a set.
#[test]
fn replies_of_sets_and_sorted_sets_have_the_types_that_clients_expect() {
    for (protocol, scored) in [
        (Protocol::Resp2, "array"),
        (Protocol::Resp3, "array of arrays"),
    ] {
        let mut node = Node::default();
        node.caller.protocol = protocol;
        node.run("SADD s a b c d e f g");
        node.run("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g");
        for (command, expected) in [
            ("SMEMBERS s", "set"),
            ("SINTER s s", "set"),
            ("SUNION s s", "set"),
            ("SDIFF s none", "set"),
            ("SPOP s 2", "set"),
            ("SRANDMEMBER s 2", "array"),
            ("SRANDMEMBER s -2", "array"),
            ("ZRANK z none", "nil"),
            ("ZRANK z none WITHSCORE", "nil array"),
            ("ZMPOP 1 none MIN", "nil array"),
            ("ZRANGE z 0 -1", "array"),
            ("ZRANGE z 0 -1 WITHSCORES", scored),
            ("ZINTER 1 z WITHSCORES", scored),
            ("ZRANDMEMBER z 2 WITHSCORES", scored),
            ("ZPOPMIN z", "array"),
            ("ZPOPMIN z 1", scored),
            ("BZPOPMIN z 0", "array"),
        ] {
            let arguments: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let reply = node.execute(&arguments);
            assert_eq!(kind(&reply), expected, "{protocol:?} {command}: {reply:?}");
        }
        assert_eq!(
            state_of(&mut node.replayed(), node.now.node),
            node.state(),
            "the log holds what random members have left"
        );
    }
}
