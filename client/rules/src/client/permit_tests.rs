//! Calls for a permit of a semaphore: what they ask for, in which order, and how often.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::OperationId;
use crate::action::Event;
use crate::call::{AcquireCall, Call, Outcome};
use crate::outcome::AcquireError;
use crate::permits::permit_name;
use crate::token::Token;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

pub(super) fn ask(cluster: &mut Cluster, permits: u32, wait: Wait) -> OperationId {
    let call = AcquireCall {
        permits: Some(permits),
        ..Cluster::acquisition(wait)
    };
    cluster.call(Call::Acquire(call))
}

/// The permit that a call has, and its token.
pub(super) fn had(cluster: &mut Cluster, call: OperationId) -> (u32, Token) {
    match cluster.outcome(call) {
        Some(Outcome::Acquired { permit, token, .. }) => (permit.expect("it is one"), token),
        other => panic!("{other:?}"),
    }
}

pub(super) fn release(cluster: &mut Cluster, held: OperationId, (index, token): (u32, Token)) {
    cluster.call(Call::Release {
        held: Some(held),
        name: permit_name(b"a", index).into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
}

/// Somebody else holds these permits on all nodes.
pub(super) fn take_away(cluster: &mut Cluster, permits: std::ops::Range<u32>) {
    for node in &mut cluster.nodes {
        for index in permits.clone() {
            node.keys
                .insert(format!("a:permit:{index}"), format!("somebody {index}"));
        }
        node.left_ms = 9_000;
    }
}

#[test]
fn as_many_calls_have_a_permit_as_there_are_and_each_another_one() {
    for permits in [1, 2, 5] {
        let mut cluster = Cluster::new(3);
        let mut indexes = BTreeSet::new();
        for _ in 0..permits {
            let call = ask(&mut cluster, permits, Wait::None);
            let (index, token) = had(&mut cluster, call);
            indexes.insert(index);
            let name = format!("a:permit:{index}");
            let shown = token.to_string();
            assert!(
                cluster
                    .nodes
                    .iter()
                    .all(|node| node.keys.get(&name) == Some(&shown))
            );
        }
        assert!(indexes.into_iter().eq(0..permits));
        let call = ask(&mut cluster, permits, Wait::None);
        let Some(Outcome::NotAcquired(AcquireError::Busy { name, .. })) = cluster.outcome(call)
        else {
            panic!("{permits} permits are held");
        };
        assert_eq!(&*name, "a");
        // The lock of the same name is another one.
        let lock = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        assert!(matches!(
            cluster.outcome(lock),
            Some(Outcome::Acquired { permit: None, .. })
        ));
    }
}

#[test]
fn a_call_that_does_not_wait_finds_the_one_permit_that_is_free() {
    for free in 0..7 {
        let mut cluster = Cluster::new(3);
        take_away(&mut cluster, 0..free);
        take_away(&mut cluster, free + 1..7);
        let call = ask(&mut cluster, 7, Wait::None);
        assert_eq!(had(&mut cluster, call).0, free);
    }
}

#[test]
fn what_this_client_releases_the_first_that_waits_has_at_once() {
    let mut cluster = Cluster::new(3);
    let held: Vec<_> = (0..30)
        .map(|_| {
            let call = ask(&mut cluster, 30, Wait::None);
            (call, had(&mut cluster, call))
        })
        .collect();
    let waiting = [0; 3].map(|_| ask(&mut cluster, 30, Wait::Forever));
    cluster.pass(1_234 * MS);
    for ((call, permit), waiting) in held.into_iter().zip(waiting) {
        let index = permit.0;
        release(&mut cluster, call, permit);
        // Not long enough to learn from a node which one it is.
        cluster.pass(20 * MS);
        assert_eq!(had(&mut cluster, waiting).0, index);
    }
}

#[test]
fn a_permit_of_a_holder_that_died_is_asked_for_when_its_time_is_over() {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, 0..40);
    let call = ask(&mut cluster, 40, Wait::Forever);
    cluster.pass(100 * MS);
    for node in &mut cluster.nodes {
        node.keys.clear();
    }
    cluster.pass(200 * MS);
    had(&mut cluster, call);
}

/// Nodes with lines, on which somebody else has all permits, and a call that waits for one.
fn waiting(permits: u32) -> (Cluster, OperationId) {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, 0..permits);
    for node in &mut cluster.nodes {
        node.in_line = Some(1);
    }
    let call = ask(&mut cluster, permits, Wait::Forever);
    cluster.pass(MS);
    (cluster, call)
}

/// The token that stands last in the line of a permit at a node.
fn in_line(cluster: &Cluster, node: usize, index: u32) -> String {
    let (name, node) = (format!("a:permit:{index}"), &cluster.nodes[node]);
    let mut lines = node.waits_for.iter().zip(&node.waits).rev();
    let (_, token) = lines
        .find(|(line, _)| **line == name)
        .expect("it stands there");
    token.clone()
}

