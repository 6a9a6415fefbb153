//! Who answers under an entry of the list, and whether that is a vote.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use bytes::Bytes;

use super::request::Subject;
use super::tests::{Node, TTL};
use super::*;
use crate::name::LockName;
use crate::outcome::NodeRelease;
use crate::register::Membership;
use crate::settings::Drift;

#[test]
fn another_node_under_the_address_does_not_vote_until_the_leases_of_the_one_before_have_expired() {
    let mut node = Node::ready();
    node.submit(Kind::Take).unwrap();
    let id = node.id().unwrap();
    node.pass(Duration::from_millis(100));
    node.receive(id, "+OK\r\n");
    node.told();
    let id = node.comes_back(Duration::from_secs(2), "b");
    let left = match node.submit(Kind::Take) {
        Err(Cause::Replaced { left }) => left,
        other => panic!("{other:?}"),
    };
    // Whoever took it last on the node before, took it before that was replaced.
    assert_eq!(left, TTL + Drift::default().of(TTL));
    // What it holds for us already nobody else has there, and what it holds it has to free.
    node.submit(Kind::Extend).unwrap();
    node.submit(Kind::Release).unwrap();
    node.receive(id, ":1\r\n:1\r\n");
    node.pass(left - Duration::from_millis(100));
    assert!(matches!(
        node.submit(Kind::Take),
        Err(Cause::Replaced { .. })
    ));
    node.comes_back(Duration::from_secs(4), "b");
    assert_eq!(node.submit(Kind::Take), Ok(()));
}

#[test]
fn what_waited_for_the_connection_is_not_taken_from_another_node_than_before() {
    let mut node = Node::ready();
    node.submit(Kind::Take).unwrap();
    node.lose();
    node.told();
    node.pass(Duration::from_secs(4));
    node.submit(Kind::Take).unwrap();
    let id = node.opened();
    node.log_in(id, "b");
    assert_eq!(node.in_flight(), []);
    let told = node.told();
    assert!(
        matches!(
            &told[..],
            [Content::Taken(Answer::Not(Cause::Replaced { .. }), _)]
        ),
        "{told:?}"
    );
}

#[test]
fn the_same_node_after_its_restart_votes_as_it_says_itself() {
    let mut node = Node::ready();
    node.submit(Kind::Take).unwrap();
    node.comes_back(Duration::from_secs(4), "a");
    assert_eq!(node.submit(Kind::Take), Ok(()));
}

/// What a node tells that has counted so many starts, and whose log had come so far.
fn told(incarnation: u64, recovered: u64, synced: u64) -> String {
    format!(
        "x\r\nquorlock_node_id:n\r\nquorlock_incarnation:{incarnation}\r\nquorlock_log_recovered:{recovered}\r\n\
         quorlock_log_synced:{synced}"
    )
}

#[test]
fn a_node_in_an_earlier_state_than_before_does_not_vote_until_what_it_has_forgotten_has_expired() {
    let mut node = Node::new();
    node.link.is_wanted = true;
    let id = node.opened();
    node.log_in(id, &told(7, 100, 150));
    // Asked how far it has come behind the first request a second later, and not behind the next.
    node.submit(Kind::Take).unwrap();
    node.receive(id, "+OK\r\n");
    node.pass(Duration::from_secs(1));
    node.submit(Kind::Take).unwrap();
    node.submit(Kind::Extend).unwrap();
    let asked = [Kind::Take, Kind::Info, Kind::Extend];
    assert_eq!(node.in_flight(), asked);
    let state = format!("run_id:{}\r\n", told(7, 100, 300));
    let state = format!("${}\r\n{state}\r\n", state.len());
    node.receive(id, &format!("+OK\r\n{state}:1\r\n"));
    node.told();
    // An image from before: the next start has lost what was on its disk.
    let id = node.comes_back(Duration::from_secs(2), &told(8, 299, 310));
    let left = TTL + Drift::default().of(TTL);
    assert_eq!(node.submit(Kind::Take), Err(Cause::WentBack { left }));
    node.submit(Kind::Extend).unwrap();
    node.receive(id, ":1\r\n");
    node.pass(left);
    assert_eq!(node.submit(Kind::Take), Ok(()));
    // Without a connection that ends: a machine that goes on from an image of its memory.
    let in_flight = node.in_flight();
    assert_eq!(in_flight, [Kind::Take, Kind::Info]);
    let state = format!("run_id:{}\r\n", told(8, 299, 305));
    node.receive(id, &format!("+OK\r\n${}\r\n{state}\r\n", state.len()));
    assert_eq!(node.submit(Kind::Take), Err(Cause::WentBack { left }));
}

