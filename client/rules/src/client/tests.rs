//! What a whole client tells its callers, with nodes in memory and time moved by argument.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::OperationId;
use crate::action::Event;
use crate::call::{Call, Outcome};
use crate::outcome::{AcquireError, Cause, ExtendError, NodeRelease};
use crate::settings::RetryDelay;
use crate::token::Token;
use crate::wait::{Wait, Waiting};

#[test]
fn what_a_call_waits_for_is_told_only_where_somebody_wants_to_know() {
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    let wait = Wait::For(Duration::from_secs(2));
    let silent = cluster.call(Call::Acquire(Cluster::acquisition(wait)));
    cluster.pass(Duration::from_secs(3));
    let ended = cluster.outcome(silent);
    assert!(
        matches!(ended, Some(Outcome::NotAcquired(AcquireError::Busy { .. }))),
        "{ended:?}"
    );
    assert!(cluster.client.counting.snapshot(&[], 0).retries > 5);
    assert_eq!(cluster.news, []);
    let told = cluster.call(Call::AcquireTelling(Cluster::acquisition(wait)));
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.news.len() > 3, "{:?}", cluster.news);
    for (to, waiting) in &cluster.news {
        assert_eq!(*to, told);
        assert!(matches!(waiting, Waiting::Busy { .. }), "{waiting}");
    }
}

/// What a call was told of its place, in order.
fn places(cluster: &mut Cluster, of: OperationId) -> Vec<usize> {
    let is_place = |(to, waiting): &(OperationId, Waiting)| match waiting {
        Waiting::Queued { ahead } if *to == of => Some(*ahead),
        _ => None,
    };
    let places = cluster.news.iter().filter_map(is_place).collect();
    cluster.news.retain(|(to, _)| *to != of);
    places
}

#[test]
fn a_call_that_waits_behind_others_is_told_as_often_as_it_moves_up_but_not_all_the_time() {
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    let every = RetryDelay::default().longest;
    let wait = || Cluster::acquisition(Wait::Forever);
    let calls: Vec<_> = (0..8)
        .map(|_| cluster.call(Call::AcquireTelling(wait())))
        .collect();
    let last = calls[7];
    let silent = cluster.call(Call::Acquire(wait()));
    assert!(places(&mut cluster, calls[0]).is_empty());
    assert_eq!(places(&mut cluster, calls[1]), [1]);
    assert_eq!(places(&mut cluster, last), [7]);
    // One that gives up is no longer ahead. That was told a moment ago, so it is told again a while later.
    cluster.pass(every / 2);
    cluster.happens(Event::Gone(calls[3]));
    assert!(places(&mut cluster, last).is_empty());
    cluster.happens(Event::Gone(calls[4]));
    cluster.pass(every / 2);
    assert_eq!(places(&mut cluster, last), [5], "once, and where it is now");
    // Who was ahead of them has not moved.
    assert_eq!(places(&mut cluster, calls[2]), [2]);
    cluster.pass(5 * every);
    assert!(places(&mut cluster, last).is_empty());
    // After a while without a word it is told at once, also where the one that asks gives up.
    cluster.happens(Event::Gone(calls[0]));
    assert_eq!(places(&mut cluster, last), [4]);
    assert_eq!(places(&mut cluster, calls[2]), [1]);
    // Whose turn it is asks, and tells of that.
    cluster.pass(every);
    assert!(places(&mut cluster, calls[1]).is_empty());
    assert!(places(&mut cluster, silent).is_empty());
}

#[test]
fn a_release_is_told_with_a_majority_that_has_freed_the_lock() {
    let mut cluster = Cluster::new(5);
    let held = cluster.held();
    let release = |waits_for_all| Call::Release {
        held: Some(held),
        name: "a".into(),
        token: Token::from("unknown"),
        waits_for_all,
        keeps_lost: false,
        lasts: None,
    };
    for node in [0, 1] {
        cluster.conduct(node, Conduct::IsSilent);
    }
    let release = cluster.call(release(false));
    let Some(Outcome::Released(release)) = cluster.outcome(release) else {
        panic!("three of five have freed it")
    };
    assert_eq!(release.freed(), 3);
    assert_eq!(
        release.nodes[0].1,
        NodeRelease::Not(Cause::NotWaitedFor),
        "nobody waited for it"
    );
}

