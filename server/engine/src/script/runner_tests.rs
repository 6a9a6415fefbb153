//! When scripts are compiled.

#![cfg(feature = "scripts")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;
use crate::caller::Caller;
use crate::effects::Effects;
use crate::keyspace::{Keyspace, KeyspaceRules};
use crate::script::luau::NO_RULES;
use crate::time::{Moment, RawTime};

const CALL: ScriptArguments<'static> = ScriptArguments {
    keys: &[],
    rest: &[],
    is_read_only: false,
};

/// How many compilations each request takes.
#[test]
fn a_script_is_compiled_when_it_is_called_and_once() {
    let mut runner = Runner::new(ScriptLimits::default(), Box::new(|| RawTime::ZERO), 1, true);
    let rules = KeyspaceRules {
        reply_bytes_max: 1000,
        memory_max: 0,
        ..NO_RULES
    };
    let (mut keyspace, mut effects) = (Keyspace::new(1, rules), Effects::default());
    effects.reply = keyspace.reply_budget();
    let mut context = CommandContext {
        keyspace: &mut keyspace,
        now: Moment::default(),
        caller: Caller::default(),
        effects: &mut effects,
    };
    let mut done = 0;
    let mut compiled = |runner: &Runner| {
        let before = done;
        done = runner.interpreter.compilations();
        done - before
    };
    let sha = runner.load(b"return 1").unwrap();
    assert_eq!(compiled(&runner), 0, "SCRIPT LOAD keeps the text");
    let sha = crate::script::cache::sha_of_text(sha.as_bytes()).unwrap();
    for expected in [1, 0, 0] {
        let reply = runner.evalsha(&mut context, &sha, CALL);
        assert_eq!(reply, Some(Reply::Integer(1)));
        assert_eq!(compiled(&runner), expected);
    }
    runner.eval(&mut context, b"return 1", CALL);
    assert_eq!(compiled(&runner), 0, "known by its text as well");
    for number in 0..600 {
        let body = format!("return {number} + 1");
        runner.eval(&mut context, body.as_bytes(), CALL);
        assert_eq!(compiled(&runner), 1, "{number}");
    }
    assert!(runner.contains(&sha), "loaded scripts stay");
    for expected in [1, 0] {
        let reply = runner.evalsha(&mut context, &sha, CALL);
        assert_eq!(reply, Some(Reply::Integer(1)));
        assert_eq!(compiled(&runner), expected, "compiled again after long");
    }
    assert!(runner.load(b"return (").is_err());
    assert_eq!(compiled(&runner), 0);
}

/// The tree of a native script counts as a part of what is compiled.
#[test]
fn a_tree_takes_memory() {
    let bytes = [true, false].map(|runs_natively| {
        let clock = Box::new(|| RawTime::ZERO);
        let mut runner = Runner::new(ScriptLimits::default(), clock, 1, runs_natively);
        runner.add(b"return redis.call('get', KEYS[1])").unwrap();
        runner.cache.compiled().1
    });
    assert!(bytes[0] > bytes[1] + 100, "{bytes:?}");
}
