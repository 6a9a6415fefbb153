//! In place of the interpreter, in a build without the feature `scripts`: scripts that need none are taken, others refused.
//!
//! A script that is refused is not kept, so that the interpreter is never asked to run one.

use std::rc::Rc;

use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::{Reply, ReplyTooLarge};
use crate::script::cache::Sha;
use crate::script::invocation::{LogLine, ScriptArguments, Seeds};
use crate::script::limits::Budget;

/// Whether there is an interpreter in this build.
pub const HAS_INTERPRETER: bool = false;

/// The text that is tried natively in the place of this one, with the same replies and effects.
pub(super) fn native_form(text: &[u8]) -> &[u8] {
    match text {
        EXTEND => EXTEND_NATIVE,
        EXTEND_ALL => EXTEND_ALL_NATIVE,
        _ => text,
    }
}

#[derive(Debug)]
pub(super) struct Interpreter;

/// Nothing: what was checked runs natively.
#[derive(Debug)]
pub(super) struct Function;

pub(super) struct Compiled {
    pub(super) function: Function,
    pub(super) bytes: usize,
}

impl Interpreter {
    pub(super) fn new(_: &Rc<Budget>, _: u64) -> Interpreter {
        Interpreter
    }

    pub(super) fn set_seeds(&self, _: Seeds) {}

    pub(super) fn used_memory(&self) -> usize {
        0
    }

    pub(super) fn take_log(&mut self) -> Vec<LogLine> {
        Vec::new()
    }

    pub(super) fn discard(&mut self) {}

    pub(super) fn check(&mut self, _: &[u8], is_native: bool) -> Result<(), ErrorReply> {
        is_native.then_some(()).ok_or(NO_INTERPRETER)
    }

    pub(super) fn check_size(&mut self, _: &[u8]) -> Result<(), ErrorReply> {
        Ok(())
    }

    pub(super) fn compile(&mut self, _: &[u8]) -> Result<Compiled, ErrorReply> {
        Ok(Compiled {
            function: Function,
            bytes: 0,
        })
    }

    pub(super) fn run(
        &mut self,
        _: &mut CommandContext<'_>,
        _: &Function,
        _: ScriptArguments<'_>,
        _: &Sha,
    ) -> Result<Reply, ReplyTooLarge> {
        Ok(Reply::Error(NO_INTERPRETER))
    }

    pub(super) fn clean(&mut self) -> bool {
        true
    }
}

/// What Quorlock's own client extends a lock with. Nodes before Redis 7.0 have no `GT`, so that it compares numbers itself.
const EXTEND: &[u8] = b"local v = redis.call('GET', KEYS[1]) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end \
local t = redis.call('PTTL', KEYS[1]) \
if t >= 0 and t < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 1";

/// Like the other it never shortens a lock, and leaves alone a lock without a deadline.
const EXTEND_NATIVE: &[u8] = b"local v = redis.call('GET', KEYS[1]) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end \
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') return 1";

/// The same for several locks, all or none.
const EXTEND_ALL: &[u8] = b"for _, k in ipairs(KEYS) do local v = redis.call('GET', k) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end end \
for _, k in ipairs(KEYS) do local t = redis.call('PTTL', k) \
if t >= 0 and t < tonumber(ARGV[2]) then redis.call('PEXPIRE', k, ARGV[2]) end end return 1";

const EXTEND_ALL_NATIVE: &[u8] = b"for _, k in ipairs(KEYS) do local v = redis.call('GET', k) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end end \
for _, k in ipairs(KEYS) do redis.call('PEXPIRE', k, ARGV[2], 'GT') end return 1";

