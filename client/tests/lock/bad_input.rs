//! Nodes that lie, babble or are not what they should be, and callers that ask for nonsense.

use std::time::Duration;

use quorlock_client::{
    AcquireError, BuildError, Cause, ExtendError, Identity, Loss, NodeAnswer, Redlock, Token,
};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, acquire, client, holders, probes, refused, timeless};

fn causes(error: &AcquireError) -> Vec<Option<Cause>> {
    let AcquireError::NoQuorum { nodes, .. } = error else {
        panic!("{error}")
    };
    let cause = |answer: &NodeAnswer| match answer {
        NodeAnswer::Not(cause) => Some(cause.clone()),
        _ => None,
    };
    nodes.iter().map(|report| cause(&report.answer)).collect()
}

#[tokio::test]
async fn one_node_listed_under_two_names_votes_once_and_is_reported() {
    let node = FakeNode::start("one");
    let third = FakeNode::start("third");
    third.set_mood(Mood::Refuses("ERR no"));
    let other_name = node.alias();
    let urls = [node.url(), other_name.url(), third.url()];
    let redlock = Redlock::builder().nodes(urls).build().unwrap();
    let error = refused(&redlock, "a").await;
    let is_twin = |cause: &Option<Cause>| matches!(cause, Some(Cause::SameNode(_)));
    assert_eq!(
        causes(&error).iter().filter(|cause| is_twin(cause)).count(),
        1,
        "{error}"
    );
    let statuses = redlock.probe().await;
    assert_eq!(statuses.iter().filter(|status| !status.votes()).count(), 1);
    redlock.settle().await;
    assert_eq!(holders(&[node, third], "a"), 0);
}

#[tokio::test]
async fn an_incarnation_that_goes_backwards_does_not_vote_for_a_lease() {
    let node = FakeNode::start("x");
    let info = |life| format!("quorlock_node_id:n\r\nquorlock_incarnation:{life}\r\n");
    node.state().info = info(7);
    let redlock = Redlock::builder().node(node.url()).build().unwrap();
    assert!(acquire(&redlock, "a").await.release().await.released());
    redlock.settle().await;
    node.state().info = info(6);
    node.cut();
    let is_back = |it: &Identity| it.incarnation == 6;
    probes(&redlock, |nodes| {
        nodes[0].identity.as_ref().is_some_and(is_back)
    })
    .await;
    let error = refused(&redlock, "a").await;
    let causes = causes(&error);
    assert!(
        matches!(causes[..], [Some(Cause::WentBack { left })] if !left.is_zero()),
        "{error}"
    );
}

#[tokio::test]
async fn a_node_that_hides_its_identity_does_not_vote() {
    let node = FakeNode::start("x");
    node.state().info = "-NOPERM this user has no permissions\r\n".into();
    let redlock = Redlock::builder().node(node.url()).build().unwrap();
    let error = refused(&redlock, "a").await;
    assert!(
        matches!(causes(&error)[0], Some(Cause::Unidentified(_))),
        "{error}"
    );
    assert!(error.to_string().contains("NOPERM"), "{error}");
    redlock.settle().await;
    assert_eq!(node.holder("a"), None);
}

#[tokio::test]
async fn babbling_nodes_cost_a_vote_and_never_memory_or_stack() {
    for bytes in [
        "*1\r\n".repeat(200_000).into_bytes(),
        b"*2147483648\r\n".to_vec(),
        b"$9223372036854775807\r\n".to_vec(),
        b"$-5\r\n".to_vec(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0; 100_000],
        b"+OK\r\n+OK\r\n+OK\r\n".repeat(50),
        b":1\r\n".to_vec(),
        b"*0\r\n".to_vec(),
    ] {
        let nodes = FakeNode::five();
        // "OK" is a vote, even if nonsense follows it.
        let could_be_votes = bytes.starts_with(b"+OK");
        nodes[0].set_mood(Mood::Babbles(bytes.clone()));
        nodes[1].set_mood(Mood::Babbles(bytes));
        let redlock = client(&nodes);
        let guard = acquire(&redlock, "a").await;
        let release = guard.release().await;
        // Where two votes were lies, one more was enough, and the others may never have been asked.
        assert!(release.released() || could_be_votes, "{release}");
        nodes[2].set_mood(Mood::Refuses("ERR no"));
        if !could_be_votes {
            refused(&redlock, "a").await;
        }
    }
}

