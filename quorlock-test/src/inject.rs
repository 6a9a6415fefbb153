//! Faults, by a method each.
//!
//! Invariant: a method returns when its fault has happened. A fault of a node that is down, or that has happened
//! already, changes nothing; one of a node that does not exist is a panic.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{RunningCluster, TestCluster};
use crate::fault::ClusterFault;
use crate::member::explained;

impl TestCluster {
    /// A node's process ends at once, as by `kill -9`. Its disk keeps what was written.
    ///
    /// # Panics
    /// If there is no such node, as for all methods below.
    pub async fn kill(&self, node: usize) {
        self.apply(&ClusterFault::Kill(node)).await;
    }

    /// A node's machine loses power: what its disk has not synced is partly gone, by the cluster's seed. The node is down
    /// until [`restart`](Self::restart); one that was down has lost it as well. Which writes an [`advance`](Self::advance) before it has
    /// had synced depends on the scheduler, unless [`Fsync::Always`](crate::Fsync::Always) has each reply wait for its sync.
    pub async fn lose_power(&self, node: usize) {
        self.apply(&ClusterFault::LosePower(node)).await;
    }

    /// Starts a node again on its disk, which has room and syncs again; one that runs is killed before. After a stop that may have lost
    /// something it serves no locks until its restart delay is over: [`is_serving`](Self::is_serving) tells, and an
    /// [`advance`](Self::advance) ends it.
    ///
    /// # Panics
    /// If the node finds its disk unusable.
    pub async fn restart(&self, node: usize) {
        self.apply(&ClusterFault::Restart(node)).await;
    }

    /// The same without the restart delay: for a test that shows what the delay prevents.
    ///
    /// # Panics
    /// If the node finds its disk unusable.
    pub async fn restart_without_delay(&self, node: usize) {
        self.apply(&ClusterFault::RestartWithoutDelay(node)).await;
    }

    /// A node stands still, as by SIGSTOP: connections are made, and nothing is answered. Its time goes on.
    pub async fn pause(&self, node: usize) {
        self.apply(&ClusterFault::Pause(node)).await;
    }

    /// A paused node goes on, with what has arrived meanwhile: late requests of clients that have given up are executed then.
    pub async fn resume(&self, node: usize) {
        self.apply(&ClusterFault::Resume(node)).await;
    }

    /// Nothing arrives any more between a client and a node. What is sent arrives once they are healed, as with TCP. The client
    /// may be one that is still to be made.
    pub async fn cut(&self, client: usize, node: usize) {
        self.apply(&ClusterFault::Cut { client, node }).await;
    }

    /// Ends a [`cut`](Self::cut): what was sent on both sides arrives now.
    pub async fn heal(&self, client: usize, node: usize) {
        self.apply(&ClusterFault::Heal { client, node }).await;
    }

    /// Cuts a client from all nodes, as when its machine loses the network.
    pub async fn cut_off(&self, client: usize) {
        self.apply(&ClusterFault::CutOff(client)).await;
    }

    /// Ends all cuts of a client. What it has sent meanwhile arrives now.
    pub async fn reconnect(&self, client: usize) {
        self.apply(&ClusterFault::Reconnect(client)).await;
    }

    /// A node's replies arrive `by` later, in the cluster's time: an [`advance`](Self::advance) lets them. Zero ends it.
    pub async fn slow(&self, node: usize, by: Duration) {
        self.apply(&ClusterFault::Slow(node, by)).await;
    }

    /// A node's disk has no room: its next write fails with ENOSPC, and the node ends, as a node does whose log fails. The next write
    /// may be one of its log's thread, at once. A restart finds room.
    ///
    /// A real disk can fill up more gently: a node first goes on in the space that its log has made ahead, and then answers `-MISCONF`.
    /// This fault leaves that out.
    pub async fn disk_full(&self, node: usize) {
        self.apply(&ClusterFault::DiskFull(node)).await;
    }

    /// The next sync of a node's disk fails, and the node ends. When it syncs is said by [`Fsync`](crate::Fsync).
    pub async fn fail_sync(&self, node: usize) {
        self.apply(&ClusterFault::FailSync(node)).await;
    }