const NO_INTERPRETER: ErrorReply = ErrorReply::fixed(
    "ERR this node was built without scripts: it has no interpreter of Lua, and runs the scripts of conditions and calls \
     alone that most lock libraries send. This script needs more. Nothing of it was executed: no lock was taken, extended \
     or released by it; build quorlock-server with the feature `scripts`",
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use crate::caller::Caller;
    use crate::command::Command;
    use crate::effects::Effects;
    use crate::engine::{Engine, EngineOptions};
    use crate::position::LogPosition;
    use crate::reply::Reply;
    use crate::time::{Moment, NodeTime};

    fn run(engine: &mut Engine, words: &[&str]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let now = Moment {
            node: NodeTime::from_nanos(5_000_000_000),
            wall_us: 1_700_000_000_000_000,
        };
        let mut effects = Effects::default();
        effects.begin(LogPosition::from_raw(1));
        let command = Command::parse(&words).unwrap();
        engine.execute(now, &Caller::default(), &command, &mut effects)
    }

    #[test]
    fn the_extend_of_several_locks_is_of_all_or_none_and_never_shortens() {
        let mut engine = Engine::new(EngineOptions::default());
        let text = std::str::from_utf8(super::EXTEND_ALL).unwrap();
        let extend =
            |engine: &mut Engine, ttl_ms| run(engine, &["EVAL", text, "2", "a", "b", "t1", ttl_ms]);
        let left = |engine: &mut Engine| ["a", "b"].map(|key| run(engine, &["PTTL", key]));
        run(&mut engine, &["SET", "a", "t1", "PX", "2000"]);
        assert_eq!(extend(&mut engine, "5000"), Reply::Integer(0));
        run(&mut engine, &["SET", "b", "t2", "PX", "2000"]);
        assert_eq!(extend(&mut engine, "5000"), Reply::Integer(-1));
        assert_eq!(left(&mut engine), [2000, 2000].map(Reply::Integer));
        run(&mut engine, &["SET", "b", "t1", "PX", "9000"]);
        assert_eq!(extend(&mut engine, "5000"), Reply::Integer(1));
        assert_eq!(left(&mut engine), [5000, 9000].map(Reply::Integer));
    }

    fn is_refused(reply: &Reply) -> bool {
        let error = match reply {
            Reply::Error(error) => error.to_string(),
            _ => String::new(),
        };
        error.starts_with("ERR this node was built without scripts: ")
            && error.ends_with("build quorlock-server with the feature `scripts`")
    }

    #[test]
    fn native_scripts_answer_by_text_and_by_sha() {
        let mut engine = Engine::new(EngineOptions::default());
        let sha = run(&mut engine, &["SCRIPT", "LOAD", RELEASE]);
        assert_eq!(sha, Reply::bulk(RELEASE_SHA));
        for way in [["EVAL", RELEASE], ["EVALSHA", RELEASE_SHA]] {
            run(&mut engine, &["SET", "job", "t1"]);
            let release =
                |engine: &mut Engine, token| run(engine, &[way[0], way[1], "1", "job", token]);
            assert_eq!(release(&mut engine, "t2"), Reply::Integer(0), "{way:?}");
            assert_eq!(release(&mut engine, "t1"), Reply::Integer(1), "{way:?}");
            assert_eq!(run(&mut engine, &["GET", "job"]), Reply::Nil);
        }
        let known = run(&mut engine, &["SCRIPT", "EXISTS", RELEASE_SHA, LOOP_SHA]);
        assert_eq!(
            known,
            Reply::Array(vec![Reply::flag(true), Reply::flag(false)])
        );
        assert_eq!(run(&mut engine, &["SCRIPT", "FLUSH"]), Reply::Ok);
        let gone = run(&mut engine, &["EVALSHA", RELEASE_SHA, "1", "job", "t1"]);
        assert!(format!("{gone:?}").contains("NOSCRIPT"), "{gone:?}");
    }

    #[test]
    fn the_extend_of_our_own_client_extends_and_never_shortens() {
        let mut engine = Engine::new(EngineOptions::default());
        let text = std::str::from_utf8(super::EXTEND).unwrap();
        let extend = |engine: &mut Engine, token, ttl_ms| {
            run(engine, &["EVAL", text, "1", "job", token, ttl_ms])
        };
        let left = |engine: &mut Engine| run(engine, &["PTTL", "job"]);
        assert_eq!(extend(&mut engine, "t1", "5000"), Reply::Integer(0));
        run(&mut engine, &["SET", "job", "t1", "PX", "2000"]);
        assert_eq!(extend(&mut engine, "t2", "5000"), Reply::Integer(-1));
        assert_eq!(left(&mut engine), Reply::Integer(2000));
        for (asked, expected) in [("1000", 2000), ("2000", 2000), ("2001", 2001)] {
            assert_eq!(extend(&mut engine, "t1", asked), Reply::Integer(1));
            assert_eq!(left(&mut engine), Reply::Integer(expected), "{asked}");
        }
        run(&mut engine, &["PERSIST", "job"]);
        assert_eq!(extend(&mut engine, "t1", "5000"), Reply::Integer(1));
        assert_eq!(left(&mut engine), Reply::Integer(-1));
    }

    /// Once more as well: what was refused is not kept.
    #[test]
    fn other_scripts_are_refused_and_not_kept() {
        let mut engine = Engine::new(EngineOptions::default());
        for _ in 0..2 {
            for request in [
                &["EVAL", LOOP, "1", "job"][..],
                &["EVAL_RO", LOOP, "1", "job"],
                &["SCRIPT", "LOAD", LOOP],
                &["EVAL", "#!lua\nreturn 1", "0"],
            ] {
                let reply = run(&mut engine, request);
                assert!(is_refused(&reply), "{request:?}: {reply:?}");
            }
            let reply = run(&mut engine, &["EVALSHA", LOOP_SHA, "1", "job"]);
            assert!(format!("{reply:?}").contains("NOSCRIPT"), "{reply:?}");
        }
        assert_eq!(run(&mut engine, &["GET", "job"]), Reply::Nil);
        assert_eq!(engine.script_count(), 0);
        // What is no script is called so, as ever.
        let reply = run(&mut engine, &["EVAL", "return (", "0"]);
        assert!(
            format!("{reply:?}").contains("Error compiling"),
            "{reply:?}"
        );
    }

    const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    const RELEASE_SHA: &str = "ae3671744a5dbb24ea37ef607b8b10ac7856d43e";
    const LOOP: &str = "for i = 1, 2 do redis.call('set', KEYS[1], i) end";
    const LOOP_SHA: &str = "a837f5d7b674d1cae1cde1eb2862fa1d6a317743";
}
