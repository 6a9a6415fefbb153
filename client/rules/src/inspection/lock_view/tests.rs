//! What answers of nodes come to.

use std::sync::Arc;

use super::super::sight::LockSight;
use super::*;

fn identity(node: usize) -> Identity {
    Identity::new(Arc::from(format!("n{node}")), 1)
}

fn holder(token: &str, left_s: u64) -> HolderSight {
    HolderSight {
        token: token.as_bytes().to_vec(),
        left: (left_s > 0).then(|| Duration::from_secs(left_s)),
        about: About::default(),
    }
}

fn lock(kind: LockKind, holders: Vec<HolderSight>) -> Sight {
    Sight::Lock(LockSight {
        kind,
        holders,
        unshown: 0,
        waiters: Some(2),
    })
}

/// Five nodes: `-` says nothing, `.` has nothing, `x` has something else, and a letter is a token.
fn views(answers: &str) -> Vec<NodeView> {
    let view = |(node, answer): (usize, char)| {
        let sight = match answer {
            '-' => return Err("silent".to_owned()),
            '.' => Sight::Absent,
            'x' => Sight::NoLock,
            token => lock(
                LockKind::String,
                vec![holder(&token.to_string(), 10 + node as u64)],
            ),
        };
        Ok((identity(node), sight))
    };
    answers.chars().enumerate().map(view).collect()
}

fn merge(answers: &str) -> LockView {
    LockView::merge(&views(answers), HOUR)
}

/// A writer behind readers stands at all nodes.
#[test]
fn who_stands_in_line_at_several_nodes_is_counted_once() {
    assert_eq!(merge("aaa..").waiters, Some(2));
    assert_eq!(merge(".....").waiters, None);
}

#[test]
fn a_lock_is_held_by_a_majority_and_by_no_minority() {
    use LockState::{Free, Held, Minority, Unknown};
    for (answers, state, votes) in [
        ("aaaaa", Held, 5),
        ("aaa..", Held, 3),
        ("aaa--", Held, 3),
        ("aaabb", Held, 3),
        (".aa..", Minority, 2),
        ("aabb.", Minority, 2),
        ("aabb-", Unknown, 2),
        ("aa..-", Unknown, 2),
        ("a...-", Minority, 1),
        (".....", Free, 0),
        ("...--", Free, 0),
        ("..---", Unknown, 0),
        ("-----", Unknown, 0),
        ("xx...", Free, 0),
    ] {
        let view = merge(answers);
        assert_eq!(view.state, state, "{answers}");
        let most = view.holders.first().map_or(0, |holder| holder.votes);
        assert_eq!(most, votes, "{answers}");
        assert_eq!(
            view.held_by().count(),
            usize::from(state == Held),
            "{answers}"
        );
    }
}

#[test]
fn a_node_under_two_addresses_votes_once() {
    let mut views = views("aa...");
    views.push(Ok((
        identity(0),
        views[0].as_ref().expect("it answers").1.clone(),
    )));
    views.push(Ok((
        identity(1),
        views[1].as_ref().expect("it answers").1.clone(),
    )));
    let view = LockView::merge(&views, HOUR);
    assert_eq!((view.holders[0].votes, view.answered), (2, 5));
    assert_ne!(view.state, LockState::Held);
}

#[test]
fn a_lock_lasts_until_fewer_than_a_majority_name_its_token() {
    let left = |answers| merge(answers).holders[0].left.map(|left| left.as_secs());
    assert_eq!(left("aaaaa"), Some(12), "three are left until then");
    assert_eq!(left("aaa.."), Some(10));
    assert_eq!(
        left("aa..."),
        Some(11),
        "nobody can take it on that node before"
    );
    let mut views = views("aaa..");
    for view in &mut views[..3] {
        *view = Ok((identity(0), lock(LockKind::String, vec![holder("a", 0)])));
    }
    views[1] = Ok((identity(1), lock(LockKind::String, vec![holder("a", 0)])));
    views[2] = Ok((identity(2), lock(LockKind::String, vec![holder("a", 0)])));
    let view = LockView::merge(&views, HOUR);
    assert_eq!(view.holders[0].left, None);
    assert_eq!(view.marks, [Mark::NoTtl]);
}

