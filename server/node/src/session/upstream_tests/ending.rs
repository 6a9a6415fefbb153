//! The end of a node with an upstream, and of its clients.

use quorlock_engine::Reply;

use super::Tested;

#[test]
fn a_node_that_stops_waits_for_answers_and_hands_over_no_more() {
    let mut tested = Tested::new();
    let (client, late) = (tested.connect(), tested.connect());
    tested.send(client, &["SET k v"]);
    tested.node.stop().unwrap();
    let request = tested.take_one();
    let reply = tested.ask(late, "PUBLISH c m");
    assert!(
        reply.starts_with("-ERR node ") && reply.contains("grants no more"),
        "{reply}"
    );
    assert!(tested.take().is_empty());
    tested.node.drain();
    assert_eq!(tested.received(client), "", "it is waited for");
    request.answer.send(Reply::Ok);
    tested.node.drain();
    assert_eq!(tested.received(client), "+OK\r\n");
}

#[test]
fn an_answer_may_outlive_the_node() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["SET k v"]);
    let request = tested.take_one();
    drop(tested);
    request.answer.send(Reply::Ok);
}

#[test]
fn a_killed_client_gets_nothing_and_asks_for_nothing_more() {
    let mut tested = Tested::new();
    let (client, other) = (tested.connect(), tested.connect());
    tested.send(client, &["SET k v", "SET l v"]);
    assert_eq!(tested.ask(other, "CLIENT KILL ID 1"), ":1\r\n");
    assert!(tested.node.is_closed(client));
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "");
    assert!(tested.take().is_empty());
    assert_eq!(tested.left(), [1]);
}
