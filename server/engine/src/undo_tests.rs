//! A script that is undone leaves no trace: not in keys, slots, deadlines, counts or positions.

use proptest::prelude::*;

use crate::caller::{Caller, Protocol};
use crate::command::Command;
use crate::command::spec::Handler;
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::{DatabaseCount, Keyspace, KeyspaceRules};
use crate::position::LogPosition;
use crate::reply::Reply;
use crate::time::{Moment, NodeTime};

fn keyspace() -> Keyspace {
    Keyspace::new(3, KeyspaceRules::FOR_TESTS)
}

fn context_at<'e>(
    keyspace: &'e mut Keyspace,
    effects: &'e mut Effects,
    now_ms: u64,
) -> CommandContext<'e> {
    let node = NodeTime::from_nanos((now_ms + 1) * 1_000_000);
    let caller = Caller {
        database: 0,
        client_id: 1,
        protocol: Protocol::Resp2,
        ..Caller::default()
    };
    CommandContext {
        keyspace,
        now: Moment { node, wall_us: 0 },
        caller,
        effects,
    }
}

fn run(context: &mut CommandContext<'_>, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let command = Command::parse(&words).expect("a valid command");
    let Handler::Keys(run) = command.spec.handler else {
        panic!("a command on keys")
    };
    run(context, command.arguments).unwrap_or_else(Reply::Error)
}

/// Everything that can be told of a keyspace: the entries with their slots and positions, with the
/// order of what is in them, and counts.
fn fingerprint(keyspace: &Keyspace) -> (Vec<String>, Vec<DatabaseCount>) {
    let entries = keyspace.entries(None).map(|(slot, entry)| {
        let value = match entry.value() {
            ValueRef::String(string) => format!("{string:?}"),
            ValueRef::Collection(Collection::Hash(fields)) => {
                let pairs: Vec<_> = fields.iter().collect();
                format!("{pairs:?} {} {}", fields.bytes(), fields.is_small())
            }
            ValueRef::Collection(Collection::Set(set)) => {
                let members: Vec<_> = set.iter().collect();
                let has_integers = set.is_of_integers();
                format!(
                    "{members:?} {} {} {has_integers}",
                    set.bytes(),
                    set.is_small()
                )
            }
            ValueRef::Collection(other) => format!("{other:?}"),
        };
        let (position, deadline) = (entry.position().get(), entry.deadline);
        let (database, key) = (keyspace.database_of(entry), entry.key());
        format!("{slot} {position} {deadline:?} {database} {key:?} = {value}")
    });
    (
        entries.collect(),
        (0..16).map(|database| keyspace.count(database)).collect(),
    )
}

fn shared_lock_command() -> impl Strategy<Value = String> {
    (0..8_u8, 0..4_u8, 1..50_u8, 0..6_u8).prop_map(|(key, token, ttl, kind)| match kind {
        0 => format!("LOCK.RELEASE k{key} t{token}"),
        1 => format!("LOCK.EXTEND k{key} t{token} {ttl}"),
        2 => format!("RENAME k{key} k{token}"),
        _ => format!("LOCK.ACQUIRE k{key} t{token} {ttl} SHARED"),
    })
}