#[test]
fn readers_hold_a_lock_side_by_side_each_with_votes_of_its_own() {
    let mut views = views(".....");
    for (node, readers) in ["ab", "ab", "a", "b", "c"].iter().enumerate() {
        let readers = readers
            .chars()
            .map(|one| holder(&one.to_string(), 9))
            .collect();
        views[node] = Ok((identity(node), lock(LockKind::Shared, readers)));
    }
    let view = LockView::merge(&views, HOUR);
    assert_eq!((view.state, view.kind), (LockState::Held, LockKind::Shared));
    let held: Vec<&[u8]> = view.held_by().map(|one| &one.token[..]).collect();
    assert_eq!(held, [b"a", b"b"]);
    assert!(view.marks.is_empty(), "{:?}", view.marks);
}

#[test]
fn readers_whom_no_node_names_are_counted_where_a_majority_has_them() {
    let mut views = views(".....");
    for (node, unshown) in [500, 499, 400, 0].into_iter().enumerate() {
        let readers = ["a", "b"].map(|one| holder(one, 9)).to_vec();
        let mut sight = lock(LockKind::Shared, readers);
        if let Sight::Lock(lock) = &mut sight {
            lock.unshown = unshown;
        }
        views[node] = Ok((identity(node), sight));
    }
    let view = LockView::merge(&views, HOUR);
    assert_eq!((view.unshown, view.holder_count()), (400, 402));
    assert_eq!(view.more_than(1), 401);
    views[1] = Err("silent".to_owned());
    views[2] = Err("silent".to_owned());
    let view = LockView::merge(&views, HOUR);
    assert_eq!((view.state, view.unshown), (LockState::Unknown, 0));
    assert_eq!(merge("aaaaa").holder_count(), 1);
}

#[test]
fn nodes_that_do_not_name_all_readers_may_have_one_in_common() {
    let mut views = views(".....");
    let readers = |node: usize| {
        let named = vec![holder(&format!("of-{node}"), 9), holder("both", 9)];
        Ok((identity(node), lock(LockKind::Shared, named)))
    };
    (views[0], views[1]) = (readers(0), readers(1));
    let state = |views: &[NodeView]| LockView::merge(views, HOUR).state;
    assert_eq!(state(&views), LockState::Minority);
    views[2] = Ok((identity(2), lock(LockKind::Shared, vec![holder("c", 9)])));
    if let Ok((_, Sight::Lock(lock))) = &mut views[2] {
        lock.unshown = 1;
    }
    assert_eq!(state(&views), LockState::Unknown, "the third may have it");
    let view = LockView::merge(&views, HOUR);
    assert_eq!(
        (view.more_than(20), view.more_than(2)),
        (0, 2),
        "four are named, and at least two nodes of three have two"
    );
}

#[test]
fn votes_that_differ_another_kind_and_age_are_marked() {
    assert_eq!(merge("aaaab").marks, [Mark::VotesDiffer]);
    assert_eq!(merge("aaaax").marks, [Mark::NoLock]);
    assert!(merge("aaa..").marks.is_empty());
    assert_eq!(merge("aaa-.").silent, [(3, "silent".to_owned())]);
    let mut views = views("aaaa.");
    let field = lock(LockKind::Hash, vec![holder("c:1", 9)]);
    views[4] = Ok((identity(4), field));
    let view = LockView::merge(&views, HOUR);
    assert_eq!(
        (view.kind, &view.marks[..]),
        (LockKind::String, &[Mark::VotesDiffer][..])
    );
    let mut old = holder("a", 9);
    old.about.held = Some(HOUR);
    let views = [Ok((identity(0), lock(LockKind::String, vec![old])))];
    assert_eq!(LockView::merge(&views, HOUR).marks, [Mark::Old]);
}

