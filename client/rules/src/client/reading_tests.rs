//! Who holds a lock, and locks whose callers have named their tokens.

use std::time::Duration;

use bytes::Bytes;

use crate::call::{AcquireCall, Call, Outcome};
use crate::client::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::outcome::{ReadError, Reading};
use crate::token::Token;
use crate::wait::Wait;

/// Nodes that hold the lock under these tokens, if any; the times they tell differ.
fn cluster_of(holders: &[Option<&str>]) -> Cluster {
    let mut cluster = Cluster::new(holders.len());
    for (index, (node, holder)) in cluster.nodes.iter_mut().zip(holders).enumerate() {
        node.left_ms = 4_000 + 1_000 * u64::try_from(index).unwrap();
        if let Some(holder) = holder {
            node.keys.insert("a".to_owned(), (*holder).to_owned());
        }
    }
    cluster
}

fn read(cluster: &mut Cluster) -> Result<Reading, ReadError> {
    let read = cluster.call(Call::Read { name: "a".into() });
    cluster.pass(TTL);
    match cluster.outcome(read) {
        Some(Outcome::Read(told)) => told,
        other => panic!("{other:?}"),
    }
}

fn held(token: &str, left_ms: u64, longest_ms: u64) -> Reading {
    Reading::Held {
        token: Token::from(token),
        left: Some(Duration::from_millis(left_ms)),
        longest: Some(Duration::from_millis(longest_ms)),
    }
}

fn split(token: &str, left_ms: u64) -> Reading {
    Reading::Split {
        token: Token::from(token),
        left: Some(Duration::from_millis(left_ms)),
    }
}

#[test]
fn what_is_said_of_a_holder_is_said_by_a_majority() {
    let (x, y) = (Some("x"), Some("y"));
    for (holders, told) in [
        (&[None, None, None][..], Reading::Free),
        (&[None, x, None], Reading::Free),
        (&[x, x, x], held("x", 4_000, 5_000)),
        (&[None, x, x], held("x", 5_000, 6_000)),
        (&[y, x, x], held("x", 5_000, 6_000)),
        // No majority says the same.
        (&[x, y, None], split("x", 4_000)),
        (&[y, x, x, None, None], split("x", 5_000)),
        (&[None, None, x, y, y], split("y", 7_000)),
    ] {
        assert_eq!(read(&mut cluster_of(holders)), Ok(told), "{holders:?}");
    }
}

#[test]
fn readers_and_other_types_are_told_where_no_one_holder_is_known() {
    let (readers, x) = (Some("WRONGTYPE Operation against a key"), Some("x"));
    let shared = |left_ms| Reading::OtherType {
        left: Some(Duration::from_millis(left_ms)),
    };
    for (holders, told) in [
        (&[readers, readers, None][..], shared(4_000)),
        (&[None, readers, readers], shared(5_000)),
        (&[None, readers, None], Reading::Free),
        (&[x, readers, readers, x, x], held("x", 4_000, 8_000)),
        // No majority says the same.
        (&[None, readers, None, readers], shared(5_000)),
        (&[readers, readers, None, None, x], split("x", 8_000)),
    ] {
        assert_eq!(read(&mut cluster_of(holders)), Ok(told), "{holders:?}");
    }
}

#[test]
fn a_minority_that_answers_says_nothing() {
    let x = Some("x");
    for (away, told) in [
        (&[0][..], Some(held("x", 5_000, 7_000))),
        (&[0, 1], Some(held("x", 6_000, 8_000))),
        (&[0, 1, 2], None),
        (&[0, 1, 2, 3, 4], None),
    ] {
        let mut cluster = cluster_of(&[x; 5]);
        for node in away {
            cluster.conduct(*node, Conduct::IsAway);
        }
        let answer = read(&mut cluster);
        match (&answer, told) {
            (Ok(answer), Some(told)) => assert_eq!(*answer, told, "{away:?}"),
            (Err(error), None) => {
                let reasons = error.nodes.iter().filter(|(_, cause)| cause.is_some());
                assert_eq!((reasons.count(), error.needed), (away.len(), 3));
                let text = error.to_string();
                assert!(
                    text.starts_with("no quorum: fewer than 3 of 5 nodes"),
                    "{text}"
                );
                assert_eq!(text.lines().count(), 6);
            }
            _ => panic!("{away:?}: {answer:?}"),
        }
    }
}

#[test]
fn a_node_that_is_listed_twice_is_one_witness() {
    // Both minorities are one node each, and the majority of entries is no majority of nodes.
    let mut cluster = cluster_of(&[Some("x"), Some("x"), None]);
    cluster.nodes[1].answers_as = Some(0);
    let told = read(&mut cluster);
    assert!(
        told.is_err() || matches!(told, Ok(Reading::Split { .. })),
        "{told:?}"
    );
}

