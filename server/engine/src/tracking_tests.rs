//! Who is told of which key, how much is remembered, and what is left of clients that have gone.

use std::collections::BTreeSet;

use crate::channels::{ClientId, Published, Receivers};
use crate::effects::Effects;
use crate::engine::{Engine, EngineOptions};
use crate::reply::Reply;
use crate::time::NodeTime;
use crate::tracking::eviction::TABLE_BYTES_MAX;
use crate::tracking::{Author, ClientTracking, ENTRIES_PER_STOP, TrackingOptions};

fn told(published: &[Published]) -> Vec<ClientId> {
    let mut all: Vec<ClientId> = published
        .iter()
        .flat_map(|one| match &one.receivers {
            Receivers::Clients(clients) => clients.to_vec(),
            Receivers::Listeners(_) => panic!("nobody listens"),
        })
        .collect();
    all.sort_unstable();
    all
}

fn by(client: ClientId) -> Author {
    Author {
        client,
        is_script: false,
    }
}

fn engine_with(clients: u64) -> Engine {
    let mut engine = Engine::new(EngineOptions::default());
    for client in 0..clients {
        engine.tracking().start(client, TrackingOptions::default());
    }
    engine
}

#[test]
fn who_keeps_a_key_is_told_once() {
    let mut engine = engine_with(3);
    let mut published = Vec::new();
    for client in [0, 2, 2] {
        engine.keyspace.remember_read(client, b"a", &mut published);
    }
    assert_eq!(
        (engine.tracking().keys(), engine.tracking().items()),
        (1, 2)
    );
    engine.tracking().invalidate(b"b", None, &mut published);
    assert!(published.is_empty());
    engine
        .tracking()
        .invalidate(b"a", Some(by(2)), &mut published);
    assert_eq!(told(&published), [0, 2]);
    engine.tracking().invalidate(b"a", None, &mut published);
    assert_eq!(told(&published), [0, 2]);
    assert_eq!(
        (engine.tracking().keys(), engine.tracking().items()),
        (0, 0)
    );
}

/// Planted: what a client keeps is forgotten when it wants to be told of nothing, or is not forgotten when it changes meanwhile.
#[test]
fn who_is_told_again_is_told_of_what_it_has_read_before() {
    let mut engine = engine_with(2);
    let mut published = Vec::new();
    for key in [b"a", b"b", b"c"] {
        engine.keyspace.remember_read(0, key, &mut published);
        engine.keyspace.remember_read(1, key, &mut published);
    }
    let tracking = engine.tracking();
    tracking.leave(1);
    tracking.stop(0);
    assert_eq!((tracking.clients(), tracking.keys()), (0, 3));
    assert!(!tracking.is_off(), "it keeps keys");
    tracking.invalidate(b"b", None, &mut published);
    assert!(published.is_empty(), "it is told of nothing");
    // Another key is where that was.
    tracking.start(1, TrackingOptions::default());
    tracking.remember(1, b"d");
    tracking.start(0, TrackingOptions::default());
    for key in [b"a", b"b", b"d"] {
        tracking.invalidate(key, None, &mut published);
    }
    assert_eq!(told(&published), [0, 1], "0 of a, and 1 of d");
    tracking.leave(1);
    tracking.stop(0);
    assert!(!tracking.is_off());
    tracking.invalidate(b"c", None, &mut published);
    assert!(tracking.is_off(), "it keeps nothing any more");
    tracking.start(0, TrackingOptions::default());
    tracking.remember(0, b"a");
    tracking.stop(0);
    tracking.flush(&mut published);
    assert_eq!((tracking.keys(), tracking.items()), (0, 0));
    assert!(tracking.is_off() && !tracking.has_departed());
}

#[test]
fn clients_that_go_leave_nothing_behind() {
    let mut engine = engine_with(1000);
    let mut published = Vec::new();
    for client in 0..1000 {
        for key in 0..ENTRIES_PER_STOP as u64 - 2 {
            let own = [key, client].map(u64::to_be_bytes).concat();
            engine.keyspace.remember_read(client, &own, &mut published);
            engine
                .keyspace
                .remember_read(client, b"shared", &mut published);
        }
    }
    assert_eq!(engine.tracking().items(), 1000 * (ENTRIES_PER_STOP - 1));
    for client in 0..1000 {
        engine.tracking().leave(client);
    }
    let tracking = engine.tracking();
    assert_eq!(tracking.clients(), 0);
    assert!(!tracking.has_departed());
    assert_eq!(
        (tracking.keys(), tracking.items(), tracking.bytes()),
        (0, 0, 0)
    );
    assert_eq!(tracking.end(), 0);
    assert!(published.is_empty());
}

