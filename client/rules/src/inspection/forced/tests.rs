//! Which token is meant, and what its end by force came to.

use std::sync::Arc;
use std::time::Duration;

use super::super::lock_view::{HolderView, NodeView};
use super::super::sight::{About, HolderSight, LockSight, Sight};
use super::*;
use crate::votes::Identity;

fn view(kind: LockKind, votes: &[(&str, usize)], answered: usize) -> LockView {
    let holder = |(token, votes): &(&str, usize)| HolderView {
        token: token.as_bytes().to_vec(),
        votes: *votes,
        nodes: (0..*votes).collect(),
        clients: Vec::new(),
        left: Some(Duration::from_secs(9)),
        about: About::default(),
    };
    let holders: Vec<HolderView> = votes.iter().map(holder).collect();
    let most = votes.iter().map(|(_, votes)| *votes).max().unwrap_or(0);
    let state = match most {
        3.. => LockState::Held,
        _ if most + (5 - answered) >= 3 => LockState::Unknown,
        0 => LockState::Free,
        _ => LockState::Minority,
    };
    let (nodes, silent, marks) = (5, Vec::new(), Vec::new());
    LockView {
        state,
        kind,
        holders,
        unshown: 0,
        answered,
        nodes,
        silent,
        waiters: None,
        marks,
    }
}

fn chosen(view: &LockView, token: Option<&str>) -> Result<String, NoChoice> {
    let named: Vec<Vec<u8>> = token.map(Vec::from).into_iter().collect();
    let token = choose(view, &named, true)?;
    Ok(String::from_utf8_lossy(token).into_owned())
}

/// What comes of a token of which each node was asked, where that was the only one that was named.
fn judged(
    token: &[u8],
    replies: &[Result<bool, String>],
    before: &LockView,
    after: &LockView,
) -> Forced {
    let asked = tokens(before, token, &[]);
    outcome(&asked, replies, before, after)
}

/// The field of a program of Redisson's on a node, by thread 1.
fn client(program: char, node: usize) -> Vec<u8> {
    let program = u32::from(program);
    format!("{node:08x}-3d45-4b1e-9a37-{program:012x}:1").into_bytes()
}

/// Five nodes: `-` does not answer, `.` has nothing, and a letter is a program that is named.
fn redisson(programs: &str) -> LockView {
    let view = |(node, program): (usize, char)| {
        let sight = match program {
            '-' => return Err("silent".to_owned()),
            '.' => Sight::Absent,
            _ => Sight::Lock(LockSight {
                kind: LockKind::Hash,
                holders: vec![HolderSight {
                    token: client(program, node),
                    left: Some(Duration::from_secs(9)),
                    about: About::default(),
                }],
                unshown: 0,
                waiters: None,
            }),
        };
        Ok((Identity::new(Arc::from(format!("n{node}")), 1), sight))
    };
    let views: Vec<NodeView> = programs.chars().enumerate().map(view).collect();
    LockView::merge(&views, Duration::MAX)
}

/// The fields of a program on all nodes.
fn clients(program: char) -> Vec<Vec<u8>> {
    (0..5).map(|node| client(program, node)).collect()
}

#[test]
fn the_token_that_is_named_is_meant_and_no_other_holder() {
    let held = view(LockKind::String, &[("new", 5)], 5);
    assert_eq!(chosen(&held, Some("old")), Err(NoChoice::OtherToken));
    assert_eq!(chosen(&held, Some("new")).as_deref(), Ok("new"));
    let readers = view(LockKind::Shared, &[("a", 5), ("b", 4)], 5);
    assert_eq!(chosen(&readers, Some("b")).as_deref(), Ok("b"));
}

#[test]
fn a_token_that_silent_nodes_could_hold_by_a_majority_is_not_said_to_be_lost() {
    for (before, named, why) in [
        ("xx---", 'y', NoChoice::Unknown),
        ("x.---", 'y', NoChoice::Unknown),
        (".----", 'y', NoChoice::Unknown),
        // The two that are away are no majority, whoever has the others.
        ("x..--", 'y', NoChoice::OtherToken),
        ("xxx--", 'y', NoChoice::OtherToken),
        ("...--", 'y', NoChoice::Free),
    ] {
        let named = clients(named);
        let chosen = choose(&redisson(before), &named, false).map(<[u8]>::to_vec);
        assert_eq!(chosen, Err(why), "{before}");
    }
    let left_over = view(LockKind::String, &[("old", 1)], 2);
    assert_eq!(chosen(&left_over, Some("new")), Err(NoChoice::Unknown));
    assert_eq!(chosen(&left_over, Some("old")).as_deref(), Ok("old"));
}

