//! The time limit where a single command of a script takes long: the clock is read after such a
//! command, and while its reply is handed over.

use super::{Node, run};
use quorlock_engine::RawTime;

/// Each reading of the clock finds that another 200 ms have passed.
fn slow_node() -> Node {
    let mut node = Node::default();
    let mut now = RawTime::ZERO;
    node.engine.set_script_clock(Box::new(move || {
        now = now.plus_nanos(200_000_000);
        now
    }));
    node
}

/// Such a command is one step, and the clock is not read at every step.
#[test]
fn a_command_that_takes_long_is_followed_by_a_look_at_the_clock() {
    for call in [
        "'keys','*'",
        "'hgetall','h'",
        "'del','1','2','3','4','5','6','7','8','9'",
    ] {
        let mut node = slow_node();
        node.run("HSET h f 1");
        let body = format!("for i=1,100 do redis.call({call}) redis.log(redis.LOG_WARNING, i) end");
        let reply = run(&mut node, &body);
        assert!(
            reply.starts_with("-ERR Script ended: time limit"),
            "{reply}"
        );
        let calls = node.engine.take_script_log().len();
        // The time counts from before the first of them.
        assert!((1..4).contains(&calls), "{call}: {calls} calls, then ended");
    }
}

#[test]
fn a_long_reply_is_left_where_the_time_is_over() {
    for dialect in [2, 3] {
        let mut node = slow_node();
        for number in 0..2000 {
            node.run(&format!("HSET h f{number} v"));
        }
        let body = format!(
            "redis.setresp({dialect}) redis.call('hgetall','h') redis.log(redis.LOG_WARNING, 'after')"
        );
        let reply = run(&mut node, &body);
        assert!(
            reply.starts_with("-ERR Script ended: time limit"),
            "{reply}"
        );
        assert!(node.engine.take_script_log().is_empty(), "the call itself");
    }
}