/// A client with very many keys is taken out bit by bit, and meanwhile its positions may be others'.
#[test]
fn the_entries_of_who_has_gone_are_never_taken_for_those_of_others() {
    let mut engine = engine_with(2);
    let mut published = Vec::new();
    let keys = ENTRIES_PER_STOP as u64 * 300;
    for key in 0..keys {
        engine
            .keyspace
            .remember_read(0, &key.to_be_bytes(), &mut published);
    }
    engine.tracking().leave(0);
    assert!(engine.tracking().has_departed());
    for key in 0..keys {
        engine
            .tracking()
            .invalidate(&key.to_be_bytes(), None, &mut published);
        let other = [b"other", key.to_be_bytes().as_slice()].concat();
        engine.tracking().remember(1, &other);
    }
    assert!(published.is_empty());
    engine.tracking().forget_departed(usize::MAX);
    assert!(!engine.tracking().has_departed());
    assert_eq!(engine.tracking().items() as u64, keys);
    for key in 0..keys {
        let other = [b"other", key.to_be_bytes().as_slice()].concat();
        engine.tracking().invalidate(&other, None, &mut published);
    }
    assert_eq!(told(&published).len() as u64, keys);
}

#[test]
fn what_does_not_fit_is_forgotten_and_told() {
    let mut engine = engine_with(1);
    engine.tracking().set_keys_max(100);
    let mut published = Vec::new();
    for key in 0..1000_u64 {
        engine
            .keyspace
            .remember_read(0, &key.to_be_bytes(), &mut published);
        assert!(engine.tracking().keys() <= 100);
    }
    assert_eq!(told(&published).len(), 900);
    // Very long keys are bounded by their bytes.
    engine.tracking().set_keys_max(0);
    let told_before = published.len();
    for key in 0..1000_u64 {
        let key = [b"short", key.to_be_bytes().as_slice()].concat();
        engine.keyspace.remember_read(0, &key, &mut published);
    }
    assert_eq!(published.len(), told_before, "0 is no limit");
    let mut long = vec![0; 1 << 20];
    for key in 0..600_u64 {
        long[..8].copy_from_slice(&key.to_be_bytes());
        engine.keyspace.remember_read(0, &long, &mut published);
    }
    assert!(engine.tracking().bytes() <= TABLE_BYTES_MAX);
    assert!(published.len() > 900);
}

/// Several keys that are forgotten together are told in one message, each once and to those alone who keep it; a lower
/// limit is kept though most positions are empty then, and one below 64 is told key by key.
#[test]
fn neighbours_are_forgotten_together_and_each_is_told_once() {
    let mut engine = engine_with(2);
    engine.tracking().set_keys_max(1000);
    let mut published = Vec::new();
    for key in 0..5000_u64 {
        let client = key / 100 % 2;
        let keyspace = &mut engine.keyspace;
        keyspace.remember_read(client, &key.to_be_bytes(), &mut published);
        assert!(keyspace.tracking.keys() <= 1000);
        assert!(key < 1000 || keyspace.tracking.keys() > 1000 - 16);
        assert!(key >= 1000 || published.is_empty(), "as many as may be");
    }
    let (of_many, kept) = (published.len(), engine.tracking().keys());
    assert!(of_many < 4000 / 5, "{of_many}");
    engine.tracking().set_keys_max(10);
    for key in 5000..5200_u64 {
        let keyspace = &mut engine.keyspace;
        keyspace.remember_read(0, &key.to_be_bytes(), &mut published);
    }
    let left = engine.tracking().keys();
    assert!(left <= 10, "{left} are left");
    let mut told = BTreeSet::new();
    for one in &published {
        let Some(Reply::Push(parts)) = one.message.push() else {
            panic!("{one:?}");
        };
        let Some(Reply::Array(keys)) = parts.last() else {
            panic!("{parts:?}");
        };
        for key in keys {
            let Reply::Shared(key) = key else {
                panic!("{key:?}");
            };
            let number = u64::from_be_bytes((**key).try_into().unwrap());
            let keeper = if number < 5000 { number / 100 % 2 } else { 0 };
            assert!(matches!(&one.receivers, Receivers::Clients(it) if **it == [keeper]));
            assert!(told.insert(number), "{number} is told twice");
        }
    }
    assert_eq!(told.len(), 5200 - left);
    assert_eq!(published.len() - of_many, kept + 200 - left);
}

