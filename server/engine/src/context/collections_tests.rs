//! Changes of collections by commands: what the log, later replies and the room for them make of each.

use super::*;
use crate::caller::{Caller, Protocol};
use crate::keyspace::list::{End, List};
use crate::keyspace::members::Members;
use crate::keyspace::{Keyspace, KeyspaceRules};
use crate::position::LogPosition;
use crate::time::{Moment, NodeTime};

fn keyspace() -> Keyspace {
    Keyspace::new(3, KeyspaceRules::FOR_TESTS)
}

/// Runs something as the group at a position.
fn at<T>(
    keyspace: &mut Keyspace,
    effects: &mut Effects,
    position: u64,
    run: impl FnOnce(&mut CommandContext<'_>) -> T,
) -> T {
    effects.begin(LogPosition::from_raw(position));
    run(&mut CommandContext {
        keyspace,
        now: Moment {
            node: NodeTime::from_nanos(1_000_000),
            wall_us: 0,
        },
        caller: Caller {
            database: 0,
            client_id: 1,
            protocol: Protocol::Resp2,
            ..Caller::default()
        },
        effects,
    })
}

fn put(
    context: &mut CommandContext<'_>,
    collection: impl Into<Collection>,
    deadline: Deadline,
) -> Result<(), ErrorReply> {
    let found = context.peek(b"key");
    context.put_collection(&found, b"key", collection, deadline)
}

fn change(context: &mut CommandContext<'_>, changes: &[Change<'_>]) -> Result<usize, ErrorReply> {
    let found = context.peek(b"key");
    context.change(&found, b"key", changes.iter().copied())
}

/// A list, and the journal that has made it.
fn with_list(deadline: Deadline) -> (Keyspace, Effects, Vec<u8>) {
    let (mut keyspace, mut effects) = (keyspace(), Effects::default());
    let mut list = List::default();
    list.push(End::Right, b"one"[..].into());
    let is_put = at(&mut keyspace, &mut effects, 1, |context| {
        put(context, list, deadline)
    });
    assert_eq!(is_put, Ok(()));
    let journal = effects.journal.clone();
    (keyspace, effects, journal)
}

fn short() -> Deadline {
    Deadline::at_nanos(5_000_000_000)
}

const LEFT: End = End::Left;

#[test]
fn nothing_comes_after_the_change_that_empties_a_collection_as_in_replay() {
    let (mut keyspace, mut effects, mut journal) = with_list(Deadline::NEVER);
    let changes = [
        Change::ListPop {
            end: LEFT,
            count: 9,
        },
        Change::ListPush {
            end: LEFT,
            element: b"x",
        },
    ];
    let count = at(&mut keyspace, &mut effects, 2, |context| {
        change(context, &changes)
    });
    assert_eq!(count, Ok(1));
    let found = keyspace.locate(NodeTime::ZERO, 0, b"key");
    assert_eq!(found.stored, None);
    assert_eq!(keyspace.count(0).keys, 0);

    let mut replayed = self::keyspace();
    for payload in [std::mem::take(&mut journal), effects.journal.clone()] {
        crate::replay::apply(&mut replayed, LogPosition::from_raw(1), &payload)
            .expect("as written");
    }
    assert_eq!(replayed.count(0).keys, 0);
}

#[test]
fn a_reply_depends_on_the_change_that_emptied_a_collection_and_on_that_of_an_uncovered_key() {
    let pop = Change::ListPop {
        end: LEFT,
        count: 1,
    };
    let push = Change::ListPush {
        end: LEFT,
        element: b"x",
    };
    for (deadline, one, is_uncovered) in [
        (short(), pop, false),
        (short(), push, false),
        (Deadline::NEVER, pop, true),
        (Deadline::NEVER, push, true),
    ] {
        let (mut keyspace, mut effects, _) = with_list(deadline);
        let count = at(&mut keyspace, &mut effects, 2, |context| {
            change(context, &[one])
        });
        assert_eq!(count, Ok(1));
        assert_eq!(effects.uncovered, is_uncovered, "{one:?}");
        let found = keyspace.locate(NodeTime::ZERO, 0, b"key");
        assert_eq!(found.live.is_none(), one == pop);
        let depends = keyspace.dependency(&found);
        assert_eq!(depends.any.get(), 2, "{one:?}");
        // The list itself was uncovered before where it is so now.
        assert_eq!(
            depends.synced.get(),
            if is_uncovered { 2 } else { 0 },
            "{one:?}"
        );
    }
}