#[tokio::test]
async fn a_wrong_password_or_database_is_told_and_nothing_is_taken() {
    let node = FakeNode::start("x");
    node.state().password = Some("right");
    let address = node.address();
    for (url, part) in [
        (format!("redis://:wrong@{address}"), "WRONGPASS"),
        (format!("redis://{address}/99"), "out of range"),
    ] {
        let redlock = Redlock::builder().node(url).build().unwrap();
        let error = refused(&redlock, "a").await.to_string();
        assert!(error.contains(part) && !error.contains("wrong@"), "{error}");
    }
    assert_eq!(node.count("SET a"), 0);
    let right = Redlock::builder().node(format!("redis://:right@{address}/3"));
    assert!(acquire(&right.build().unwrap(), "a").await.is_valid());
}

#[tokio::test]
async fn arguments_that_cannot_work_are_refused_before_anything_is_sent() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    for ttl in [Duration::ZERO, Duration::from_millis(2), Duration::MAX] {
        let error = redlock.lock("a").ttl(ttl).acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid { .. }), "{error}");
    }
    for name in [String::new(), "x".repeat(1024 * 1024)] {
        let error = redlock.lock(name).acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid { .. }), "{error}");
    }
    let least = redlock.lock("a").ttl(TTL).min_validity(TTL).acquire().await;
    assert!(matches!(least, Err(AcquireError::Invalid { .. })));
    for (least, lifetime) in [(0, 0), (5, 5), (5, 4)] {
        let request = redlock.lock("a").ttl(TTL);
        let request = request.min_validity(Duration::from_secs(least));
        let request = request.max_lifetime(Duration::from_secs(lifetime));
        let error = request.acquire().await.unwrap_err();
        assert!(error.to_string().contains("max_lifetime"), "{error}");
        assert!(matches!(error, AcquireError::Invalid { .. }), "{error}");
    }
    assert!(nodes.iter().all(|node| node.state().connections == 0));
}

#[tokio::test]
async fn names_and_tokens_that_no_node_would_take_are_refused_at_every_entry_point() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let long_name = "x".repeat(5 * 1024 * 1024);
    let long_token = Token::from("x".repeat(10 * 1024 * 1024));
    let token = Token::fresh();
    for (name, token) in [("a", &long_token), (&long_name, &token), ("", &token)] {
        let release = redlock.release(name, token).await;
        assert!(!release.is_free() && !release.was_lost(), "{release}");
        assert!(release.to_string().contains("nothing was sent"));
        let error = redlock.extend(name, token, TTL).await.unwrap_err();
        assert!(matches!(error, ExtendError::Invalid { .. }), "{error}");
        let (redlock, name, token) = (redlock.clone(), name.to_owned(), token.clone());
        let waits = std::thread::spawn(move || {
            let redlock = quorlock_client::blocking::Redlock::from(redlock);
            let error = redlock.extend(&name, &token, TTL).unwrap_err();
            assert!(matches!(error, ExtendError::Invalid { .. }), "{error}");
            redlock.release(&name, &token).to_string()
        });
        assert!(waits.join().unwrap().contains("nothing was sent"));
    }
    assert!(nodes.iter().all(|node| node.state().connections == 0));
    // The longest that are possible.
    let token = Token::from("x".repeat(1024));
    assert!(redlock.release("a", &token).await.is_free());
}

#[tokio::test]
async fn a_reserve_that_no_lease_can_have_is_refused() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    for reserve in [TTL, 2 * TTL, Duration::MAX] {
        let request = redlock.lock("a").ttl(TTL).reserve(reserve);
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid { .. }), "{error}");
        assert!(error.to_string().contains("reserve"), "{error}");
    }
    assert!(nodes.iter().all(|node| node.state().connections == 0));
}

