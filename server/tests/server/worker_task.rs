//! A node whose worker is a task on a loop of its program.

use std::pin::Pin;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use quorlock_server::{Node, NodeBuilder, RunState};
use quorlock_testkit::Wire;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::machine::{run, wire};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread with a loop that runs the task until it is ready or the sender is dropped. It says whether the task was ready.
fn host() -> (
    impl FnOnce(Task) + Send + 'static,
    JoinHandle<bool>,
    oneshot::Sender<()>,
) {
    let (hand_over, handed_over) = channel::<Task>();
    let (end, mut ended) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let task = handed_over.recv().unwrap();
        LocalSet::new().block_on(&runtime, async {
            tokio::select! {
                () = task => true,
                _ = &mut ended => false,
            }
        })
    });
    let host = move |task| hand_over.send(task).unwrap();
    (host, thread, end)
}

async fn started(builder: NodeBuilder) -> (Node, JoinHandle<bool>, oneshot::Sender<()>) {
    let (host, thread, end) = host();
    let builder = builder.directive("workers", &["1"]).worker_task(host);
    (builder.start().await.unwrap(), thread, end)
}

#[test]
fn clients_are_served_until_the_node_stops() {
    run(async {
        let (node, thread, _end) = started(Node::builder().ephemeral()).await;
        let address = node.address();
        let clients: Vec<_> = (0..32)
            .map(|number| {
                std::thread::spawn(move || {
                    let mut client = Wire::connect(address);
                    for round in 0..100 {
                        let set = format!("SET k{number} {round} PX 30000");
                        assert_eq!(client.ask(&set), "+OK");
                        assert_eq!(client.ask(&format!("GET k{number}")), format!("{round}"));
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        node.stop().await.unwrap();
        assert!(thread.join().unwrap());
    });
}

/// More connections become ready at once than the poll tells of at a time.
#[test]
fn no_event_of_many_is_forgotten() {
    run(async {
        let (node, thread, _end) = started(Node::builder().ephemeral()).await;
        let mut clients: Vec<_> = (0..200).map(|_| wire(&node)).collect();
        for client in &mut clients {
            client.send(b"PING\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.reply(), "+PONG");
        }
        node.stop().await.unwrap();
        assert!(thread.join().unwrap());
    });
}

/// A deadline, a message from another thread, and a call in the process come while the task waits.
#[test]
fn a_waiting_task_is_woken_by_time_and_by_other_threads() {
    run(async {
        let (node, thread, _end) = started(Node::builder().ephemeral()).await;
        let (mut waiting, mut listening) = (wire(&node), wire(&node));
        assert_eq!(waiting.ask("BLPOP l 0.05"), "nil array");
        waiting.send(b"BLPOP l 0\r\n");
        listening.ask("SUBSCRIBE c");
        node.call(["RPUSH", "l", "x"]).await.unwrap();
        assert_eq!(waiting.reply(), "[l, x]");
        node.call(["PUBLISH", "c", "news"]).await.unwrap();
        assert_eq!(listening.reply(), "[message, c, news]");
        node.stop().await.unwrap();
        assert!(thread.join().unwrap());
    });
}

#[test]
fn a_node_whose_task_was_dropped_has_failed() {
    run(async {
        let (node, thread, end) = started(Node::builder().ephemeral()).await;
        assert_eq!(wire(&node).ask("PING"), "+PONG");
        drop(end);
        let error = node.stopped().await.unwrap_err().to_string();
        assert!(error.contains("worker"), "{error}");
        assert!(
            matches!(node.state(), RunState::Failed(_)),
            "{:?}",
            node.state()
        );
        assert!(!thread.join().unwrap());
    });
}

#[test]
fn a_node_whose_task_is_never_run_fails_to_start_or_ends() {
    run(async {
        let builder = Node::builder().ephemeral();
        let node = builder.worker_task(drop).start().await;
        if let Ok(node) = node {
            assert!(node.stopped().await.is_err());
        }
    });
}
