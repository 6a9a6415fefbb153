//! Transactions of a node with an upstream.

use quorlock_engine::{ErrorReply, Reply};

use super::{Tested, text};

#[test]
fn a_transaction_is_one_request() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["MULTI", "SET k v", "get k", "EXEC", "PING"]);
    assert_eq!(tested.received(client), "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    let request = tested.take_one();
    assert!(request.is_transaction);
    assert_eq!(text(&request), "SET k v,get k");
    let replies = vec![Reply::Ok, Reply::bulk("v")];
    request.answer.send(Reply::Array(replies));
    assert_eq!(tested.received(client), "*2\r\n+OK\r\n$1\r\nv\r\n+PONG\r\n");

    tested.send(client, &["MULTI", "SET k v", "EXEC"]);
    tested.received(client);
    let error = ErrorReply::fixed("NOTALOCK two steps");
    tested.take_one().answer.send(Reply::Error(error));
    assert_eq!(tested.received(client), "-NOTALOCK two steps\r\n");

    tested.send(client, &["MULTI", "EXEC"]);
    tested.received(client);
    assert!(tested.take_one().commands.is_empty());
}

#[test]
fn a_transaction_with_a_command_about_the_node_is_refused() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["MULTI", "SET k v", "PING", "EXEC"]);
    let replies = tested.received(client);
    assert!(
        replies.contains("\r\n-NOTALOCK a transaction on the agent"),
        "{replies}"
    );
    assert!(replies.contains("send PING before MULTI"), "{replies}");
    assert!(replies.contains("\r\n-EXECABORT "), "{replies}");
    let discarded = ["MULTI", "SET k v", "DISCARD"];
    tested.send(client, &discarded);
    assert_eq!(tested.received(client), "+OK\r\n+QUEUED\r\n+OK\r\n");
    assert!(tested.take().is_empty());
}