#[test]
fn clients_that_cannot_work_are_not_built() {
    let build = |urls: &[&str]| Redlock::builder().nodes(urls.iter().copied()).build();
    assert!(matches!(build(&[]), Err(BuildError::NoNodes)));
    let twice = ["redis://h:1", "redis://:secret@h:1/3"];
    assert!(matches!(build(&twice), Err(BuildError::Duplicate(_))));
    let one_socket = ["unix:///run/n.sock", "unix://:secret@/run/.//n.sock?db=1"];
    assert!(matches!(build(&one_socket), Err(BuildError::Duplicate(_))));
    assert!(matches!(build(&["nonsense"]), Err(BuildError::Address(_))));
    let many: Vec<_> = (1..=65).map(|port| format!("redis://h:{port}")).collect();
    let error = Redlock::builder().nodes(many).build().unwrap_err();
    assert!(matches!(error, BuildError::TooManyNodes(65)), "{error}");
    let name = Redlock::builder()
        .node("redis://h")
        .client_name("two words");
    assert!(matches!(name.build(), Err(BuildError::Setting(_))));
    for (least, lifetime) in [(0, 0), (5, 5), (5, 4)] {
        let client = Redlock::builder()
            .node("redis://h")
            .min_validity(Duration::from_secs(least))
            .max_lifetime(Duration::from_secs(lifetime));
        let error = client.build().unwrap_err();
        assert!(matches!(error, BuildError::Setting(_)), "{error}");
    }
}

#[tokio::test]
async fn binary_names_are_names_like_others() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = redlock
        .lock(b"a\r\n\x01".as_slice())
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    assert_eq!(guard.name(), b"a\r\n\x01");
    eventually("all hold it", || {
        nodes.iter().all(|node| node.state().keys.len() == 1)
    });
    assert!(guard.release().await.released());
}

#[tokio::test]
async fn somebodys_large_value_under_the_name_costs_no_connection() {
    let nodes = FakeNode::five();
    for node in &nodes {
        let value = ("x".repeat(5 * 1024 * 1024), 60_000);
        node.state().keys.insert("a".into(), value);
    }
    // However long 25 MiB take on this machine: they are no silence.
    let (redlock, _clock) = timeless(&nodes);
    redlock.probe().await;
    let error = refused(&redlock, "a").await;
    assert!(
        matches!(error, AcquireError::Busy { holder: None, .. }),
        "{error}"
    );
    assert!(acquire(&redlock, "b").await.release().await.released());
    assert!(nodes.iter().all(|node| node.state().connections == 1));
}

#[tokio::test]
async fn nothing_that_is_written_about_a_lock_would_release_it() {
    let nodes = FakeNode::five();
    let secret = "0123456789abcdef";
    for node in &nodes {
        node.hold("a", secret, 60_000);
    }
    let redlock = client(&nodes);
    let busy = refused(&redlock, "a").await;
    let AcquireError::Busy {
        holder: Some(holder),
        ..
    } = &busy
    else {
        panic!("{busy}");
    };
    assert_eq!(holder.as_bytes(), secret.as_bytes());
    for text in [format!("{busy:?}"), busy.to_string()] {
        assert!(
            text.contains("0123...") && !text.contains("01234"),
            "{text}"
        );
    }
    for node in &nodes[..3] {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    let none = refused(&redlock, "a").await;
    for text in [format!("{none:?}"), none.to_string()] {
        assert!(!text.contains("01234"), "{text}");
    }
    let guard = acquire(&client(&FakeNode::five()), "a").await;
    let token = guard.token().to_string();
    for text in [format!("{guard:?}"), format!("{:?}", guard.watch())] {
        assert!(!text.contains(&token[..7]), "{text}");
    }
}

#[test]
fn errors_keep_their_sources() {
    use std::error::Error as _;
    let lost = ExtendError::Lost(Loss::Expired);
    let source = lost.source().unwrap().downcast_ref::<Loss>();
    assert_eq!(source, Some(&Loss::Expired));
}