#[test]
fn a_release_everywhere_waits_for_every_node_but_not_for_longer_than_they_have() {
    for (conduct, is_told_at_once) in [
        (Conduct::Serves, true),
        (Conduct::IsSilent, false),
        (Conduct::IsAway, false),
    ] {
        let mut cluster = Cluster::new(3);
        let held = cluster.held();
        cluster.conduct(0, conduct);
        let release = cluster.call(Call::Release {
            held: Some(held),
            name: "a".into(),
            token: Token::from("unknown"),
            waits_for_all: true,
            keeps_lost: false,
            lasts: None,
        });
        let told = cluster.outcome(release);
        assert_eq!(told.is_some(), is_told_at_once, "{conduct:?} {told:?}");
        if told.is_none() {
            cluster.pass(TTL);
            let Some(Outcome::Released(told)) = cluster.outcome(release) else {
                panic!("{conduct:?}: the nodes have had their time")
            };
            assert_eq!(told.freed(), 2, "{conduct:?}");
        }
    }
}

#[test]
fn what_was_dropped_is_undone_once_all_nodes_that_can_be_reached_have_freed_it() {
    for (conduct, is_told_at_once) in [
        (Conduct::Serves, true),
        // It may answer yet.
        (Conduct::IsSilent, false),
        // A majority is not enough, and nobody waits for a node that is away.
        (Conduct::IsAway, true),
    ] {
        let mut cluster = Cluster::new(3);
        let held = cluster.held();
        cluster.conduct(0, conduct);
        cluster.happens(Event::Gone(held));
        let told = cluster.outcome(held.undoing());
        assert_eq!(told.is_some(), is_told_at_once, "{conduct:?} {told:?}");
        assert!(cluster.nodes[1..].iter().all(|node| node.keys.is_empty()));
        // What is owed to a node that was away is paid when it is back.
        cluster.conduct(0, Conduct::Serves);
        cluster.pass(TTL / 2);
        assert!(cluster.nodes[0].keys.is_empty(), "{conduct:?}");
    }
}

#[test]
fn nobody_waits_for_a_node_that_was_never_reached_or_where_none_can_be() {
    // Nothing was written to it, so nothing is owed.
    let mut cluster = Cluster::new(3);
    cluster.conduct(2, Conduct::IsConnecting);
    let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    assert!(cluster.outcome(held).is_some(), "two of three have granted");
    cluster.happens(Event::Gone(held));
    assert!(cluster.outcome(held.undoing()).is_some());
    assert!(cluster.nodes.iter().all(|node| node.keys.is_empty()));
    // Releases are owed to all nodes, and none is there to take one.
    let mut cluster = Cluster::new(3);
    let held = cluster.held();
    for node in 0..3 {
        cluster.conduct(node, Conduct::IsAway);
    }
    cluster.happens(Event::Gone(held));
    assert!(cluster.outcome(held.undoing()).is_some());
    for node in 0..3 {
        cluster.conduct(node, Conduct::Serves);
    }
    cluster.pass(TTL / 2);
    assert!(cluster.nodes.iter().all(|node| node.keys.is_empty()));
}

#[test]
fn an_extension_is_told_only_when_the_nodes_that_made_it_have_told_how_long_they_keep_the_lock() {
    let extend = |token: &str| Call::Extend {
        name: "a".into(),
        token: Token::from(token),
        ttl: TTL,
        waits_for_all: true,
    };
    // (nodes that do not tell the time, whether the extension is told at once)
    for (silent, is_told_at_once) in [(0, true), (1, false)] {
        let mut cluster = Cluster::new(3);
        cluster.take_away();
        // The nodes are connected.
        cluster.call(Call::Probe);
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            node.left_ms = 20_000 + 1_000 * u64::try_from(index).unwrap();
        }
        for node in 0..silent {
            cluster.conduct(node, Conduct::IsSilentFrom("PTTL"));
        }
        let began = cluster.now;
        let extended = cluster.call(extend("somebody"));
        let told = cluster.outcome(extended);
        assert_eq!(told.is_some(), is_told_at_once, "{silent} {told:?}");
        cluster.pass(TTL);
        let Some(Outcome::Extended(Ok(told))) = told.or_else(|| cluster.outcome(extended)) else {
            panic!("all nodes have extended it")
        };
        // Two of three keep it for so long; one that did not tell keeps it for the ttl.
        let kept = told.kept_until.map(|until| began.until(until));
        assert_eq!(kept, Some(Duration::from_secs(21)), "{silent}");
    }
    // Of a node that has not extended the lock nobody wants to know how long it keeps it.
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    cluster.nodes[0].keys.clear();
    cluster.nodes[0].keys.insert("a".into(), "other".into());
    cluster.call(Call::Probe);
    cluster.conduct(0, Conduct::IsSilentFrom("PTTL"));
    let extended = cluster.call(extend("somebody"));
    let told = cluster.outcome(extended);
    assert!(matches!(told, Some(Outcome::Extended(Ok(_)))), "{told:?}");
    let lost = cluster.call(extend("nobody"));
    let told = cluster.outcome(lost);
    let is_lost = matches!(told, Some(Outcome::Extended(Err(ExtendError::Lost(_)))));
    assert!(is_lost, "{told:?}");
}