#[test]
fn a_node_that_tells_no_state_of_its_log_is_not_asked_for_one() {
    let mut node = Node::ready();
    node.pass(Duration::from_secs(2));
    node.submit(Kind::Take).unwrap();
    assert_eq!(node.in_flight(), [Kind::Take]);
}

#[test]
fn a_node_that_refuses_the_login_is_told_as_what_it_is() {
    for (first, remedy) in [
        (
            "-WRONGPASS invalid username-password pair\r\n",
            "the user or password",
        ),
        ("-NOAUTH Authentication required.\r\n", "needs its password"),
        (
            "-DENIED Redis is running in protected mode\r\n",
            "its own machine only",
        ),
        ("-ERR max number of clients reached\r\n", "maxclients"),
    ] {
        let mut node = Node::new();
        node.submit(Kind::Take).unwrap();
        let id = node.opened();
        node.link.connected(id, "here", node.now);
        node.receive(id, first);
        let told = node.told();
        let [Content::Taken(Answer::Not(cause @ Cause::LoginRefused(_)), _)] = &told[..] else {
            panic!("{told:?}")
        };
        let text = cause.to_string();
        assert!(
            text.contains(remedy) && text.contains(first[1..].trim_end()),
            "{text}"
        );
    }
}

#[test]
fn without_identities_votes_are_counted_by_the_address_that_connections_lead_to() {
    let settings = Settings {
        votes_by: VotesBy::Address,
        ..Settings::default()
    };
    let mut node = Node::with_settings(&settings);
    node.submit(Kind::Take).unwrap();
    let id = node.opened();
    node.log_in(id, "0000");
    assert_eq!(node.in_flight(), [Kind::Take]);
    let identity = node.link.identity().unwrap().clone().unwrap();
    assert_eq!(&*identity.id, "address 10.0.0.1:7001");
    // Whatever the server says of itself at the next login, the entry still leads to the same.
    node.comes_back(Duration::from_secs(4), "another");
    assert_eq!(node.submit(Kind::Take), Ok(()));
    // And to another server once the address is another.
    node.lose();
    node.pass(Duration::from_secs(4));
    node.link.is_wanted = true;
    node.address = "10.0.0.2:7001".to_owned();
    let id = node.opened();
    node.log_in(id, "another");
    let told = node.submit(Kind::Take);
    assert!(matches!(told, Err(Cause::Replaced { .. })), "{told:?}");
}

#[test]
fn an_agent_is_no_node_however_votes_are_counted_and_a_check_of_it_takes_it_for_one() {
    for votes_by in [VotesBy::Identity, VotesBy::Address] {
        for takes_agent in [false, true] {
            let settings = Settings {
                votes_by,
                takes_agent,
                ..Settings::default()
            };
            for info in [
                "$18\r\nquorlock_agent:1\r\n\r\n",
                // Its user may not send INFO.
                "-NOPERM this user has no permissions to run the 'info' command on this agent\r\n",
            ] {
                let mut node = Node::with_settings(&settings);
                node.submit(Kind::Take).unwrap();
                let id = node.opened();
                node.log_in_with(id, info);
                let told = node.submit(Kind::Take);
                if !takes_agent {
                    assert_eq!(told, Err(Cause::Agent), "{votes_by:?} {info}");
                    assert_eq!(node.in_flight(), []);
                } else if votes_by == VotesBy::Address {
                    assert_eq!(told, Ok(()));
                } else {
                    assert!(matches!(told, Err(Cause::Unidentified(_))), "{told:?}");
                }
            }
        }
    }
}

/// One of an earlier version does not say that it is one to a user without the right to INFO.
#[test]
fn an_agent_that_is_known_by_its_reply_alone_has_no_vote_and_keeps_no_lock() {
    let settings = Settings {
        votes_by: VotesBy::Address,
        ..Settings::default()
    };
    let text = Some(Arc::from("me"));
    let to_take = |is_shared, text| {
        let lock = ("a".into(), "t".into());
        Subject::to_take(is_shared, lock, (TTL, TTL), text)
    };
    for subject in [to_take(true, None), to_take(false, text)] {
        for (reply, release) in [
            (
                "*4\r\n:1\r\n$-1\r\n$11\r\nt~sharing-1\r\n:9000\r\n",
                "*3\r\n$12\r\nLOCK.RELEASE\r\n$1\r\na\r\n$11\r\nt~sharing-1\r\n",
            ),
            ("*4\r\n:0\r\n$-1\r\n$5\r\nother\r\n:9000\r\n", ""),
        ] {
            let mut node = Node::with_settings(&settings);
            node.link.is_wanted = true;
            let id = node.opened();
            node.log_in_unnamed(id);
            node.submit_for(Kind::Take, &subject).unwrap();
            node.link.output(id).unwrap().clear();
            node.receive(id, reply);
            let told = node.told();
            let refused = [Content::Taken(Answer::Not(Cause::Agent), None)];
            assert_eq!(told, refused);
            let written = std::mem::take(node.link.output(id).unwrap());
            assert_eq!(String::from_utf8(written).unwrap(), release);
            assert_eq!(node.link.owes(node.now), !release.is_empty());
            let again = node.submit_for(Kind::Take, &subject);
            assert_eq!(again, Err(Cause::Agent));
            if !release.is_empty() {
                node.receive(id, ":1\r\n");
            }
            assert!(!node.link.owes(node.now) && node.in_flight().is_empty());
        }
    }
}