fn command() -> impl Strategy<Value = String> {
    let key = 0..8_u8;
    let ttl = prop_oneof![
        Just(String::new()),
        (1..50_u8).prop_map(|ttl| format!(" PX {ttl}"))
    ];
    prop_oneof![
        4 => (key.clone(), any::<u8>(), ttl).prop_map(|(key, value, ttl)| format!("SET k{key} {value}{ttl}")),
        1 => key.clone().prop_map(|key| format!("SET k{key} {}", "long".repeat(20))),
        3 => key.clone().prop_map(|key| format!("DEL k{key}")),
        2 => (key.clone(), -1..50_i8).prop_map(|(key, ttl)| format!("PEXPIRE k{key} {ttl}")),
        1 => key.clone().prop_map(|key| format!("PERSIST k{key}")),
        1 => key.clone().prop_map(|key| format!("INCR k{key}")),
        4 => (key.clone(), 0..4_u8).prop_map(|(key, field)| format!("HSET k{key} f{field} v{field}")),
        2 => (key.clone(), 0..4_u8).prop_map(|(key, field)| format!("HINCRBY k{key} n{field} 1")),
        3 => (key.clone(), 0..4_u8).prop_map(|(key, field)| format!("HDEL k{key} f{field}")),
        14 => (key.clone(), 0..4_u8, 0..4_u8).prop_flat_map(|(key, other, element)| list_command(key, other, element)),
        6 => sorted_set_command(),
        8 => shared_lock_command(),
        1 => (key.clone(), 0..30_u8).prop_map(|(key, from)| {
            let many: Vec<_> = (from..from + 70).map(|field| format!("f{field} v")).collect();
            format!("HSET k{key} {}", many.join(" "))
        }),
        4 => (key.clone(), 0..9_u8).prop_map(|(key, member)| format!("SADD k{key} {member} m{member} 3")),
        1 => (key.clone(), 0..30_u8).prop_map(|(key, from)| {
            let many: Vec<_> = (from..from + 70).map(|member| member.to_string()).collect();
            format!("SADD k{key} {}", many.join(" "))
        }),
        3 => (key.clone(), 0..9_u8).prop_map(|(key, member)| format!("SREM k{key} {member} 2{member} m{member}")),
        1 => key.clone().prop_map(|key| format!("SPOP k{key}")),
        1 => (key.clone(), 0..9_u8).prop_map(|(key, count)| format!("SPOP k{key} {count}")),
        2 => (key.clone(), key.clone(), 0..9_u8).prop_map(|(from, to, member)| format!("SMOVE k{from} k{to} {member}")),
        2 => (
            prop_oneof![Just("SINTERSTORE"), Just("SUNIONSTORE"), Just("SDIFFSTORE")],
            key.clone(),
            key.clone(),
            key,
        )
            .prop_map(|(name, to, one, other)| format!("{name} k{to} k{one} k{other}")),
        1 => Just("FLUSHDB".to_string()),
        2 => (0..2_u8, 1..3_u8).prop_map(|(one, other)| format!("SWAPDB {one} {other}")),
    ]
}

/// Lists have keys of their own, so that commands find what they are for.
fn list_command(key: u8, other: u8, element: u8) -> impl Strategy<Value = String> {
    let key = format!("l{}", key % 3);
    prop::sample::select(vec![
        format!("RPUSH {key} {element} x {other} y"),
        format!("LPUSH {key} {element}"),
        format!("LPOP {key}"),
        format!("RPOP {key} {other}"),
        format!("LSET {key} {other} {element}"),
        format!("LINSERT {key} AFTER {element} {other}"),
        format!("LREM {key} 0 {element}"),
        format!("LTRIM {key} 1 -2"),
        format!("LMOVE {key} l{other} LEFT RIGHT"),
        format!("LMOVE {key} {key} RIGHT LEFT"),
        format!("COPY {key} l{other}"),
    ])
}