/// After the limit was lowered, one read would have forgotten a thousand keys that a thousand clients keep.
#[test]
fn a_read_forgets_few_keys_of_many_clients() {
    let mut engine = engine_with(128);
    let mut published = Vec::new();
    for client in 0..128 {
        for key in 0..100_u64 {
            let keyspace = &mut engine.keyspace;
            keyspace.remember_read(client, &key.to_be_bytes(), &mut published);
        }
    }
    assert_eq!(engine.tracking().items(), 12_800);
    engine.tracking().set_keys_max(1);
    // With eight of them 1,024 items are gone, and not more than that.
    for left in [91, 82, 73] {
        let keyspace = &mut engine.keyspace;
        keyspace.remember_read(0, b"another", &mut published);
        let shared = keyspace.tracking.keys() - 1;
        assert!((left - 1..=left).contains(&shared), "{shared} are left");
    }
}

/// Found from outside: a lower limit was reached by further reads alone, and not to the end where most positions were empty.
#[test]
fn a_lower_limit_is_reached_without_a_read() {
    let mut engine = engine_with(1);
    let mut published = Vec::new();
    for key in 0..20_000_u64 {
        let keyspace = &mut engine.keyspace;
        keyspace.remember_read(0, &key.to_be_bytes(), &mut published);
    }
    engine.tracking().set_keys_max(10);
    let mut told = 0;
    for _ in 0..10_000 {
        let before = engine.tracking().keys();
        let reclaimed = engine.reclaim(NodeTime::from_nanos(1), 64);
        let now = engine.tracking().keys();
        assert!(before - now <= 1024, "{before} and then {now}");
        for one in engine.take_unprompted() {
            let Some(Reply::Push(parts)) = one.message.push() else {
                panic!("{one:?}");
            };
            told += match parts.last() {
                Some(Reply::Array(keys)) => keys.len(),
                _ => panic!("{parts:?}"),
            };
        }
        assert_eq!(told, 20_000 - now);
        if !reclaimed.more {
            assert_eq!(now, 10);
            assert!(engine.tracking().end() <= 1024, "the memory is given back");
            return;
        }
    }
    panic!("{} are left", engine.tracking().keys());
}

/// The table shrinks while clients read, change and leave: then each hears of each change of a key that it keeps, once.
#[test]
fn keys_that_move_are_still_kept_by_those_who_read_them() {
    let mut engine = engine_with(3);
    let mut published = Vec::new();
    for key in 0..9_000_u64 {
        let keyspace = &mut engine.keyspace;
        keyspace.remember_read(key % 3, &key.to_be_bytes(), &mut published);
        keyspace.remember_read((key + 1) % 3, &key.to_be_bytes(), &mut published);
    }
    // It leaves, and its entries are taken out meanwhile.
    engine.tracking().leave(2);
    let kept = |key: &u64| key.is_multiple_of(1000);
    for key in (0..9_000_u64).filter(|key| !kept(key)) {
        engine
            .tracking()
            .invalidate(&key.to_be_bytes(), None, &mut published);
        engine.reclaim(NodeTime::from_nanos(1), 1);
    }
    while engine.reclaim(NodeTime::from_nanos(1), 64).more {}
    assert!(engine.tracking().end() <= 1024, "the memory is given back");
    // The others are those of clients that leave.
    for key in (0..9_000_u64).filter(kept).step_by(2) {
        let mut wanted = vec![key % 3, (key + 1) % 3];
        wanted.retain(|&client| client != 2);
        wanted.sort_unstable();
        published.clear();
        let tracking = engine.tracking();
        tracking.invalidate(&key.to_be_bytes(), None, &mut published);
        assert_eq!(told(&published), wanted, "{key}");
    }
    assert_eq!(engine.tracking().keys(), 4);
    for client in [0, 1] {
        engine.tracking().leave(client);
    }
    while engine.reclaim(NodeTime::from_nanos(1), 64).more {}
    let tracking = engine.tracking();
    assert_eq!((tracking.keys(), tracking.items()), (0, 0));
}