#[test]
fn a_reader_whom_no_node_names_is_ended_where_it_is_named() {
    let mut readers = view(LockKind::Shared, &[("a", 5), ("b", 5)], 5);
    assert_eq!(chosen(&readers, Some("z")), Err(NoChoice::OtherToken));
    readers.unshown = 1;
    assert_eq!(chosen(&readers, Some("z")).as_deref(), Ok("z"));
    let judge = |freed: usize, silent: usize| {
        let mut replies = vec![Ok(true); freed];
        replies.extend(vec![Err("no answer".to_owned()); silent]);
        replies.resize(5, Ok(false));
        judged(b"z", &replies, &readers, &readers)
    };
    assert_eq!(judge(5, 0), Forced::Ended);
    assert_eq!(judge(3, 2), Forced::Ended);
    assert_eq!(judge(2, 3), Forced::MayBeHeld, "three may keep it");
    assert_eq!(judge(0, 0), Forced::Gone);
    // One node is silent at the end, and those that answer name all of their readers by then.
    let errors = [
        Ok(true),
        Ok(true),
        Err(String::new()),
        Err(String::new()),
        Err(String::new()),
    ];
    let fewer = view(LockKind::Shared, &[("a", 4)], 4);
    let judged = judged(b"z", &errors, &readers, &fewer);
    assert_eq!(judged, Forced::MayBeHeld, "three may keep it");
    // A node ends one reader.
    let two = [b"a".to_vec(), b"b".to_vec()];
    assert_eq!(choose(&readers, &two, true), Err(NoChoice::Several));
}

#[test]
fn without_a_token_the_only_one_is_meant_or_the_one_with_a_majority() {
    use LockKind::{Hash, Shared, String};
    for (kind, votes, answered, choice) in [
        (String, &[("a", 5)][..], 5, Ok("a")),
        (String, &[("a", 3), ("b", 2)], 5, Ok("a")),
        (String, &[("a", 2), ("b", 2)], 5, Err(NoChoice::Several)),
        (String, &[("a", 1)], 5, Ok("a")),
        (Hash, &[("c:1", 5)], 5, Ok("c:1")),
        (Hash, &[("c:1", 5), ("c:2", 5)], 5, Err(NoChoice::Several)),
        (Shared, &[("a", 5)], 5, Ok("a")),
        (Shared, &[("a", 5), ("b", 5)], 5, Err(NoChoice::Several)),
        (String, &[], 5, Err(NoChoice::Free)),
        (String, &[], 2, Err(NoChoice::Unknown)),
    ] {
        let chosen = chosen(&view(kind, votes, answered), None);
        assert_eq!(chosen.as_deref(), choice.as_ref().copied(), "{votes:?}");
    }
}

#[test]
fn a_lock_of_redisson_ends_on_each_node_under_the_client_that_the_node_names() {
    let clients = |from: usize| (from..5).map(|node| format!("c{node}:1").into_bytes());
    let mut held = view(LockKind::Hash, &[("c0:1", 5)], 5);
    held.holders[0].clients = clients(0).collect();
    assert_eq!(chosen(&held, None).as_deref(), Ok("c0:1"));
    assert_eq!(chosen(&held, Some("c3:1")).as_deref(), Ok("c3:1"));
    assert_eq!(chosen(&held, Some("c5:1")), Err(NoChoice::OtherToken));
    let all = [b"c0:1", b"c1:1", b"c2:1", b"c3:1", b"c4:1"];
    assert_eq!(tokens(&held, b"c3:1", &[]), all);
    // Two nodes have freed it, and the three others name it still.
    let mut after = view(LockKind::Hash, &[("c2:1", 3)], 5);
    after.holders[0].nodes = vec![2, 3, 4];
    after.holders[0].clients = clients(2).collect();
    let failed = || Err(String::new());
    let replies = [Ok(true), Ok(true), failed(), failed(), failed()];
    let judge = |after| judged(b"c0:1", &replies, &held, after);
    assert_eq!(judge(&after), Forced::MayBeHeld);
    assert_eq!(judge(&view(LockKind::Hash, &[], 5)), Forced::Ended);
}

