//! A node on a real directory, for what a disk in memory does not have: names, copies, other nodes.

use std::path::PathBuf;
use std::sync::Arc;

use quorlock_server::clock::SettableClock;
use quorlock_server::{Node, StartError};

use super::Directives;

/// A real directory instead of a disk in memory.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<SettableClock>,
}

impl Home {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            path,
            clock: Arc::new(SettableClock::new()),
        }
    }

    /// The same machine, another directory.
    pub(crate) fn beside(&self, path: PathBuf) -> Self {
        Self {
            path,
            clock: self.clock.clone(),
        }
    }

    pub(crate) async fn start(&self, directives: Directives<'_>) -> Node {
        self.try_start(directives).await.unwrap()
    }

    pub(crate) async fn try_start(&self, directives: Directives<'_>) -> Result<Node, StartError> {
        std::fs::create_dir_all(&self.path).unwrap();
        let mut builder = Node::builder().port(0);
        builder = builder.directive("bind", &["127.0.0.1"]);
        // What was never used has no past, unless a test says otherwise.
        builder = builder.directive("first-start", &["serve"]);
        builder = builder.directive("workers", super::ONE_WORKER);
        for (name, value) in directives {
            builder = builder.directive(name, &[value]);
        }
        builder
            .dir(&self.path)
            .clock(self.clock.clone())
            .start()
            .await
    }
}