/// The first node says that it is the call's turn for each permit.
fn call_for_each(cluster: &mut Cluster, permits: u32) {
    for index in 0..permits {
        let token = in_line(cluster, 0, index);
        cluster.push(0, &format!("a:permit:{index}"), &token);
    }
}

pub(super) fn set_free(cluster: &mut Cluster, index: u32) {
    for node in &mut cluster.nodes {
        node.keys.remove(&format!("a:permit:{index}"));
    }
}

#[test]
fn a_call_stands_in_the_line_of_each_permit_and_takes_the_one_whose_turn_comes() {
    for free in 0..3 {
        let (mut cluster, call) = waiting(3);
        let names: BTreeSet<_> = cluster.nodes[0].waits_for.iter().cloned().collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(cluster.nodes[1].waits.is_empty());
        let (takes, requests) = (cluster.nodes[0].takes, cluster.nodes[0].requests);
        cluster.pass(120_000 * MS);
        assert_eq!(
            cluster.nodes[0].takes, takes,
            "nothing is asked for without a turn"
        );
        let asked = cluster.nodes[0].requests - requests;
        assert!(asked <= 24, "{asked} requests in two minutes");
        let token = in_line(&cluster, 0, free);
        set_free(&mut cluster, free);
        cluster.push(0, &format!("a:permit:{free}"), &token);
        let (index, had) = had(&mut cluster, call);
        assert_eq!((index, had.to_string()), (free, token));
        assert_eq!(cluster.nodes[0].takes, takes + 1);
        assert_eq!(
            cluster.nodes[0].unwaits.len(),
            2,
            "{:?}",
            cluster.nodes[0].unwaits
        );
        assert_eq!(cluster.client.size().lines, 0);
    }
}

#[test]
fn a_turn_that_comes_while_another_permit_is_asked_for_is_not_forgotten() {
    let (mut cluster, call) = waiting(3);
    let tokens = [0, 1].map(|index| in_line(&cluster, 0, index));
    cluster.round_trip = 10 * MS;
    // The first turn comes to nothing: somebody was sooner.
    set_free(&mut cluster, 1);
    cluster.push(0, "a:permit:0", &tokens[0]);
    cluster.push(0, "a:permit:1", &tokens[1]);
    cluster.pass(45 * MS);
    assert_eq!(had(&mut cluster, call).0, 1);
}

/// Each has a pause behind it, and the answer of another line makes that no longer.
#[test]
fn a_turn_that_comes_after_others_have_failed_is_taken_soon() {
    let (mut cluster, call) = waiting(2);
    let tokens = [0, 1].map(|index| in_line(&cluster, 0, index));
    cluster.round_trip = 10 * MS;
    // A release that is long on its way to the other nodes: four attempts fail.
    cluster.nodes[0].keys.remove("a:permit:0");
    cluster.push(0, "a:permit:0", &tokens[0]);
    cluster.pass(45 * MS);
    set_free(&mut cluster, 1);
    cluster.push(0, "a:permit:1", &tokens[1]);
    cluster.pass(400 * MS);
    assert_eq!(had(&mut cluster, call).0, 1);
}

#[test]
fn a_turn_is_taken_also_where_the_votes_for_another_permit_were_split() {
    let (mut cluster, call) = waiting(2);
    let tokens = [0, 1].map(|index| in_line(&cluster, 0, index));
    for (number, node) in cluster.nodes.iter_mut().enumerate() {
        let holder = format!("holder {number}");
        node.keys.insert("a:permit:0".to_owned(), holder);
    }
    cluster.push(0, "a:permit:0", &tokens[0]);
    cluster.pass(10 * MS);
    set_free(&mut cluster, 1);
    cluster.push(0, "a:permit:1", &tokens[1]);
    cluster.pass(10 * MS);
    assert_eq!(had(&mut cluster, call).0, 1);
}

/// Its keys were flushed, say.
#[test]
fn a_node_that_has_none_of_the_permits_is_no_place_to_wait() {
    let (mut cluster, call) = waiting(3);
    cluster.round_trip = MS;
    cluster.nodes[0].keys.clear();
    cluster.nodes[0].in_line = Some(0);
    let takes = cluster.nodes[1].takes;
    call_for_each(&mut cluster, 3);
    cluster.pass(60_000 * MS);
    let asked = cluster.nodes[1].takes - takes;
    assert!(asked <= 16, "{asked} attempts in a minute");
    let tokens = [0, 1, 2].map(|index| in_line(&cluster, 1, index));
    set_free(&mut cluster, 2);
    cluster.push(1, "a:permit:2", &tokens[2]);
    cluster.pass(MS * 5);
    assert_eq!(had(&mut cluster, call).0, 2);
}