#[test]
fn a_lock_that_is_released_while_the_next_caller_asks_is_handed_over_at_once() {
    let ms = Duration::from_millis;
    // While the nodes are asked for the lock, and while they are asked how long it is held.
    for released_after in [ms(1) / 2, ms(3) / 2] {
        let mut cluster = Cluster::new(3);
        let held = cluster.held();
        cluster.round_trip = ms(1);
        let next = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
        cluster.pass(released_after);
        cluster.call(release(Some(held), "a", Token::from("")));
        cluster.pass(ms(3));
        let outcome = cluster.outcome(next);
        assert!(
            matches!(outcome, Some(Outcome::Acquired { .. })),
            "{released_after:?}: {outcome:?}"
        );
    }
}

fn release(held: Option<OperationId>, name: &'static str, token: Token) -> Call {
    Call::Release {
        held,
        name: name.into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    }
}

#[test]
fn a_lease_that_was_released_by_its_token_is_forgotten() {
    let mut cluster = Cluster::new(3);
    for number in 0..10 {
        let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        let Some(Outcome::Acquired { token, .. }) = cluster.outcome(held) else {
            panic!("attempt {number}")
        };
        cluster.call(Call::Detach { held });
        assert_eq!(cluster.client.operations.len(), 1);
        cluster.call(release(None, "a", token));
        assert_eq!(cluster.client.operations.len(), 0, "lease {number}");
    }
    // One that nobody releases is over with its lease.
    let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    cluster.call(Call::Detach { held });
    cluster.pass(TTL);
    assert_eq!(cluster.client.operations.len(), 0);
    assert_eq!(cluster.client.handed_over.len(), 0);
}

#[test]
fn a_node_that_was_never_asked_for_a_lock_is_owed_no_release_of_it() {
    for (is_known, is_extended) in [(true, false), (true, true), (false, false)] {
        let mut cluster = Cluster::new(3);
        cluster.conduct(2, Conduct::IsAway);
        let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        let Some(Outcome::Acquired { mut token, .. }) = cluster.outcome(held) else {
            panic!("two of three grant it")
        };
        cluster.call(Call::Detach { held });
        if is_extended {
            let new_token = Token::from("changed");
            cluster.call(Call::SetEnd {
                name: "a".into(),
                token: std::mem::replace(&mut token, new_token.clone()),
                new_token: Some(new_token),
                ttl: TTL,
            });
        }
        let own = release(None, "a", token);
        // Another program may have taken what this client has not.
        let other = release(None, "a", Token::from("another"));
        cluster.call(if is_known { own } else { other });
        assert_eq!(cluster.client.is_idle(cluster.now), is_known);
        assert_eq!(cluster.client.handed_over.is_empty(), is_known);
    }
}

#[test]
fn many_callers_that_give_up_together_cost_each_of_them_little() {
    const CALLERS: usize = 5_000;
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    let calls: Vec<_> = (0..CALLERS)
        .map(|_| cluster.call(Call::AcquireTelling(Cluster::acquisition(Wait::Forever))))
        .collect();
    cluster.pass(Duration::from_secs(1));
    // From the end, from the middle and from the front.
    let (front, back) = calls.split_at(CALLERS / 2);
    for call in back.iter().rev().chain(front) {
        cluster.happens(Event::Gone(*call));
    }
    let looks = cluster.client.waiters.looks;
    assert!(looks < 20 * CALLERS, "{looks} looks at {CALLERS} calls");
    assert_eq!(cluster.client.operations.len(), 0);
}

#[test]
fn a_call_that_does_not_wait_is_not_told_an_old_refusal() {
    let mut cluster = Cluster::new(3);
    let once = || Call::Acquire(Cluster::acquisition(Wait::None));
    (0..3).for_each(|node| cluster.conduct(node, Conduct::IsAway));
    for _ in 0..20 {
        let refused = cluster.call(once());
        cluster.pass(Duration::from_millis(100));
        let outcome = cluster.outcome(refused);
        assert!(matches!(
            outcome,
            Some(Outcome::NotAcquired(AcquireError::NoQuorum { .. }))
        ));
    }
    (0..3).for_each(|node| cluster.nodes[node].conduct = Conduct::Serves);
    let acquired = cluster.call(once());
    cluster.pass(Duration::from_millis(20));
    let outcome = cluster.outcome(acquired);
    assert!(
        matches!(outcome, Some(Outcome::Acquired { .. })),
        "{outcome:?}"
    );
}
