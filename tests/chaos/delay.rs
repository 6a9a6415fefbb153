//! The restart delay of one node that was killed: who waits, for how long, and what ends it.

use std::time::Duration;

use quorlock_testkit::{NodeProcess, becomes_so, observed_now};

const TTL_MS: &str = "4000";
const TTL: Duration = Duration::from_secs(4);
/// Where nobody waits for the end: longer than a disk may stall under a reply.
const LONG: Duration = Duration::from_secs(600);
/// A node's clock and the test's are not the same one.
const SLACK: Duration = Duration::from_millis(50);

fn set(name: &str) -> [&str; 6] {
    ["SET", name, "token", "NX", "PX", TTL_MS]
}

fn set_long(name: &str) -> [&str; 6] {
    ["SET", name, "token", "NX", "PX", "600000"]
}

pub(crate) fn is_refused(node: &NodeProcess) -> bool {
    let reply = node
        .ask(&set("probe"))
        .expect("a node answers during its delay");
    assert!(
        reply == "+OK" || reply.starts_with("-RESTARTDELAY "),
        "the answer was {reply:?}"
    );
    reply != "+OK"
}

/// Watches the nodes until all serve; when each did, after `since`.
pub(crate) fn serve<const N: usize>(nodes: [&NodeProcess; N], since: Duration) -> [Duration; N] {
    let mut waited = [None; N];
    let have_ended = becomes_so(Duration::from_secs(20), || {
        for (node, waited) in nodes.iter().zip(&mut waited) {
            if waited.is_none() && !is_refused(node) {
                *waited = Some(observed_now().saturating_sub(since));
            }
        }
        waited.iter().all(Option::is_some)
    });
    assert!(have_ended, "a delay does not end: {waited:?}");
    waited.map(Option::unwrap_or_default)
}

fn remaining_ms(node: &NodeProcess) -> u64 {
    let field = node
        .info("restart_delay_remaining_ms")
        .expect("INFO has the field");
    field.trim().parse().expect("the field is a number")
}

#[test]
fn a_killed_node_that_synced_everything_serves_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut node = NodeProcess::start(folder.path(), "node", &["--appendfsync", "always"]);
    assert_eq!(node.ask(&set_long("held")).ok().as_deref(), Some("+OK"));
    node.kill();
    node.start_again();
    assert!(
        !is_refused(&node),
        "it waits although nothing can be missing:\n{}",
        node.log()
    );
    let reply = node.ask(&set_long("held")).expect("the node answers");
    assert_eq!(reply, "nil", "the lock it granted must still be held");
}

#[test]
fn a_killed_node_waits_until_its_locks_have_expired() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut node = NodeProcess::start(folder.path(), "node", &["--appendfsync", "everysec"]);
    assert_eq!(node.ask(&set("held")).ok().as_deref(), Some("+OK"));
    node.kill();
    let killed = observed_now();
    node.start_again();
    assert!(
        is_refused(&node),
        "it may have forgotten a lock:\n{}",
        node.log()
    );
    assert_eq!(node.info("restart_delay").as_deref(), Some("1"));
    assert_eq!(node.ask(&["PING"]).ok().as_deref(), Some("+PONG"));
    let [waited] = serve([&node], killed);
    assert!(
        waited >= TTL,
        "it waited {waited:?}; a lock may live {TTL:?}"
    );
    assert_eq!(node.info("restart_delay").as_deref(), Some("0"));
}

#[test]
fn neither_a_clean_stop_nor_another_kill_ends_the_delay() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut node = NodeProcess::start(folder.path(), "node", &["--appendfsync", "everysec"]);
    assert_eq!(node.ask(&set("held")).ok().as_deref(), Some("+OK"));
    node.kill();
    let killed = observed_now();
    node.start_again();
    let first = remaining_ms(&node);
    assert!(first > 0, "there is a delay");
    node.stop();
    node.start_again();
    assert!(
        is_refused(&node),
        "a clean stop ended the delay:\n{}",
        node.log()
    );
    let second = remaining_ms(&node);
    assert!(
        second > 0 && second <= first,
        "the end moved: {first} ms, then {second} ms"
    );
    node.kill();
    node.start_again();
    assert!(is_refused(&node), "a kill ended the delay:\n{}", node.log());
    // The end stays where it was, so a crash loop does not restart the delay for ever.
    assert!(remaining_ms(&node) <= second, "the end moved");
    let [waited] = serve([&node], killed);
    assert!(
        waited >= TTL,
        "it waited {waited:?}; a lock may live {TTL:?}"
    );
}

#[test]
fn a_clean_stop_forgets_nothing_and_needs_no_delay() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut node = NodeProcess::start(folder.path(), "node", &["--appendfsync", "everysec"]);
    let before_set = observed_now();
    assert_eq!(node.ask(&set_long("held")).ok().as_deref(), Some("+OK"));
    let after_set = observed_now();
    node.stop();
    node.start_again();
    let before_reply = observed_now();
    let reply = node.ask(&["PTTL", "held"]).expect("the node answers");
    let after_reply = observed_now();
    let left: u64 = reply
        .trim_start_matches(':')
        .parse()
        .expect("the time left");
    let left = Duration::from_millis(left);
    // The node did both at some moment between request and reply.
    let least = LONG.saturating_sub(after_reply.saturating_sub(before_set));
    let most = LONG.saturating_sub(before_reply.saturating_sub(after_set));
    assert!(
        left + SLACK >= least && left <= most + SLACK,
        "{left:?} are left, {least:?} to {most:?} were expected"
    );
}
