//! Channels of a node with an upstream.

use quorlock_engine::{ErrorReply, Reply};

use super::{Tested, text};
use crate::config::Config;

#[test]
fn a_client_listens_once_the_upstream_says_so_and_gets_what_is_published_from_then_on() {
    let mut tested = Tested::new();
    let (client, other) = (tested.connect(), tested.connect());
    tested.send(client, &["SUBSCRIBE a b", "PING"]);
    tested.publish("a", "early");
    assert_eq!(tested.received(client), "");
    let asked = tested.take_subscription();
    assert_eq!((asked.client, asked.is_pattern), (1, false));
    assert_eq!(asked.names, ["a", "b"]);
    asked.answer.send(Reply::Ok);
    assert_eq!(
        tested.received(client),
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n\
         *2\r\n$4\r\npong\r\n$0\r\n\r\n"
    );
    tested.publish("a", "one");
    assert_eq!(
        tested.received(client),
        "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\none\r\n"
    );
    assert_eq!(
        tested.ask(other, "PUBSUB NUMSUB a c"),
        "*4\r\n$1\r\na\r\n:1\r\n$1\r\nc\r\n:0\r\n"
    );
    let refused = tested.ask(client, "GET a");
    assert!(
        refused.starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"),
        "{refused}"
    );
    tested.publish("c", "for nobody");
    tested.publish("b", "two");
    assert!(
        tested
            .received(client)
            .ends_with("$1\r\nb\r\n$3\r\ntwo\r\n")
    );
}

#[test]
fn a_refused_subscription_is_none() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["PSUBSCRIBE a*", "PING"]);
    let asked = tested.take_subscription();
    assert!(asked.is_pattern);
    asked
        .answer
        .send(Reply::Error(ErrorReply::fixed("NOQUORUM no")));
    assert_eq!(tested.received(client), "-NOQUORUM no\r\n+PONG\r\n");
    tested.publish("abc", "one");
    assert_eq!(tested.received(client), "");
    tested.send(client, &["SSUBSCRIBE a"]);
    assert!(
        tested
            .received(client)
            .starts_with("-NOTALOCK the agent has no sharded channels")
    );
    tested.send(client, &["PUBLISH a b"]);
    assert_eq!(text(&tested.take_one()), "PUBLISH a b");
}

#[test]
fn the_upstream_is_told_of_what_ends() {
    let mut tested = Tested::at_once();
    let client = tested.connect();
    tested.ask(client, "HELLO 3");
    tested.ask(client, "SUBSCRIBE a b c");
    tested.ask(client, "PSUBSCRIBE p*");
    assert_eq!(
        tested.ask(client, "UNSUBSCRIBE b x"),
        ">3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:3\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:3\r\n"
    );
    assert_eq!(tested.ended(), ["1 false b"]);
    tested.publish("a", "one");
    assert_eq!(
        tested.received(client),
        ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\none\r\n"
    );
    assert_eq!(tested.ask(client, "RESET"), "+RESET\r\n");
    assert_eq!(tested.ended(), ["1 false a c", "1 true p*"]);
    tested.publish("a", "two");
    assert_eq!(tested.received(client), "");
}

#[test]
fn a_client_that_goes_while_it_waits_to_listen_has_gone() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["SUBSCRIBE a"]);
    tested.node.end(client);
    tested.run();
    assert!(tested.node.is_closed(client));
    assert_eq!(tested.left(), [1]);
    tested.take_subscription().answer.send(Reply::Ok);
    tested.publish("a", "one");
    tested.run();
}

#[test]
fn a_listener_that_never_reads_is_cut_at_the_output_limit() {
    let mut config = Config::default();
    let limit = ["pubsub", "100000", "0", "0"];
    config.set("client-output-buffer-limit", &limit).unwrap();
    let mut tested = Tested::with(config);
    let client = tested.connect();
    tested.send(client, &["SUBSCRIBE a"]);
    tested.take_subscription().answer.send(Reply::Ok);
    tested.run();
    tested.node.set_room(client, 0);
    for _ in 0..40 {
        tested.publish("a", &"x".repeat(10_000));
        tested.run();
    }
    assert!(tested.node.is_closed(client));
    assert_eq!(tested.left(), [1]);
}