    /// Keeps an image of a node's disk for [`roll_back`](Self::roll_back). Each node has one of when the cluster was started.
    pub async fn save_image(&self, node: usize) {
        self.cluster().check(node);
        let save =
            move |cluster: Arc<RunningCluster>| async move { cluster.members[node].save_image() };
        self.change(save).await;
    }

    /// The last image of a node's disk comes back, as when a virtual machine is put back to a snapshot, and the node serves
    /// from it at once. It has forgotten what happened since, and does not know.
    ///
    /// # Panics
    /// If the node finds its disk unusable.
    pub async fn roll_back(&self, node: usize) {
        self.apply(&ClusterFault::RollBack(node)).await;
    }

    /// Deletes a lock's key on a majority, as an operator might who takes it for forgotten. Its holder learns of it
    /// by its next renewal: until then there can be two.
    pub async fn steal(&self, name: &str) {
        self.apply(&ClusterFault::Steal(name.to_owned())).await;
    }

    /// Does what a fault of a schedule says: for schedules of a test's own.
    ///
    /// # Panics
    /// As the method of that fault does.
    pub async fn apply(&self, fault: &ClusterFault) {
        if let Some(node) = fault.node() {
            self.cluster().check(node);
        }
        let fault = fault.clone();
        self.change(|cluster| async move { cluster.inject(&fault).await })
            .await;
    }
}

impl RunningCluster {
    /// Lets a fault happen. To be called in the cluster's turn.
    pub(crate) async fn inject(&self, fault: &ClusterFault) {
        self.history.note(self.time.now(), fault.to_string());
        let member = fault.node().map(|node| &self.members[node]);
        match (fault, member) {
            (ClusterFault::Kill(_), Some(member)) => member.kill().await,
            (ClusterFault::LosePower(_), Some(member)) => member.lose_power().await,
            (ClusterFault::Restart(node), _) => self.restart(*node, true).await,
            (ClusterFault::RestartWithoutDelay(node), _) => self.restart(*node, false).await,
            (ClusterFault::DiskFull(_), Some(member)) => member.fill_disk(),
            (ClusterFault::FailSync(_), Some(member)) => member.fail_sync(),
            (ClusterFault::RollBack(node), Some(member)) => {
                member.put_image_back().await;
                self.restart(*node, false).await;
            }
            (ClusterFault::Steal(name), _) => self.delete(name.as_bytes()).await,
            _ => self.hold_back(fault),
        }
    }

    async fn restart(&self, node: usize, has_delay: bool) {
        let member = &self.members[node];
        member.kill().await;
        member.repair_disk();
        let started = member.start(has_delay).await;
        started.unwrap_or_else(|error| {
            panic!("node {node} did not start again: {}", explained(&error))
        });
    }

    /// What happens between clients and nodes.
    fn hold_back(&self, fault: &ClusterFault) {
        let nodes = self.members.len();
        self.network
            .conditions
            .send_modify(|conditions| match *fault {
                ClusterFault::Pause(node) => drop(conditions.paused.insert(node)),
                ClusterFault::Resume(node) => drop(conditions.paused.remove(&node)),
                ClusterFault::Cut { client, node } => drop(conditions.cut.insert((client, node))),
                ClusterFault::Heal { client, node } => drop(conditions.cut.remove(&(client, node))),
                ClusterFault::CutOff(client) => {
                    conditions.cut.extend((0..nodes).map(|node| (client, node)));
                }
                ClusterFault::Reconnect(client) => {
                    conditions.cut.retain(|(other, _)| *other != client)
                }
                ClusterFault::Slow(node, by) => conditions.slow[node] = by,
                _ => {}
            });
    }

    /// Deletes a key on as many nodes as are a majority, of those that have it.
    async fn delete(&self, name: &[u8]) {
        let mut left = self.members.len() / 2 + 1;
        for member in &self.members {
            if left == 0 {
                return;
            }
            let deleted = member.ask(&[b"DEL", name]).await;
            let is_deleted = deleted.and_then(|value| value.as_integer()) == Some(1);
            left -= usize::from(is_deleted);
        }
    }
}