/// A node that is not logged in yet, in a list whose four others belong to two clusters.
fn between_two_clusters(votes_by: VotesBy) -> Node {
    let settings = Settings {
        votes_by,
        ..Settings::default()
    };
    let mut node = Node::with_settings(&settings);
    node.register = Register::new(5, None);
    for (other, cluster) in [(1, "red"), (2, "red"), (3, "blue"), (4, "blue")] {
        let said = Membership {
            cluster_id: Some(Arc::from(cluster)),
            ..Membership::default()
        };
        node.register.admit_member(other, &said);
    }
    let may_pass = node
        .register
        .undecided(1)
        .is_some_and(|it| !it.is_permanent());
    assert!(may_pass, "the node may be of either");
    node.link.is_wanted = true;
    node
}

#[test]
fn what_can_never_vote_gives_no_cluster_its_majority() {
    for info in [
        "0000\r\nquorlock_agent:1",
        "a\r\nquorlock_cluster_size:7",
        "0000",
    ] {
        let mut node = between_two_clusters(VotesBy::Identity);
        let id = node.opened();
        node.log_in(id, info);
        let cause = node.register.undecided(1).unwrap();
        assert!(cause.is_permanent(), "{info}");
    }
    let mut node = between_two_clusters(VotesBy::Identity);
    let id = node.opened();
    node.log_in_with(id, "-LOADING the dataset is loaded\r\n");
    let cause = node.register.undecided(1).unwrap();
    assert!(!cause.is_permanent(), "it may vote once that is over");
}

#[test]
fn a_node_that_is_counted_by_address_may_be_of_either_cluster_until_its_info_was_read() {
    for (info, may_pass) in [
        ("-LOADING the dataset is loaded\r\n", true),
        ("-NOPERM no INFO\r\n", false),
    ] {
        let mut node = between_two_clusters(VotesBy::Address);
        let id = node.opened();
        node.log_in_with(id, info);
        assert!(matches!(node.link.identity(), Some(Ok(_))), "{info}");
        let cluster = None;
        let mixed = Cause::MixedClusters { cluster, may_pass };
        assert_eq!(node.register.outsider(0), Some(mixed), "{info}");
        let cause = node.register.undecided(1).unwrap();
        assert_eq!(cause.is_permanent(), !may_pass, "{info}");
    }
}

#[test]
fn zeros_are_no_identity() {
    let mut node = Node::new();
    node.submit(Kind::Take).unwrap();
    let id = node.opened();
    node.log_in(id, "0000");
    assert_eq!(node.in_flight(), []);
    let told = node.submit(Kind::Take);
    assert!(matches!(told, Err(Cause::Unidentified(_))), "{told:?}");
}

#[test]
fn a_node_of_a_cluster_of_another_size_does_not_vote() {
    let mut node = Node::new();
    node.register = Register::new(3, None);
    node.submit(Kind::Take).unwrap();
    let id = node.opened();
    node.log_in(id, "a\r\nquorlock_cluster_size:5");
    // Not even what waited for the connection.
    assert_eq!(node.in_flight(), []);
    let told = node.submit(Kind::Extend);
    assert_eq!(told, Err(Cause::OtherSize { size: 5 }));
}

#[test]
fn a_second_connection_that_leads_to_another_node_changes_nothing() {
    let mut node = Node::ready();
    node.submit(Kind::Take).unwrap();
    let first = node.id();
    // Silent for longer than its round trips: a second connection is made.
    node.now = node.now.after(Duration::from_millis(100));
    let second = std::iter::repeat_with(|| {
        node.pass(Duration::from_millis(50));
        node.link.take_actions().find_map(|action| match action {
            LinkAction::Open(id) => Some(id),
            _ => None,
        })
    });
    let second = second.take(40).flatten().next().unwrap();
    node.log_in(second, "b");
    assert_eq!(node.id(), first);
    assert_eq!(&*node.link.identity().unwrap().clone().unwrap().id, "a");
}

