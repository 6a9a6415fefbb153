//! A change of the number of members while the node serves.

use std::sync::Arc;
use std::time::Duration;

use quorlock_server::Node;
use quorlock_server::clock::SettableClock;
use quorlock_testkit::Wire;

use crate::machine::run;

async fn node(clock: &Arc<SettableClock>) -> Node {
    let node = Node::builder()
        .ephemeral()
        .directive("cluster-size", &["5"])
        .directive("restart-delay-max", &["30s"])
        .clock(Arc::clone(clock) as _)
        .start()
        .await
        .unwrap();
    node.serving().await.unwrap();
    node
}

fn set(client: &mut Wire, size: &str) -> String {
    client.ask_words(&["CONFIG", "SET", "cluster-size", size])
}

fn sizes(client: &mut Wire) -> (String, String) {
    (
        client.info("quorlock_cluster_size"),
        client.info("quorlock_cluster_size_next"),
    )
}

fn pair(size: &str, next: &str) -> (String, String) {
    (size.to_owned(), next.to_owned())
}

#[test]
fn a_member_is_added_in_two_steps_with_the_longest_lock_between_two_changes() {
    run(async {
        let clock = Arc::new(SettableClock::new());
        let node = node(&clock).await;
        let mut operator = Wire::connect(node.address());
        // Before anything is known of the time before the start.
        let refused = set(&mut operator, "5 6");
        assert!(refused.contains("may last"), "{refused}");
        let refused = set(&mut operator, "6");
        assert!(refused.contains("'5 6' first"), "{refused}");
        clock.advance(Duration::from_secs(29));
        assert!(set(&mut operator, "5 6").contains("may last"));
        clock.advance(Duration::from_secs(2));
        assert_eq!(set(&mut operator, "5 6"), "+OK");
        assert_eq!(sizes(&mut operator), pair("5", "6"));
        assert_eq!(set(&mut operator, "5 6"), "+OK", "a second time");
        let refused = set(&mut operator, "6 7");
        assert!(refused.contains("ended or given up first"), "{refused}");
        assert_eq!(set(&mut operator, "6"), "+OK");
        assert_eq!(sizes(&mut operator), pair("6", "0"));
        // Locks of clients with the list of five may last.
        let refused = set(&mut operator, "6 7");
        assert!(refused.contains("may last"), "{refused}");
        assert_eq!(sizes(&mut operator), pair("6", "0"), "nothing has changed");
        clock.advance(Duration::from_secs(29));
        assert!(set(&mut operator, "6 7").contains("may last"));
        clock.advance(Duration::from_secs(2));
        assert_eq!(set(&mut operator, "6 7"), "+OK");
        assert_eq!(operator.info("quorlock_cluster_size_wait_ms"), "0");
        // It is given up: clients with the list of seven are cut off, and the next change waits.
        assert_eq!(set(&mut operator, "6"), "+OK");
        assert!(set(&mut operator, "6 5").contains("may last"));
        // A smaller cap from now on says nothing of the locks of before.
        operator.ask("CONFIG SET restart-delay-max 1s");
        clock.advance(Duration::from_secs(2));
        assert!(set(&mut operator, "6 5").contains("may last"));
        let wait_ms: u64 = operator
            .info("quorlock_cluster_size_wait_ms")
            .parse()
            .unwrap();
        assert!((28_000..29_000).contains(&wait_ms), "{wait_ms}");
        assert_eq!(set(&mut operator, "removed"), "+OK");
        assert_eq!(sizes(&mut operator), pair("255", "0"));
        assert!(set(&mut operator, "6").contains("new directory"));
        node.stop().await.unwrap();
    });
}

#[test]
fn clients_ask_again_where_some_lists_get_no_vote_any_more_and_keep_their_connection_where_all_do()
{
    run(async {
        let clock = Arc::new(SettableClock::new());
        let node = node(&clock).await;
        clock.advance(Duration::from_secs(31));
        let mut operator = Wire::connect(node.address());
        let (mut client, mut other) =
            (Wire::connect(node.address()), Wire::connect(node.address()));
        let mut listener = Wire::connect(node.address());
        assert_eq!(
            client.ask_words(&["SET", "a", "b", "NX", "PX", "10000"]),
            "+OK"
        );
        other.ask_words(&["PING"]);
        listener.ask_words(&["SUBSCRIBE", "a"]);
        assert_eq!(set(&mut operator, "5 6"), "+OK");
        assert_eq!(client.ask_words(&["PING"]), "+PONG");
        assert_eq!(set(&mut operator, "6"), "+OK");
        for mut gone in [client, other, listener] {
            assert_eq!(gone.rest(), b"");
        }
        assert_eq!(operator.ask_words(&["GET", "a"]), "b", "locks stay");
        node.stop().await.unwrap();
    });
}

#[test]
fn a_client_changes_no_number_that_another_one_has_set_since_it_connected() {
    run(async {
        let clock = Arc::new(SettableClock::new());
        let node = node(&clock).await;
        clock.advance(Duration::from_secs(31));
        let connect = || {
            let mut client = Wire::connect(node.address());
            client.ask_words(&["PING"]);
            client
        };
        let (mut stale, mut operator) = (connect(), connect());
        assert_eq!(set(&mut operator, "5 6 a:1"), "+OK");
        for size in ["5", "6", "removed"] {
            let refused = set(&mut stale, size);
            assert!(refused.contains("since this one connected"), "{refused}");
        }
        assert_eq!(stale.ask("CONFIG SET require-ttl yes"), "+OK");
        // What is so already is taken, and is as good as a change.
        let mut other = connect();
        assert_eq!(set(&mut stale, "5 6 a:1"), "+OK");
        for client in [&mut other, &mut operator] {
            assert!(set(client, "5").contains("since this one connected"));
        }
        assert_eq!(sizes(&mut other), pair("5", "6"));
        assert_eq!(set(&mut connect(), "6"), "+OK");
        node.stop().await.unwrap();
    });
}