/// Some of the sets have more members than are searched from front to back.
fn sorted_set_command() -> impl Strategy<Value = String> {
    let (key, member, score) = (0..8_u8, 0..6_u8, -2..3_i8);
    let many = |key| {
        let pairs = (0..80).map(|number| format!(" {} m{number}", number % 7));
        format!("ZADD k{key}{}", pairs.collect::<String>())
    };
    let end = prop_oneof![Just("MIN"), Just("MAX")];
    prop_oneof![
        4 => (key.clone(), score.clone(), member.clone()).prop_map(|(key, score, member)| format!("ZADD k{key} {score} m{member} 1 m{score}")),
        1 => key.clone().prop_map(many),
        2 => (key.clone(), score.clone(), member.clone()).prop_map(|(key, score, member)| format!("ZINCRBY k{key} {score} m{member}")),
        2 => (key.clone(), member.clone()).prop_map(|(key, member)| format!("ZREM k{key} m{member} none m1")),
        1 => (key.clone(), score.clone()).prop_map(|(key, score)| format!("ZREMRANGEBYSCORE k{key} ({score} 2")),
        1 => (key.clone(), member.clone()).prop_map(|(key, rank)| format!("ZREMRANGEBYRANK k{key} {rank} -2")),
        2 => (key.clone(), end, 1..90_u8).prop_map(|(key, end, count)| format!("ZMPOP 1 k{key} {end} COUNT {count}")),
        1 => (key.clone(), key.clone()).prop_map(|(key, other)| format!("ZRANGESTORE k{key} k{other} 1 3")),
        1 => (key.clone(), key.clone()).prop_map(|(key, other)| format!("ZUNIONSTORE k{key} 2 k{key} k{other} WEIGHTS 1 -1")),
        1 => (key.clone(), key).prop_map(|(key, other)| format!("ZDIFFSTORE k{key} 2 k{key} k{other}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn an_undone_script_leaves_no_trace(
        before in prop::collection::vec((command(), 0..5_u64), 0..40),
        script in prop::collection::vec(command(), 0..30),
        after in prop::collection::vec(command(), 0..10),
    ) {
        let (mut keyspace, mut effects) = (keyspace(), Effects::default());
        let (mut position, mut now_ms) = (1, 0);
        for (line, pause) in before {
            effects.begin(LogPosition::from_raw(position));
            now_ms += pause;
            run(&mut context_at(&mut keyspace, &mut effects, now_ms), &line);
            position += u64::from(!effects.journal.is_empty());
        }
        let expected = fingerprint(&keyspace);
        effects.begin(LogPosition::from_raw(position));
        let mut context = context_at(&mut keyspace, &mut effects, now_ms);
        let mark = context.begin_undo();
        for line in &script {
            run(&mut context, line);
        }
        context.rollback(mark);
        prop_assert!(effects.journal.is_empty() && !effects.uncovered);
        prop_assert_eq!(effects.longest_deadline, None);
        prop_assert!(effects.depends.any.get() < position && effects.depends.synced.get() < position);
        prop_assert_eq!(fingerprint(&keyspace), expected);
        prop_assert!(!keyspace.is_recording());
        // No later reply may depend on the position that was never logged, and all goes on.
        for line in after {
            effects.begin(LogPosition::from_raw(position));
            run(&mut context_at(&mut keyspace, &mut effects, now_ms), &line);
            let own = u64::from(!effects.journal.is_empty());
            prop_assert!(effects.depends.any.get() < position);
            prop_assert!(effects.depends.synced.get() < position);
            position += own;
        }
        keyspace.reclaim(NodeTime::from_nanos(u64::MAX - 1), usize::MAX);
        let left: u64 = (0..16).map(|database| keyspace.count(database).with_ttl).sum();
        prop_assert_eq!(left, 0, "the wheel still knows every deadline");
    }
}

#[test]
fn a_reader_whose_time_is_over_is_as_before_when_one_of_its_token_is_taken_back() {
    let (mut keyspace, mut effects) = (keyspace(), Effects::default());
    effects.begin(LogPosition::from_raw(1));
    for line in ["LOCK.ACQUIRE k t1 3 SHARED", "LOCK.ACQUIRE k t2 24 SHARED"] {
        run(&mut context_at(&mut keyspace, &mut effects, 1), line);
    }
    let expected = fingerprint(&keyspace);
    let mut context = context_at(&mut keyspace, &mut effects, 4);
    let mark = context.begin_undo();
    run(&mut context, "LOCK.ACQUIRE k t1 16 SHARED");
    context.rollback(mark);
    assert_eq!(fingerprint(&keyspace), expected);
}

#[test]
fn a_group_has_a_size_limit_and_what_does_not_fit_is_refused_whole() {
    let (mut keyspace, mut effects) = (keyspace(), Effects::default());
    effects.begin(LogPosition::from_raw(1));
    let mut context = context_at(&mut keyspace, &mut effects, 0);
    let mark = context.begin_undo();
    let mut accepted = 0;
    let value = "v".repeat(900);
    while !run(&mut context, &format!("SET k{accepted} {value}")).is_error() {
        accepted += 1;
        assert!(accepted < 100, "the limit is reached");
    }
    assert_eq!(context.commit_undo(mark), Ok(()));
    assert_eq!(accepted, 10);
    assert!(effects.journal.len() <= 10_000);
    assert_eq!(keyspace.count(0).keys, 10);
}

#[test]
fn keys_and_values_have_a_size_limit() {
    let (mut keyspace, mut effects) = (keyspace(), Effects::default());
    effects.begin(LogPosition::from_raw(1));
    let mut context = context_at(&mut keyspace, &mut effects, 0);
    let (key, value) = ("k".repeat(100), "v".repeat(1000));
    assert_eq!(run(&mut context, &format!("SET {key} {value}")), Reply::Ok);
    let text = |reply: Reply| match reply {
        Reply::Error(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let long_key = text(run(&mut context, &format!("SET {key}k v")));
    assert_eq!(long_key, "ERR key is longer than 100 bytes");
    let long_value = text(run(&mut context, &format!("SET k {value}v")));
    assert_eq!(long_value, "ERR value is larger than 1000 bytes");
    let large_hash = "ERR collection is larger than 1000 bytes";
    assert_eq!(
        text(run(&mut context, &format!("HSET h f {value}"))),
        large_hash
    );
    let half = &value[..450];
    assert_eq!(
        run(&mut context, &format!("HSET h f {half} g {half}")),
        Reply::Integer(2)
    );
    assert_eq!(
        text(run(&mut context, &format!("HSET h x x y {half}"))),
        large_hash
    );
    assert_eq!(
        run(&mut context, "HLEN h"),
        Reply::Integer(2),
        "all fields or none"
    );
    assert_eq!(
        run(&mut context, &format!("EXISTS {key}k")),
        Reply::Integer(0)
    );
}