/// A node that was asked for a lock, and has answered this if anything, before its connection ended. A release waits for the next one.
fn owed_a_release(answer: Option<&str>) -> (Node, ConnectionId) {
    let mut node = Node::ready();
    let subject = Subject::new("a".into(), "t".into(), TTL);
    node.submit_for(Kind::Take, &subject).unwrap();
    if let Some(answer) = answer {
        let first = node.id().unwrap();
        node.receive(first, answer);
    }
    node.lose();
    node.pass(Duration::from_secs(1));
    node.submit_for(Kind::Release, &subject).unwrap();
    let second = node.opened();
    (node, second)
}

#[test]
fn what_a_stranger_answers_to_a_release_settles_nothing_for_the_node_before_it() {
    for names_itself in [true, false] {
        let (mut node, second) = owed_a_release(Some("$-1\r\n"));
        match names_itself {
            true => node.log_in(second, "stranger"),
            false => node.log_in_unnamed(second),
        }
        assert_eq!(node.in_flight(), [Kind::Release]);
        node.told();
        node.receive(second, ":0\r\n");
        let told = node.told();
        assert_eq!(told, [Content::Released(NodeRelease::NotHeld)]);
        // It is not told a second time, and the node that may hold the lock is told when it is back.
        assert!(node.link.owes(node.now));
        node.pass(Duration::from_secs(3));
        assert_eq!(node.in_flight(), []);
        node.lose();
        node.pass(Duration::from_millis(50));
        let third = node.opened();
        node.log_in(third, "a");
        assert_eq!(node.in_flight(), [Kind::Release]);
        node.receive(third, ":1\r\n");
        assert!(!node.link.owes(node.now));
        node.pass(TTL);
        assert_eq!(node.in_flight(), []);
    }
}

#[test]
fn a_node_that_has_freed_the_lock_is_the_one_that_held_it_whether_it_says_who_it_is_or_not() {
    let (mut node, second) = owed_a_release(None);
    node.log_in_unnamed(second);
    assert!(node.link.owes(node.now));
    node.receive(second, ":1\r\n");
    assert!(!node.link.owes(node.now));
}

#[test]
fn what_is_owed_to_a_node_that_never_comes_back_ends_with_its_lease() {
    let (mut node, second) = owed_a_release(None);
    node.log_in(second, "stranger");
    node.receive(second, ":0\r\n");
    assert!(node.link.owes(node.now));
    node.pass(TTL + Duration::from_millis(1_100));
    assert!(!node.link.owes(node.now));
    assert!(node.link.deferred.is_empty());
}

#[test]
fn the_bytes_that_are_owed_to_a_node_are_bounded_and_what_is_given_up_is_said_once() {
    let mut node = Node::new();
    let name = "x".repeat(100_000);
    let most = OWED_BYTES_MAX / (name.len() + 1);
    let name = LockName::from(Bytes::from(name));
    let long = Subject::of_unknown_past(name.clone(), "t".into(), TTL, TTL, 1);
    for _ in 0..2 {
        for _ in 0..most {
            node.submit_for(Kind::Release, &long).unwrap();
        }
        for _ in 0..3 {
            node.submit_for(Kind::Release, &long).unwrap_err();
        }
        // There is room for what is short, and again for all once the leases are over.
        node.submit(Kind::Release).unwrap();
        node.pass(TTL * 2);
    }
    assert_eq!(node.link.given_up(), 6);
    // What was never asked for leaves room for what is owed, in bytes and in number, and is not missed.
    let unasked = Subject::new(name, "t".into(), TTL);
    let mut node = Node::new();
    while node.submit_for(Kind::Release, &unasked).is_ok() {}
    assert_eq!(node.link.waiting.len(), most / 2);
    for _ in most / 2..most {
        node.submit_for(Kind::Release, &long).unwrap();
    }
    node.submit_for(Kind::Release, &long).unwrap_err();
    assert_eq!(node.link.given_up(), 1);
    let unasked = Subject::new("a".into(), "t".into(), TTL);
    let mut node = Node::new();
    while node.submit_for(Kind::Release, &unasked).is_ok() {}
    assert_eq!(node.link.waiting.len(), OWED_MAX / 2);
    node.submit(Kind::Release).unwrap();
    assert_eq!(node.link.given_up(), 0);
    assert_eq!(node.link.take_actions().count(), 0);
    while node.submit(Kind::Release).is_ok() {}
    node.submit(Kind::Release).unwrap_err();
    let said: Vec<_> = node.link.take_actions().collect();
    let [LinkAction::Log(line)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(line.news, News::ReleasesGivenUp(1));
}