#[test]
fn a_read_is_told_once_a_majority_has_told_the_time_as_well() {
    let mut cluster = cluster_of(&[Some("x"); 3]);
    cluster.call(Call::Probe);
    cluster.conduct(0, Conduct::IsSilentFrom("PTTL"));
    let began = cluster.now;
    let read = cluster.call(Call::Read { name: "a".into() });
    assert!(
        cluster.outcome(read).is_some(),
        "two others have told the time"
    );
    assert_eq!(began, cluster.now);

    let mut cluster = cluster_of(&[Some("x"); 3]);
    cluster.call(Call::Probe);
    cluster.conduct(0, Conduct::IsSilentFrom("PTTL"));
    cluster.conduct(1, Conduct::IsSilent);
    let read = cluster.call(Call::Read { name: "a".into() });
    assert!(cluster.outcome(read).is_none(), "a node is silent");
    cluster.pass(TTL);
    assert!(cluster.outcome(read).is_some());
}

#[test]
fn each_attempt_under_a_token_that_its_caller_has_named_is_known_from_the_others() {
    let mut cluster = Cluster::new(3);
    let call = AcquireCall {
        own_token: Some(Bytes::from("job-7")),
        ..Cluster::acquisition(Wait::None)
    };
    let first = cluster.call(Call::Acquire(call.clone()));
    let Some(Outcome::Acquired { token, .. }) = cluster.outcome(first) else {
        panic!("the lock is free");
    };
    assert_eq!(token.without_attempt(), b"job-7");
    assert_eq!(cluster.nodes[0].keys["a"].as_bytes(), token.as_bytes());
    // The same caller is refused as any other.
    let second = cluster.call(Call::Acquire(call));
    cluster.pass(TTL / 10);
    assert!(matches!(
        cluster.outcome(second),
        Some(Outcome::NotAcquired(_))
    ));
    let tried = &cluster.nodes[0].tried;
    assert!(tried.len() == 2 && tried[0] != tried[1], "{tried:?}");
}

#[test]
fn the_end_of_a_lock_is_set_where_it_is_held_under_the_token() {
    for (holders, is_set) in [
        ([Some("x"), Some("x"), None], true),
        ([Some("x"), Some("y"), None], false),
    ] {
        let mut cluster = cluster_of(&holders);
        let (name, token) = ("a".into(), Token::from("x"));
        let ttl = Duration::from_millis(1_500);
        let began = cluster.now;
        let call = cluster.call(Call::SetEnd {
            name,
            token,
            new_token: None,
            ttl,
        });
        cluster.pass(TTL);
        match cluster.outcome(call) {
            Some(Outcome::Extended(Ok(extended))) if is_set => {
                assert!(began.until(extended.valid_until) < ttl);
                assert_eq!(cluster.nodes[0].kept_ms, "1500");
            }
            Some(Outcome::Extended(Err(_))) if !is_set => {}
            other => panic!("{holders:?}: {other:?}"),
        }
    }
}

#[test]
fn what_a_node_does_not_know_of_a_holder_is_said_without() {
    let mut cluster = cluster_of(&[Some("x"); 3]);
    let look = cluster.call(Call::Look { name: "a".into() });
    match cluster.outcome(look) {
        Some(Outcome::Looked(Ok(looked))) => {
            assert_eq!(looked.reading, held("x", 4_000, 5_000));
            assert_eq!((looked.owner, looked.fence), (None, None));
        }
        other => panic!("{other:?}"),
    }
    // One look is no reason to be told of changes.
    assert!(cluster.nodes.iter().all(|node| node.tracking.is_empty()));
    let mut cluster = cluster_of(&[None; 3]);
    let look = cluster.call(Call::Look { name: "a".into() });
    match cluster.outcome(look) {
        Some(Outcome::Looked(Ok(looked))) => assert_eq!(looked.reading, Reading::Free),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_that_leads_back_to_the_same_page_is_left_for_those_of_the_others() {
    let mut cluster = Cluster::new(3);
    for (node, page) in cluster.nodes.iter_mut().zip(["2:17", "1:0", "1:0"]) {
        node.page = page.to_owned();
    }
    let mut cursor = 0;
    for pages in 1.. {
        let pattern = Bytes::from_static(b"job");
        let list = cluster.call(Call::List { pattern, cursor });
        let Some(Outcome::Listed(Ok(page))) = cluster.outcome(list) else {
            panic!("two nodes have lists that end");
        };
        cursor = page.cursor;
        if cursor == 0 {
            assert_eq!(
                pages, 3,
                "the first of the first node, and one of each other"
            );
            return;
        }
        assert!(pages < 9, "it does not end");
    }
}
