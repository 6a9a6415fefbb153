//! A node that was built without the feature `scripts`: it runs the usual lock scripts, and says of others what is missing.
//!
//! A program of its own, which is empty in a build that has the feature.

#![cfg(not(feature = "scripts"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use quorlock_server::{CallError, MemoryDisk, Node, Value};

const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

const LOOP: &str = "for i = 1, 2 do redis.call('set', KEYS[1], i) end";

#[tokio::test]
async fn the_usual_lock_scripts_run_and_others_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let start = async || {
        let builder = Node::builder().ephemeral().disk(disk.clone());
        builder.start().await.unwrap()
    };
    let node = start().await;
    node.call(["SET", "job", "t1"]).await.unwrap();
    for request in [&["EVAL", LOOP, "1", "job"][..], &["SCRIPT", "LOAD", LOOP]] {
        let refused = node.call(request).await.unwrap_err();
        let CallError::Refused(text) = refused else {
            panic!("{refused}");
        };
        assert!(
            text.starts_with("ERR this node was built without scripts: "),
            "{text}"
        );
        assert!(text.ends_with("with the feature `scripts`"), "{text}");
    }
    let release = |token| ["EVAL", RELEASE, "1", "job", token];
    assert_eq!(node.call(release("t2")).await.unwrap(), Value::Integer(0));
    assert_eq!(node.call(release("t1")).await.unwrap(), Value::Integer(1));
    node.call(["SET", "job", "t3"]).await.unwrap();
    node.stop().await.unwrap();
    // What a script has changed is read back as what a command has changed.
    let node = start().await;
    let sha = node.call(["SCRIPT", "LOAD", RELEASE]).await.unwrap();
    let sha = String::from_utf8(sha.as_bytes().unwrap().to_vec()).unwrap();
    let released = node.call(["EVALSHA", &sha, "1", "job", "t3"]).await;
    assert_eq!(released.unwrap(), Value::Integer(1));
    let unknown = node.call(["EVALSHA", &"0".repeat(40), "0"]).await;
    assert!(unknown.unwrap_err().to_string().starts_with("NOSCRIPT "));
    node.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_to_run_all_scripts_in_the_interpreter_does_not_start() {
    let builder = Node::builder()
        .ephemeral()
        .directive("script-native", &["no"]);
    let refused = builder.start().await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("script-native is no"), "{refused}");
    assert!(refused.contains("with the feature scripts"), "{refused}");
}