#[test]
fn turns_that_all_come_to_nothing_are_not_taken_without_a_pause() {
    let (mut cluster, _) = waiting(3);
    cluster.round_trip = MS;
    for node in &mut cluster.nodes {
        node.in_line = Some(0);
    }
    let takes = cluster.nodes[1].takes;
    call_for_each(&mut cluster, 3);
    cluster.pass(10_000 * MS);
    let asked = cluster.nodes[1].takes - takes;
    assert!(asked <= 200, "{asked} attempts in ten seconds");
}

#[test]
fn each_permit_is_looked_at_on_all_other_nodes() {
    let mut cluster = Cluster::new(5);
    take_away(&mut cluster, 0..4);
    for node in &mut cluster.nodes {
        node.in_line = Some(1);
    }
    ask(&mut cluster, 4, Wait::Forever);
    cluster.pass(3_600_000 * MS);
    for node in &cluster.nodes[1..] {
        let looks_at: BTreeSet<_> = node.looks_at.iter().collect();
        assert_eq!(looks_at.len(), 4, "{looks_at:?}");
    }
    let requests: usize = cluster.nodes.iter().map(|node| node.requests).sum();
    assert!(requests <= 900, "{requests} in an hour");
}

#[test]
fn the_lines_of_all_permits_move_to_the_next_node_when_a_node_has_no_lines_any_more() {
    let (mut cluster, _) = waiting(3);
    cluster.nodes[0].in_line = None;
    while cluster.nodes[1].waits.is_empty() {
        cluster.pass(MS);
    }
    let names: BTreeSet<_> = cluster.nodes[1].waits_for.iter().collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn the_last_call_for_a_semaphore_leaves_all_lines_whatever_number_of_permits_it_says() {
    for (permits, lines) in [(3, 5), (17, 17)] {
        let (mut cluster, first) = waiting(5);
        take_away(&mut cluster, 0..17);
        let second = ask(&mut cluster, permits, Wait::Forever);
        cluster.happens(Event::Gone(first));
        cluster.pass(100 * MS);
        if permits < 5 {
            // A turn that is none of this call's is given back.
            let (token, takes) = (in_line(&cluster, 0, 4), cluster.nodes[0].takes);
            cluster.push(0, "a:permit:4", &token);
            assert!(cluster.nodes[0].unwaits.contains(&"a:permit:4".to_owned()));
            assert_eq!(cluster.nodes[0].takes, takes);
        }
        cluster.happens(Event::Gone(second));
        let left: BTreeSet<_> = cluster.nodes[0].unwaits.iter().collect();
        assert_eq!(left.len(), lines, "{permits}: {left:?}");
        assert_eq!(cluster.client.size().lines, 0);
    }
}

#[test]
fn the_lines_of_all_permits_move_to_the_next_node_when_the_connection_ends() {
    let (mut cluster, call) = waiting(3);
    let tokens = [0, 1, 2].map(|index| in_line(&cluster, 0, index));
    cluster.conduct(0, Conduct::IsAway);
    assert_eq!([0, 1, 2].map(|index| in_line(&cluster, 1, index)), tokens);
    cluster.pass(500 * MS);
    set_free(&mut cluster, 2);
    let token = in_line(&cluster, 1, 2);
    cluster.push(1, "a:permit:2", &token);
    cluster.pass(1_000 * MS);
    assert_eq!(had(&mut cluster, call).0, 2);
}

#[test]
fn who_gives_up_leaves_the_lines_of_all_permits() {
    let (mut cluster, call) = waiting(4);
    cluster.happens(Event::Gone(call));
    let left: BTreeSet<_> = cluster.nodes[0].unwaits.iter().cloned().collect();
    assert_eq!(left.len(), 4, "{left:?}");
    assert_eq!(cluster.client.size().lines, 0);
}

#[test]
fn where_permits_are_many_they_cost_no_more_than_a_lock_and_none_is_forgotten() {
    let (mut cluster, call) = waiting(40);
    let names: BTreeSet<_> = cluster.nodes[0].waits_for.iter().collect();
    assert_eq!(names.len(), 40, "{names:?}");
    // The leases that were seen at first are looked after once.
    cluster.pass(2 * TTL);
    let requests =
        |cluster: &Cluster| -> usize { cluster.nodes.iter().map(|node| node.requests).sum() };
    let before = requests(&cluster);
    cluster.pass(Duration::from_secs(3_600));
    let all = requests(&cluster) - before;
    // A fifth of a request in a second.
    assert!((100..=900).contains(&all), "{all}");
    let token = in_line(&cluster, 0, 17);
    set_free(&mut cluster, 17);
    cluster.push(0, "a:permit:17", &token);
    let (index, had) = had(&mut cluster, call);
    assert_eq!((index, had.to_string()), (17, token));
    assert_eq!(cluster.client.size().lines, 0);
}

#[test]
fn a_call_stands_in_a_bounded_number_of_lines_and_comes_to_those_of_all_permits() {
    let (mut cluster, call) = waiting(300);
    for node in &mut cluster.nodes {
        node.has_no_line_for_free = true;
    }
    let joined = |cluster: &Cluster| {
        let names: BTreeSet<_> = cluster.nodes[0].waits_for.iter().collect();
        names.len()
    };
    assert_eq!((joined(&cluster), cluster.client.size().lines), (128, 128));
    let before = cluster.nodes[0].requests;
    cluster.pass(Duration::from_secs(3_600));
    assert_eq!(joined(&cluster), 300);
    let lines = cluster.client.size().lines;
    assert!((128..=129).contains(&lines), "{lines}");
    let asked = cluster.nodes[0].requests - before;
    // Three in a check and sometimes a fourth, three checks in fifteen seconds.
    assert!((1_000..=3_500).contains(&asked), "{asked}");
    // The one in whose line it stood until a moment ago comes last, and is free at a node that is asked of all in three checks.
    let name = cluster.nodes[0].unwaits.last().cloned().unwrap();
    for node in &mut cluster.nodes {
        node.keys.remove(&name);
    }
    cluster.pass(Duration::from_secs(20));
    let (index, _) = had(&mut cluster, call);
    assert_eq!(format!("a:permit:{index}"), name);
    assert_eq!(cluster.client.size().lines, 0);
}

#[test]
fn where_permits_are_many_and_no_node_has_lines_one_is_asked_at_a_time_which_are_free() {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, 0..700);
    let call = ask(&mut cluster, 700, Wait::Forever);
    cluster.pass(1_000 * MS);
    let takes = cluster.nodes[0].takes;
    // Each node refuses one request about lines, and not one for each permit.
    for node in &mut cluster.nodes {
        assert_eq!(node.refused, ["HELLO", "LOCK.WAIT"]);
        node.surveys = 0;
    }
    cluster.pass(3_000 * MS);
    assert_eq!(cluster.nodes[0].takes, takes);
    let surveys = cluster.nodes.iter().map(|node| node.surveys);
    assert!((15..=80).contains(&surveys.sum::<usize>()));
    set_free(&mut cluster, 17);
    // Six pauses, where one after the other would come to it after a minute.
    cluster.pass(1_200 * MS);
    assert_eq!(had(&mut cluster, call).0, 17);
}

