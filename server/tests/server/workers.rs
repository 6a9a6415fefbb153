//! Nodes with several workers: what threads could do to each other.

use quorlock_testkit::Wire;

use crate::machine::{configured, run};

/// INFO once held the engine while it asked for the log's writer, which a committing worker holds
/// while it asks for the engine.
#[test]
fn information_and_writes_do_not_block_each_other() {
    run(async {
        let builder = configured(&[("workers", &["3"]), ("appendfsync", &["always"])]);
        let node = builder.ephemeral().start().await.unwrap();
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
