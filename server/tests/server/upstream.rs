//! A node whose commands on keys are executed by a thread of the program that it is embedded in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use quorlock_server::{ErrorReply, Node, NodeBuilder, Reply, Upstream, UpstreamRequest};

use crate::machine::{run, wire};

/// SET, GET and INCR on a thread of its own. It ends when the upstream is gone.
#[derive(Debug)]
struct Elsewhere {
    requests: Mutex<Option<Sender<UpstreamRequest>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    left: AtomicUsize,
}

impl Elsewhere {
    fn start() -> Arc<Self> {
        let (requests, received) = channel::<UpstreamRequest>();
        let thread = std::thread::spawn(move || {
            let mut keys = HashMap::new();
            for request in received {
                let reply = match &request.commands[..] {
                    [one] => execute(&mut keys, one),
                    many => Reply::Array(many.iter().map(|one| execute(&mut keys, one)).collect()),
                };
                request.answer.send(reply);
            }
        });
        Arc::new(Self {
            requests: Mutex::new(Some(requests)),
            thread: Mutex::new(Some(thread)),
            left: AtomicUsize::new(0),
        })
    }

    fn end(&self) {
        drop(self.requests.lock().unwrap().take());
        self.thread.lock().unwrap().take().unwrap().join().unwrap();
    }
}

fn execute(keys: &mut HashMap<Vec<u8>, i64>, words: &[impl AsRef<[u8]>]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [b"INCR", key] => {
            let value = keys.entry(key.to_vec()).or_default();
            *value += 1;
            Reply::Integer(*value)
        }
        [b"GET", key] => keys.get(*key).map_or(Reply::Nil, |it| Reply::Integer(*it)),
        _ => Reply::Error(ErrorReply::fixed("NOTALOCK neither GET nor INCR")),
    }
}

impl Upstream for Elsewhere {
    fn execute(&self, request: UpstreamRequest) -> bool {
        // Without the thread the answer is dropped.
        if let Some(requests) = &*self.requests.lock().unwrap() {
            let _ = requests.send(request);
        }
        false
    }

    fn left(&self, _: u64) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

fn builder(upstream: &Arc<Elsewhere>) -> NodeBuilder {
    let upstream: Arc<Elsewhere> = Arc::clone(upstream);
    Node::builder().upstream(upstream)
}

#[test]
fn a_thread_of_the_program_answers_many_clients() {
    run(async {
        let upstream = Elsewhere::start();
        let builder = builder(&upstream).ephemeral();
        let node = builder.directive("workers", &["2"]).start().await.unwrap();
        let mut clients: Vec<_> = (0..32).map(|_| wire(&node)).collect();
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert!(client.ask("INCR k").starts_with(':'));
                        assert_eq!(client.ask("PING"), "+PONG");
                    }
                });
            }
        });
        assert_eq!(clients[0].ask("GET k"), ":3200");
        assert_eq!(clients[0].ask("DEL k"), "-NOTALOCK neither GET nor INCR");
        assert_eq!(clients[0].ask("MULTI"), "+OK");
        assert_eq!(clients[0].ask("INCR l"), "+QUEUED");
        assert_eq!(clients[0].ask("GET l"), "+QUEUED");
        assert_eq!(clients[0].ask("EXEC"), "[:1, :1]");
        assert!(node.call(["GET", "k"]).await.unwrap() == quorlock_server::Value::Integer(3200));
        upstream.end();
        let unanswered = clients[1].ask("GET k");
        assert!(
            unanswered.contains("given up without an answer"),
            "{unanswered}"
        );
        node.stop().await.unwrap();
        assert_eq!(upstream.left.load(Ordering::Relaxed), 33);
    });
}

#[test]
fn a_node_that_keeps_keys_takes_no_upstream() {
    run(async {
        let upstream = Elsewhere::start();
        let error = builder(&upstream).port(0).start().await.unwrap_err();
        assert!(
            error.to_string().contains("NodeBuilder::ephemeral"),
            "{error}"
        );
        upstream.end();
    });
}