/// Scripts about several names are refused there.
#[test]
fn where_no_node_says_which_permits_are_free_they_are_asked_for_one_after_the_other() {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, 0..40);
    for node in &mut cluster.nodes {
        node.refuses_surveys = true;
    }
    let call = ask(&mut cluster, 40, Wait::Forever);
    cluster.pass(1_000 * MS);
    set_free(&mut cluster, 17);
    cluster.pass(20_000 * MS);
    assert_eq!(had(&mut cluster, call).0, 17);
    // Each node is asked that once.
    let surveys = cluster.nodes.iter().map(|node| node.surveys);
    assert!(surveys.eq([1; 3]));
}

#[test]
fn a_node_with_lines_that_does_not_say_which_permits_are_free_has_no_attempt_begun() {
    let (mut cluster, _) = waiting(300);
    for node in &mut cluster.nodes {
        (node.refuses_surveys, node.surveys) = (true, 0);
    }
    let takes = cluster.nodes[0].takes;
    cluster.pass(Duration::from_secs(170));
    assert_eq!(cluster.nodes[0].takes, takes);
    let surveys = cluster.nodes.iter().map(|node| node.surveys);
    assert!(surveys.eq([1; 3]));
}

#[test]
fn a_call_that_waits_for_many_permits_asks_no_more_often_than_for_a_lock() {
    let asked = |permits: Option<u32>| {
        let mut cluster = Cluster::new(3);
        match permits {
            Some(permits) => take_away(&mut cluster, 0..permits),
            None => cluster.take_away(),
        }
        let call = AcquireCall {
            permits,
            ..Cluster::acquisition(Wait::Forever)
        };
        cluster.call(Call::Acquire(call));
        // All are asked for once, and the pauses have become as long as they get.
        cluster.pass(TTL);
        let before = cluster.nodes[0].takes;
        cluster.pass(6 * TTL);
        cluster.nodes[0].takes - before
    };
    let (of_lock, of_permits) = (asked(None), asked(Some(100)));
    assert!(
        of_lock > 300 && of_permits < of_lock * 11 / 10,
        "{of_permits} and {of_lock}"
    );
}