#[test]
fn a_program_keeps_the_lock_where_another_of_the_same_thread_has_left_something() {
    let view = redisson("yyyxx");
    assert_eq!(view.holders.len(), 1, "they look like one");
    let left = clients('x');
    for named in [&left[3..4], &left[..]] {
        let token = choose(&view, named, false).expect("a node has it");
        let asked = tokens(&view, token, named);
        let is_meant = (0..3).any(|node| asked[node] == client('y', node));
        assert!(!is_meant, "{asked:?}");
        let freed = [3, 4].map(|node| asked[node] == client('x', node));
        assert_eq!(freed, [true, named.len() == 5]);
        let replies = [false, false, false, freed[0], freed[1]].map(Ok::<bool, String>);
        let after = redisson(if freed[1] { "yyy.." } else { "yyy.x" });
        assert_eq!(outcome(&asked, &replies, &view, &after), Forced::Ended);
        let stay = if freed[1] { 3 } else { 4 };
        assert_eq!(others(&asked, &after), stay);
    }
    // Which of them is meant is said, or each token is shown before.
    assert_eq!(choose(&view, &[], false), Err(NoChoice::Several));
    let token = choose(&view, &[], true).expect("it is shown");
    let all: Vec<Vec<u8>> = [&clients('y')[..3], &left[3..]].concat();
    assert_eq!(tokens(&view, token, &[]), all);
}

#[test]
fn a_program_has_ended_where_those_that_name_it_still_are_no_majority() {
    use Forced::{Ended, MayBeHeld};
    for (before, freed, after, expected) in [
        ("xxxxx", 2, "..xxx", MayBeHeld),
        ("xxxxx", 2, "..xx-", MayBeHeld),
        // The one that gets the lock meanwhile looks like a part of it.
        ("xxxxx", 2, "yyxxx", MayBeHeld),
        ("xxxxx", 3, "yyyxx", Ended),
        ("xxxxx", 3, "yyyx.", Ended),
        ("xxxxx", 4, "yyyyx", Ended),
        ("xxxxx", 4, "xyyyy", Ended),
        // Nodes that were silent are asked for the tokens of others.
        ("xx---", 2, "..xxx", MayBeHeld),
        ("xxx--", 3, "...xx", Ended),
    ] {
        let shown = redisson(before);
        let replies: Vec<Result<bool, String>> = (0..5).map(|node| Ok(node < freed)).collect();
        let after_that = redisson(after);
        for named in [Vec::new(), clients('x')] {
            let token = choose(&shown, &named, true).expect("nodes name it");
            let asked = tokens(&shown, token, &named);
            let found = outcome(&asked, &replies, &shown, &after_that);
            assert_eq!(found, expected, "{before} {freed} {after}");
        }
    }
}

#[test]
fn it_has_ended_where_no_silent_nodes_could_give_it_a_majority() {
    let released = |count: usize| -> Vec<Result<bool, String>> {
        let reply = |node| if node < count { Ok(true) } else { Ok(false) };
        (0..5).map(reply).collect()
    };
    let after = |votes, answered| view(LockKind::String, votes, answered);
    let before = after(&[("a", 5)], 5);
    let judge = |count, after: &LockView| judged(b"a", &released(count), &before, after);
    assert_eq!(judge(5, &after(&[], 5)), Forced::Ended);
    assert_eq!(judge(3, &after(&[], 3)), Forced::Ended);
    assert_eq!(judge(2, &after(&[], 2)), Forced::MayBeHeld);
    assert_eq!(judge(3, &after(&[("a", 2)], 5)), Forced::Ended);
    assert_eq!(judge(3, &after(&[("a", 2)], 4)), Forced::MayBeHeld);
    // Another holder has got it in between, and keeps it.
    assert_eq!(judge(0, &after(&[("b", 5)], 5)), Forced::Gone);
    assert_eq!(judge(1, &after(&[("b", 4)], 5)), Forced::Ended);
}
