//! Nodes with several workers: what threads could do to each other.

use crate::wire::Wire;
use quorlock_server::Node;

/// INFO once held the engine while it asked for the log's writer, which a committing worker holds
/// while it asks for the engine.
#[test]
fn information_and_writes_do_not_block_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let node = Node::builder()
            .ephemeral()
            .directive("workers", &["3"])
            .directive("appendfsync", &["always"])
            .start()
            .await
            .unwrap();
        let address = node.address();
        let threads: Vec<_> = (0..6)
            .map(|number| {
                std::thread::spawn(move || {
                    let mut client = Wire::connect(address);
                    for round in 0..300 {
                        let reply = if number % 2 == 0 {
                            client.ask(&format!("SET k{number}-{round} token PX 30000"))
                        } else {
                            client.ask("INFO everything")
                        };
                        assert!(!reply.starts_with('-'), "{reply}");
                    }
                })
            })
            .collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        if ends.iter().any(|end| end.is_err()) {
            // A node whose threads wait for each other cannot be stopped either: leave it.
            std::mem::forget(node);
            panic!("a client got no reply");
        }
        node.stop().await.unwrap();
    });
}
