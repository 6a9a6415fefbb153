//! What connections to a cluster leave to the connections after them.
//!
//! It only saves time and tells clusters apart. Which server has a slot each connection asks anew.

use std::cell::{Ref, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::slots::Server;

/// The servers of the cluster in which a client takes its locks. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KnownServers {
    /// The ids of the servers, as they were told last.
    ids: Rc<RefCell<HashSet<Vec<u8>>>>,
    /// The servers that did not answer in time, and when that was.
    silent: Rc<RefCell<HashMap<Server, Instant>>>,
}

impl KnownServers {
    pub(super) fn ids(&self) -> Ref<'_, HashSet<Vec<u8>>> {
        self.ids.borrow()
    }

    /// A server has told the ids of all. Some servers tell none.
    pub(super) fn set_ids(&self, ids: &HashSet<Vec<u8>>) {
        if !ids.is_empty() {
            self.ids.borrow_mut().clone_from(ids);
        }
    }

    /// This server has not answered in time.
    pub(super) fn add_silent(&self, server: &Server) {
        let mut silent = self.silent.borrow_mut();
        silent.retain(|_, at| at.elapsed() < SILENT_SEED_FOR);
        silent.insert(server.clone(), Instant::now());
    }

    pub(super) fn remove_silent(&self, server: &Server) {
        self.silent.borrow_mut().remove(server);
    }

    /// Whether this server has not answered in time, so long ago at most.
    pub(super) fn is_silent(&self, server: &Server, within: Duration) -> bool {
        let silent = self.silent.borrow();
        let at = silent.get(server);
        at.is_some_and(|at| at.elapsed() < within)
    }
}

/// So long a server of the address that has not answered in time is no longer waited for by new connections, if another one answers.
pub(super) const SILENT_SEED_FOR: Duration = Duration::from_secs(30);