/// A permit that was popped is held for as long as its list lasts: a restart delay has to cover that.
#[test]
fn what_is_taken_from_a_list_counts_as_granted() {
    let element = &b"x"[..];
    for changes in [
        &[Change::ListPop {
            end: LEFT,
            count: 1,
        }][..],
        &[Change::ListPush { end: LEFT, element }],
        &[
            Change::ListPush { end: LEFT, element },
            Change::ListRemove { index: 1 },
        ],
    ] {
        let (mut keyspace, mut effects, _) = with_list(short());
        let count = at(&mut keyspace, &mut effects, 2, |context| {
            change(context, changes)
        });
        assert_eq!(count, Ok(changes.len()));
        let granted = short().node_time();
        assert_eq!(effects.longest_deadline, Some(granted), "{changes:?}");
        assert_eq!(effects.longest_covered, Some(granted), "{changes:?}");
    }
    let (mut keyspace, mut effects, _) = with_list(short());
    let is_deleted = at(&mut keyspace, &mut effects, 2, |context| {
        let found = context.peek(b"key");
        context.delete(&found, b"key")
    });
    assert_eq!(is_deleted, Ok(true));
    assert_eq!(effects.longest_deadline, Some(short().node_time()));
    // The one change only removes, and nothing is left to grow.
    let (mut keyspace, mut effects, _) = with_list(short());
    let removal = [Change::ListRemove { index: 0 }];
    let count = at(&mut keyspace, &mut effects, 2, |context| {
        change(context, &removal)
    });
    assert_eq!(count, Ok(1));
    assert_eq!(effects.longest_deadline, Some(short().node_time()));
}

#[test]
fn a_change_that_changes_nothing_is_neither_logged_nor_a_write() {
    let (mut keyspace, mut effects) = (keyspace(), Effects::default());
    let mut members = Members::default();
    members.add(&b"one"[..], 0);
    let is_put = at(&mut keyspace, &mut effects, 1, |context| {
        put(context, members, Deadline::NEVER)
    });
    assert_eq!(is_put, Ok(()));
    let changes = [
        Change::SetAdd { member: b"one" },
        Change::SetRemove { member: b"two" },
    ];
    let count = at(&mut keyspace, &mut effects, 2, |context| {
        change(context, &changes)
    });
    assert_eq!(count, Ok(0));
    assert!(effects.journal.is_empty() && !effects.uncovered);
    let found = keyspace.locate(NodeTime::ZERO, 0, b"key");
    assert_eq!(keyspace.dependency(&found).any.get(), 1);
}

#[test]
fn changes_are_made_whole_within_the_room_that_there_is_or_not_at_all() {
    let long = [b'x'; 400];
    let changes = [
        Change::ListPush {
            end: LEFT,
            element: &long,
        },
        Change::ListInsert {
            index: 1,
            element: b"y",
        },
        Change::ListRotate { from: LEFT },
        Change::ListSet {
            index: 0,
            element: b"",
        },
    ];
    let mut accepted = 0;
    for room in 0..1000 {
        let (mut keyspace, mut effects, _) = with_list(short());
        effects.room.bytes = Some(room);
        let count = at(&mut keyspace, &mut effects, 2, |context| {
            context.effects.room.bytes = Some(room);
            change(context, &changes)
        });
        match count {
            Ok(count) => {
                assert_eq!(count, changes.len());
                assert!(effects.journal.len() <= room, "{room}");
                accepted += 1;
            }
            Err(error) => {
                assert_eq!(error, crate::effects::NO_ROOM);
                assert!(effects.journal.is_empty(), "{room}");
                let found = keyspace.locate(NodeTime::ZERO, 0, b"key");
                assert_eq!(keyspace.dependency(&found).any.get(), 1);
            }
        }
    }
    assert!((300..600).contains(&accepted), "{accepted}");
}
