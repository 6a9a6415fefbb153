//! Directories on a real disk, side by side: the node's, and those of its copies.

use std::fs;
use std::path::{Path, PathBuf};

use quorlock_testkit::eventually;
use tempfile::TempDir;

use super::home::Home;
use super::wire;

/// A directory for directories: the node's, and those of its backups.
pub(crate) struct Shelf(TempDir);

impl Shelf {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A node that has granted locks of 10 s in its first run, has a segment of its log ahead, and has stopped in order.
    pub(crate) async fn stopped(&self) -> Home {
        let home = Home::at(self.path("data"));
        let node = home.start(&[("appendfsync", "always")]).await;
        assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
        let long = "x".repeat(300_000);
        let set = format!("SET long {long} PX 10000");
        assert_eq!(wire(&node).ask(&set), "+OK");
        eventually("a segment ahead", || {
            let names = names(&home.path);
            names
                .iter()
                .any(|name| name == "segment-0000000002.segment")
        });
        node.stop().await.unwrap();
        home
    }
}

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
