//! The model's key against the production engine: the same requests in the same order, at the same
//! times, must get the same replies. All sequences up to a length, so none is left out.

use quorlock_client_rules::{EXTEND_SCRIPT, RELEASE_SCRIPT};
use quorlock_engine::control::Durability;
use quorlock_engine::{Engine, EngineOptions, NodeTime, RawTime, Reply};

use super::mutant::Mutant;
use super::node::{Node, Rules, Told, Wish};
use super::scope::{Configuration, TICK_NS};
use super::{Exclusion, Size, scopes};
use crate::parts::{self, Token};

#[derive(Clone, Copy, Debug)]
enum Request {
    Ask(Wish, u8, u64),
    Tick,
}

const REQUESTS: [Request; 8] = [
    Request::Ask(Wish::Take, 0, TICK_NS),
    Request::Ask(Wish::Take, 1, 2 * TICK_NS),
    Request::Ask(Wish::Extend, 0, TICK_NS),
    Request::Ask(Wish::Extend, 0, 3 * TICK_NS),
    Request::Ask(Wish::Extend, 1, TICK_NS),
    Request::Ask(Wish::Release, 0, 0),
    Request::Ask(Wish::Release, 1, 0),
    Request::Tick,
];

#[test]
fn the_key_of_the_model_is_the_key_of_the_engine() {
    assert_eq!(first_difference(Mutant::None), None);
}

#[test]
fn the_comparison_sees_every_key_that_is_not() {
    for mutant in [
        Mutant::ExtensionShortens,
        Mutant::ExtensionCreates,
        Mutant::ReleaseWithoutOwner,
        Mutant::NowCached,
    ] {
        assert_ne!(first_difference(mutant), None, "{mutant:?}");
    }
}

/// The first sequence of requests whose replies differ.
fn first_difference(mutant: Mutant) -> Option<String> {
    let mut engine = Engine::new(EngineOptions::default());
    let mut raw = RawTime::from_nanos(1_000_000_000);
    for number in 0..REQUESTS.len().pow(LENGTH) {
        let mut rest = number;
        let sequence: Vec<Request> = (0..LENGTH)
            .map(|_| {
                let request = REQUESTS[rest % REQUESTS.len()];
                rest /= REQUESTS.len();
                request
            })
            .collect();
        let name = number.to_string();
        if let Some(problem) = compare(&mut engine, &mut raw, mutant, &name, &sequence) {
            return Some(problem);
        }
    }
    None
}

fn compare(
    engine: &mut Engine,
    raw: &mut RawTime,
    mutant: Mutant,
    name: &str,
    sequence: &[Request],
) -> Option<String> {
    let scope = scopes(Size::Small).remove(0);
    let rules = Rules {
        mutant,
        ..Exclusion::new(scope, mutant).rules()
    };
    let configuration = Configuration {
        mode: Durability::Everysec,
        cap_ns: 60_000_000_000,
    };
    let mut node = Node::fresh(&rules, *raw, configuration, 0);
    for request in sequence {
        let Request::Ask(wish, client, ttl_ns) = *request else {
            *raw = raw.plus_nanos(TICK_NS);
            continue;
        };
        let token = Token { client, attempt: 0 };
        let (told, _) = node.execute(&rules, *raw, (wish, token, ttl_ns));
        let now = node.now(*raw);
        let reply = ask(engine, now, name, (wish, client, ttl_ns));
        if reply != told {
            return Some(format!("{sequence:?}: {told:?} is {reply:?} in the engine"));
        }
    }
    None
}

/// The same request as the client puts it, and what its reply means.
fn ask(engine: &mut Engine, now: NodeTime, key: &str, request: (Wish, u8, u64)) -> Told {
    let (wish, client, ttl_ns) = request;
    let token = format!("token{client}");
    let ttl = (ttl_ns / 1_000_000).to_string();
    let (key, token, ttl) = (key.as_bytes(), token.as_bytes(), ttl.as_bytes());
    let arguments: Vec<&[u8]> = match wish {
        Wish::Take => vec![b"SET", key, token, b"NX", b"PX", ttl, b"GET"],
        Wish::Extend => vec![b"EVAL", EXTEND_SCRIPT, b"1", key, token, ttl],
        Wish::Release => vec![b"EVAL", RELEASE_SCRIPT, b"1", key, token],
    };
    let (reply, _) = parts::ask(engine, now, &arguments);
    match (wish, &reply) {
        (Wish::Take, Reply::Nil) => Told::Granted,
        (Wish::Take, Reply::Bulk(holder)) if holder[..] == *token => Told::Granted,
        (Wish::Take, Reply::Bulk(_)) => Told::Busy,
        (Wish::Extend, Reply::Integer(1)) => Told::Extended,
        (Wish::Extend, Reply::Integer(0)) => Told::Gone,
        (Wish::Extend, Reply::Integer(-1)) => Told::Other,
        (Wish::Release, Reply::Integer(1)) => Told::Freed,
        (Wish::Release, Reply::Integer(0)) => Told::NotHeld,
        other => panic!("a reply that no client expects: {other:?}"),
    }
}

const LENGTH: u32 = 4;
