//! The scripts of lock libraries, by their text. Each does on the nodes what it does on one server.

use quorlock_agent_simulation::library_scripts::{
    REDIS_PY_EXTEND, REDIS_PY_REACQUIRE, REDIS_PY_RELEASE, SPRING_OBTAIN, SYMFONY_SAVE,
};
use quorlock_engine::Reply;

use crate::{agents, token};

#[test]
fn those_of_redis_py() {
    let mut agents = agents();
    assert_eq!(
        agents.send(0, &["SET", "a", "me", "NX", "PX", "10000"]),
        Reply::Ok
    );
    let mut run = |script, owner, more: &[&str]| {
        let request = [&["EVAL", script, "1", "a", owner][..], more].concat();
        let reply = agents.send(1, &request);
        let Reply::Integer(left) = agents.send(0, &["PTTL", "a"]) else {
            panic!("a number")
        };
        (reply, left)
    };
    let (reply, left) = run(REDIS_PY_EXTEND, "me", &["5000", "0"]);
    assert!(
        reply == Reply::Integer(1) && (14_950..15_003).contains(&left),
        "{left}"
    );
    let (reply, left) = run(REDIS_PY_EXTEND, "me", &["5000", "1"]);
    assert!(
        reply == Reply::Integer(1) && (4_950..5_003).contains(&left),
        "{left}"
    );
    let (reply, left) = run(REDIS_PY_REACQUIRE, "me", &["10000"]);
    assert!(
        reply == Reply::Integer(1) && (9_950..10_003).contains(&left),
        "{left}"
    );
    for script in [REDIS_PY_EXTEND, REDIS_PY_REACQUIRE, REDIS_PY_RELEASE] {
        assert_eq!(run(script, "you", &["5000", "0"]).0, Reply::Integer(0));
    }
    assert_eq!(run(REDIS_PY_RELEASE, "me", &[]), (Reply::Integer(1), -2));
}

#[test]
fn that_of_spring_integration() {
    let mut agents = agents();
    let obtain = |owner| ["EVAL", SPRING_OBTAIN, "1", "a", owner, "10000"];
    assert_eq!(agents.send(0, &obtain("me")), Reply::Integer(1));
    assert_eq!(agents.send(1, &obtain("you")), Reply::Nil);
    assert_eq!(agents.send(1, &obtain("me")), Reply::Integer(1));
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
}

/// bsm/redislock (0.9.4).
const REDISLOCK_PTTL: &str = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"pttl\", KEYS[1]) else return -3 end";
/// Laravel's RedisLock (11), which is that of many.
const LARAVEL_RELEASE: &str = "
if redis.call(\"get\",KEYS[1]) == ARGV[1] then
    return redis.call(\"del\",KEYS[1])
else
    return 0
end
";

#[test]
fn those_of_redislock_symfony_and_laravel() {
    let mut agents = agents();
    let save = |owner| ["EVAL", SYMFONY_SAVE, "1", "a", owner, "10000"];
    assert_eq!(agents.send(0, &save("me")), Reply::Integer(1));
    assert_eq!(agents.send(1, &save("me")), Reply::Integer(1));
    assert_eq!(agents.send(1, &save("you")), Reply::Integer(0));
    let pttl = |owner| ["EVAL", REDISLOCK_PTTL, "1", "a", owner];
    assert_eq!(agents.send(0, &pttl("you")), Reply::Integer(-3));
    let Reply::Integer(left) = agents.send(0, &pttl("me")) else {
        panic!("a number")
    };
    assert!((9_950..10_003).contains(&left), "{left}");
    let release = |owner| ["EVAL", LARAVEL_RELEASE, "1", "a", owner];
    assert_eq!(agents.send(1, &release("you")), Reply::Integer(0));
    assert_eq!(agents.send(1, &release("me")), Reply::Integer(1));
}