/// However many keys go at once, they are not freed while others wait for the engine; those of few are, at once.
#[test]
fn many_keys_are_never_freed_on_the_way() {
    let ways: [fn(&mut ClientTracking, &mut Vec<Published>); 3] = [
        ClientTracking::flush,
        |tracking, _| {
            tracking.leave(0);
            while tracking.forget_departed(64) {}
        },
        |tracking, published| {
            (0..tracking.end()).for_each(|it| tracking.invalidate_at(it, None, published));
        },
    ];
    for (way, go) in ways.into_iter().enumerate() {
        for (keys, are_kept) in [(2000_u64, true), (3, way == 0)] {
            let mut engine = engine_with(1);
            let tracking = engine.tracking();
            (0..keys).for_each(|key| tracking.remember(0, &key.to_be_bytes()));
            assert!(!tracking.has_discarded());
            go(tracking, &mut Vec::new());
            assert_eq!((tracking.keys(), tracking.items()), (0, 0));
            assert_eq!(tracking.has_discarded(), are_kept, "way {way}, {keys} keys");
            assert_eq!(engine.has_discarded(), are_kept);
            assert_eq!(engine.take_discarded().is_empty(), !are_kept);
            assert!(!engine.has_discarded());
        }
    }
}

#[test]
fn a_flush_is_told_to_everybody_once() {
    let mut engine = engine_with(3);
    let mut effects = Effects::default();
    engine
        .keyspace
        .remember_read(1, b"a", &mut effects.published);
    engine.tracking().flush(&mut effects.published);
    assert_eq!(told(&effects.published), [0, 1, 2]);
    assert_eq!(effects.published.len(), 1, "one message for all");
    assert_eq!(engine.tracking().items(), 0);
}

#[test]
fn who_broadcasts_is_told_of_prefixes_and_leaves_nothing() {
    let mut engine = engine_with(1);
    let tracking = engine.tracking();
    for client in 1..1000 {
        let options = TrackingOptions {
            broadcasts: true,
            ignores_own: client == 3,
            ..TrackingOptions::default()
        };
        tracking.start(client, options);
        let prefix: &[u8] = if client % 2 == 0 { b"" } else { b"a" };
        tracking.add_prefix(client, prefix);
        tracking.add_prefix(client, &[b"b", client.to_be_bytes().as_slice()].concat());
    }
    assert_eq!((tracking.prefixes(), tracking.clients()), (1001, 1000));
    let own = [b"b", 2_u64.to_be_bytes().as_slice()].concat();
    assert!(tracking.prefixes_of(2).eq([b"".as_slice(), &own]));
    assert!(!tracking.is_off());
    let mut published = Vec::new();
    tracking.invalidate(b"abc", Some(by(3)), &mut published);
    tracking.invalidate(b"b", None, &mut published);
    assert!(published.is_empty() && tracking.has_broadcasts());
    tracking.take_broadcasts(&mut published);
    assert!(!tracking.has_broadcasts());
    let reached = told(&published);
    assert!(!reached.contains(&3), "it has changed this itself");
    assert_eq!(reached.len(), 998);
    assert_eq!(published.len(), 2, "one message for each prefix");
    // Its script is not itself, where it broadcasts.
    published.clear();
    let is_script = true;
    tracking.invalidate(b"abc", Some(Author { is_script, ..by(3) }), &mut published);
    tracking.take_broadcasts(&mut published);
    assert!(told(&published).contains(&3));
    // Much that has changed does not wait.
    let long = vec![b'a'; 1 << 20];
    tracking.invalidate(&long, None, &mut published);
    assert!(published.len() > 2 && !tracking.has_broadcasts());
    tracking.invalidate(b"abc", None, &mut published);
    for client in 0..1000 {
        tracking.leave(client);
    }
    assert_eq!((tracking.prefixes(), tracking.clients()), (0, 0));
    assert!(!tracking.has_broadcasts());
    assert!(tracking.is_off());
}
