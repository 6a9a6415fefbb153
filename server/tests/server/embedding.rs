//! What an embedding program builds and gets: calls of the builder, disks that nodes do not share, addresses.

use std::sync::Arc;

use quorlock_server::{MemoryDisk, Node, NodeBuilder, StartError};

use crate::machine::{Machine, run};

fn on(disk: &MemoryDisk) -> NodeBuilder {
    let disk = Arc::new(disk.clone());
    Node::builder().ephemeral().disk(disk)
}

#[test]
fn two_nodes_never_share_a_disk_in_memory() {
    run(async {
        let disk = MemoryDisk::new();
        let first = on(&disk).start().await.unwrap();
        let error = on(&disk).start().await.unwrap_err();
        assert!(matches!(error, StartError::Open(_)), "{error:?}");
        let text = error.to_string();
        for part in [
            "in memory is in use by another node",
            "must never share",
            "its `stop`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let id = first.id();
        first.stop().await.unwrap();
        assert_eq!(on(&disk).start().await.unwrap().id(), id);
    });
}

/// Of a hundred 13 failed in the middle of the start, as if the disk were broken.
#[test]
fn a_restart_after_a_drop_waits_for_the_disk_or_says_who_has_it() {
    run(async {
        let machine = Machine::new();
        for _ in 0..50 {
            match machine.node(&[]).start().await {
                Ok(node) => drop(node),
                Err(error) => assert!(error.to_string().contains("another node"), "{error}"),
            }
        }
    });
}
