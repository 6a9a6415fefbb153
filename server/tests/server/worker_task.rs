//! A node whose worker is a task on a loop of its program.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use quorlock_server::{Node, RunState};
use quorlock_testkit::Wire;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::machine::{run, wire};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread with a loop that runs the task until it is ready.
struct Host {
    thread: JoinHandle<bool>,
    /// Holds up the loop until the sender is dropped whose receiver comes.
    gates: mpsc::UnboundedSender<Receiver<()>>,
    /// Dropped, the loop ends before the task.
    end: oneshot::Sender<()>,
}

impl Host {
    /// A node whose worker is a task on the loop of such a thread.
    async fn of_node() -> (Node, Self) {
        let (hand_over, handed_over) = channel::<Task>();
        let (gates, mut gate) = mpsc::unbounded_channel::<Receiver<()>>();
        let (end, mut ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            let task = handed_over.recv().unwrap();
            let held_up = async {
                while let Some(gate) = gate.recv().await {
                    let _opened = gate.recv();
                }
                std::future::pending::<()>().await;
            };
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = task => true,
                    () = held_up => false,
                    _ = &mut ended => false,
                }
            })
        });
        let builder = Node::builder().ephemeral().directive("workers", &["1"]);
        let builder = builder.worker_task(move |task| hand_over.send(task).unwrap());
        let node = builder.start().await.unwrap();
        (node, Self { thread, gates, end })
    }

    /// Stops the node, after which the task was ready.
    async fn stop(self, node: Node) {
        node.stop().await.unwrap();
        assert!(self.thread.join().unwrap());
    }
}

#[test]
fn clients_are_served_until_the_node_stops() {
    run(async {
        let (node, host) = Host::of_node().await;
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
        host.stop(node).await;
    });
}

/// More connections become ready at once than the poll tells of at a time.
#[test]
fn no_event_of_many_is_forgotten() {
    run(async {
        let (node, host) = Host::of_node().await;
        let mut clients: Vec<_> = (0..200).map(|_| wire(&node)).collect();
        assert_eq!(clients[0].ask("PING"), "+PONG");
        let (open, gate) = channel();
        host.gates.send(gate).unwrap();
        for client in &mut clients {
            client.send(b"PING\r\n");
        }
        drop(open);
        for client in &mut clients {
            assert_eq!(client.reply(), "+PONG");
        }
        host.stop(node).await;
    });
}

/// A deadline, a message from another thread, and a call in the process come while the task waits.
#[test]
fn a_waiting_task_is_woken_by_time_and_by_other_threads() {
    run(async {
        let (node, host) = Host::of_node().await;
        let (mut waiting, mut listening) = (wire(&node), wire(&node));
        assert_eq!(waiting.ask("BLPOP l 0.05"), "nil array");
        waiting.send(b"BLPOP l 0\r\n");
        listening.ask("SUBSCRIBE c");
        node.call(["RPUSH", "l", "x"]).await.unwrap();
        assert_eq!(waiting.reply(), "[l, x]");
        node.call(["PUBLISH", "c", "news"]).await.unwrap();
        assert_eq!(listening.reply(), "[message, c, news]");
        host.stop(node).await;
    });
}

#[test]
fn a_node_whose_task_was_dropped_has_failed() {
    run(async {
        let (node, host) = Host::of_node().await;
        assert_eq!(wire(&node).ask("PING"), "+PONG");
        drop(host.end);
        let error = node.stopped().await.unwrap_err().to_string();
        assert!(error.contains("worker"), "{error}");
        assert!(
            matches!(node.state(), RunState::Failed(_)),
            "{:?}",
            node.state()
        );
        assert!(!host.thread.join().unwrap());
    });
}

#[test]
fn a_node_whose_task_is_never_run_fails_to_start_or_ends() {
    run(async {
        let builder = Node::builder().ephemeral().directive("workers", &["1"]);
        let node = builder.worker_task(drop).start().await;
        if let Ok(node) = node {
            assert!(node.stopped().await.is_err());
        }
    });
}
