//! What an embedding program learns of its node: at every way to end the state says so, and what waits for the node wakes.

use std::net::TcpStream;
use std::time::Duration;

use quorlock_server::{Node, RunState, StateWatch};

use crate::machine::{Directives, Machine, run, wire};

const ALWAYS: Directives<'_> = &[("appendfsync", "always")];

/// The states that follow, up to an end.
async fn to_the_end(watch: StateWatch, first: RunState) -> Vec<String> {
    let (mut states, mut state) = (vec![first.to_string()], first);
    while !state.is_final() {
        let next = tokio::time::timeout(Duration::from_secs(10), watch.changed(&state));
        state = next.await.expect("the watch wakes at every state");
        states.push(state.to_string());
    }
    states
}

async fn does_not_serve(node: &Node) {
    assert!(!node.is_serving(), "{:?}", node.state());
    let refused = node.serving().await.unwrap_err().to_string();
    assert!(refused.contains("serves no locks any more"), "{refused}");
}

#[test]
fn a_node_that_was_asked_to_stop_serves_no_more() {
    run(async {
        let node = Machine::new().start(&[]).await;
        node.serving().await.unwrap();
        assert!(node.is_serving());
        let seen = tokio::spawn(to_the_end(node.watch(), node.state()));
        tokio::task::yield_now().await;
        node.request_stop();
        does_not_serve(&node).await;
        node.stopped().await.unwrap();
        does_not_serve(&node).await;
        assert!(matches!(node.state(), RunState::Stopped));
        assert!(TcpStream::connect(node.address()).is_err());
        let seen = seen.await.unwrap();
        assert_eq!((&*seen[0], &*seen[seen.len() - 1]), ("serving", "stopped"));
    });
}

#[test]
fn shutdown_by_a_client_is_seen() {
    run(async {
        let node = Machine::new().start(&[]).await;
        wire(&node).send(b"SHUTDOWN\r\n");
        let states = to_the_end(node.watch(), RunState::Serving).await;
        assert_eq!(states.last().unwrap(), "stopped");
        does_not_serve(&node).await;
    });
}

#[test]
fn a_watch_sees_the_end_of_a_node_that_was_dropped_and_of_one_that_crashed() {
    run(async {
        for crashes in [false, true] {
            let node = Machine::new().start(&[]).await;
            let watch = node.watch();
            match crashes {
                true => node.crash().await,
                false => drop(node),
            }
            assert!(!watch.state().is_serving());
            let states = to_the_end(watch.clone(), watch.state()).await;
            assert_eq!(states.last().unwrap(), "stopped");
            let again = watch.changed(&RunState::Stopped);
            let again = tokio::time::timeout(Duration::from_millis(20), again).await;
            assert!(again.is_err(), "nothing follows an end");
        }
    });
}

#[test]
fn a_log_that_fails_is_the_cause_of_the_state() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(ALWAYS).await;
        let seen = tokio::spawn(to_the_end(node.watch(), node.state()));
        tokio::task::yield_now().await;
        machine.fail_syncs();
        let reply = wire(&node).ask("SET a token NX PX 10000");
        assert!(reply.starts_with("-MISCONF"), "{reply}");
        does_not_serve(&node).await;
        let RunState::Failed(failure) = node.state() else {
            panic!("{:?}", node.state());
        };
        let code = failure.io_error().and_then(std::io::Error::raw_os_error);
        assert_eq!(code, Some(crate::machine::EIO));
        assert_eq!(
            node.stopped().await.unwrap_err().to_string(),
            failure.to_string()
        );
        assert_eq!(
            *seen.await.unwrap().last().unwrap(),
            format!("failed: {failure}")
        );
    });
}

#[test]
fn a_delay_says_what_is_left_and_ends_with_a_stop() {
    run(async {
        let machine = Machine::new();
        let everysec = &[("appendfsync", "everysec")];
        let node = machine.granting(everysec, "SET a token NX PX 10000").await;
        machine.kill();
        node.crash().await;
        let node = machine.start(everysec).await;
        let left = |node: &Node| match node.state() {
            RunState::Delayed { left, .. } => left,
            other => panic!("{other:?}"),
        };
        let before = left(&node);
        assert!(before > Duration::from_secs(9), "{before:?}");
        machine.advance_ms(2_000);
        assert_eq!(before - left(&node), Duration::from_secs(2));
        assert!(!node.is_serving());
        let (serving, ()) = tokio::join!(node.serving(), async { node.request_stop() });
        assert!(serving.is_err());
        node.stopped().await.unwrap();
        does_not_serve(&node).await;
    });
}