#[test]
fn a_lock_is_as_old_as_most_nodes_say_at_least() {
    let shown = |said: &[Option<u64>]| {
        let view = |(node, said): (usize, &Option<u64>)| {
            let mut one = holder("a", 9);
            one.about.held = said.map(Duration::from_millis);
            one.about.extensions = *said;
            Ok((identity(node), lock(LockKind::String, vec![one])))
        };
        let views: Vec<NodeView> = said.iter().enumerate().map(view).collect();
        let view = LockView::merge(&views, HOUR);
        let About {
            held, extensions, ..
        } = view.holders[0].about;
        assert_eq!(held, extensions.map(Duration::from_millis));
        (extensions, view.marks.contains(&Mark::Old))
    };
    let (huge, hour) = (Some(u64::MAX / 2), Some(3_600_000));
    for (said, at_least, is_old) in [
        (&[Some(18), Some(18), huge][..], Some(18), false),
        (&[huge, Some(18)], Some(18), false),
        (&[huge, huge, Some(18), Some(19), Some(20)], Some(20), false),
        // One that has taken the lock later, or was restarted, makes it no younger.
        (&[hour, Some(2), hour], hour, true),
        (&[hour, None, hour, Some(0), hour], hour, true),
        (&[None, hour, None], hour, true),
        (&[None, None, None], None, false),
    ] {
        assert_eq!(shown(said), (at_least, is_old), "{said:?}");
    }
}

#[test]
fn a_fence_is_shown_where_a_majority_has_taken_it() {
    let fenced = |fences: [u64; 3]| {
        let view = |(node, fence): (usize, u64)| {
            let mut one = holder("a", 9);
            one.about.fence = Some(fence);
            one.about.owner = (node == 2).then(|| "rack 4".to_owned());
            Ok((identity(node), lock(LockKind::String, vec![one])))
        };
        let views: Vec<NodeView> = fences.into_iter().enumerate().map(view).collect();
        LockView::merge(&views, HOUR).holders[0].about.clone()
    };
    assert_eq!(fenced([7, 8, 7]).fence, Some(7));
    assert_eq!(fenced([7, 8, 9]).fence, None);
    assert_eq!(fenced([7, 8, 9]).owner.as_deref(), Some("rack 4"));
}

#[test]
fn redisson_names_another_client_on_each_node_and_its_lock_is_held_by_one() {
    let field =
        |node: usize, thread: &str| format!("{node:08x}-3d45-4b1e-9a37-0123456789ab:{thread}");
    // The threads that hold it on each node, one character each.
    let merged = |threads: &str| {
        let view = |(node, threads): (usize, &str)| {
            let held = threads.chars().map(|thread| {
                let field = field(node, &thread.to_string());
                holder(&field, 10 + node as u64)
            });
            let sight = match threads {
                "." => Sight::Absent,
                _ => lock(LockKind::Hash, held.collect()),
            };
            Ok((identity(node), sight))
        };
        let views: Vec<NodeView> = threads.split(' ').enumerate().map(view).collect();
        LockView::merge(&views, HOUR)
    };
    use LockState::{Held, Minority};
    for (threads, state, votes) in [
        ("1 1 1 1 1", Held, 5),
        ("1 . 1 . 1", Held, 3),
        ("1 7 1 7 1", Held, 3),
        ("1 7 1 7 .", Minority, 2),
        // Readers of one hash are several holders.
        ("12 12 12 12 12", Minority, 1),
    ] {
        let view = merged(threads);
        assert_eq!(
            (view.state, view.holders[0].votes),
            (state, votes),
            "{threads}"
        );
        assert_eq!(
            view.marks.contains(&Mark::IdsDiffer),
            votes > 1,
            "{threads}"
        );
    }
    let held = merged("1 . 1 7 1");
    let holder = &held.holders[0];
    assert_eq!(
        holder.left,
        Some(Duration::from_secs(10)),
        "three keep it for so long"
    );
    assert_eq!(
        (holder.token_on(2), &holder.nodes),
        (field(2, "1").as_bytes(), &vec![0, 2, 4])
    );
    assert!(
        holder.is_named(field(4, "1").as_bytes()) && !holder.is_named(field(3, "7").as_bytes())
    );
    // Other fields are whatever they are, and not joined.
    let views = ["a:1", "b:1", "c:1"].map(|field| lock(LockKind::Hash, vec![holder_of(field)]));
    let views = views
        .into_iter()
        .enumerate()
        .map(|(node, sight)| Ok((identity(node), sight)));
    let view = LockView::merge(&views.collect::<Vec<NodeView>>(), HOUR);
    assert_eq!((view.state, view.holders.len()), (Minority, 3));
}

fn holder_of(field: &str) -> HolderSight {
    holder(field, 9)
}

const HOUR: Duration = Duration::from_secs(3_600);
