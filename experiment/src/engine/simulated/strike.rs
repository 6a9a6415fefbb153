//! The fault of a trial: what it does to the nodes, how it ends, and when all is well again.

use std::time::Duration;

use quorlock_client::NodeFences;
use quorlock_client_rules::call::Call;
use quorlock_node::simulation::Node;
use quorlock_simulation::Server;

use super::cluster::nanos;
use super::schedule::{A, B, CONTENDED, DIRECTED, STANDING, SimulatedTrial, WITNESS, number_of};
use super::step::{CallPurpose, Held, ScheduledStep};
use crate::effect::{BEYOND, Effect, SLOW_SYNC_MS, WALL_STEP_MS};
use crate::history::{Occurrence, Who};

impl SimulatedTrial<'_> {
    /// The power goes between two changes of a disk, wherever its node is in what it does; other faults strike at once.
    pub(super) fn arm(&mut self) {
        if !self.cell.fault.is_power_loss() {
            return self.strike();
        }
        let changes = self.random.below(CHANGES_MAX);
        self.cluster.servers[self.cell.struck().start].end_after(changes);
        // A node that writes nothing loses power as well.
        let at_ns = self.cluster.now_ns + ARMED_NS;
        self.cluster.at(at_ns, ScheduledStep::Strike);
    }

    pub(super) fn strike(&mut self) {
        if self.struck_ns.is_some() {
            return;
        }
        let now_ns = self.cluster.now_ns;
        self.struck_ns = Some(now_ns);
        self.note(Who::Harness, Occurrence::FaultBegins);
        let fault = self.cell.fault;
        if fault.restarted(self.cell.nodes) > 0 {
            for index in self.cell.struck() {
                self.end(index);
                let changed = self.cell.changed_directives(self.plan.ttl);
                self.cluster.servers[index].configure(&changed);
                for (name, value) in changed {
                    let text = format!("its next start has {name} {value}");
                    self.note_node(index, Occurrence::Said { text });
                }
                let down_ns = DOWN_NS + self.random.below(DOWN_NS);
                self.cluster
                    .at(now_ns + down_ns, ScheduledStep::Start(index));
            }
        } else {
            for index in self.cell.struck() {
                self.disturb(index);
            }
            let at_ns = now_ns + nanos(self.plan.ttl + BEYOND);
            self.cluster.at(at_ns, ScheduledStep::Heal);
        }
        let wait = self.plan.ttl + self.plan.restart_delay_max + PATIENCE;
        self.ask(B, DIRECTED, wait, CallPurpose::B);
        self.cluster.at(now_ns, ScheduledStep::Watch);
    }

    /// A node ends, and starts again later.
    fn end(&mut self, index: usize) {
        let standing = self.standing.clone();
        let stood: Vec<Held> = standing
            .into_iter()
            .filter(|held| self.knows(index, held))
            .collect();
        self.measured.standing += stood.len() as u64;
        self.stood.insert(index, stood);
        let server = &mut self.cluster.servers[index];
        server.tell_time(self.cluster.now_ns);
        let effect = self.cell.fault.effect();
        match effect {
            Effect::Stop => server.stop(),
            Effect::Kill => server.kill(),
            _ => {
                let uptime = Duration::from_millis(1_000 + self.random.below(100_000));
                match effect {
                    Effect::LoseUnsynced => server.lose_unsynced(uptime),
                    _ => server.lose_power(&mut self.random, uptime),
                }
            }
        }
        if !self.cell.fault.is_power_loss() {
            self.cluster.end_all(index);
        }
        self.note_beginning(index);
    }

    /// What lasts at a node until it is ended.
    fn disturb(&mut self, index: usize) {
        let server = &mut self.cluster.servers[index];
        match self.cell.fault.effect() {
            Effect::Pause => server.is_paused = true,
            Effect::StepWall => server.step_wall(WALL_STEP_MS * 1_000),
            Effect::DelaySyncs => server.sync_ns = SLOW_SYNC_MS * 1_000_000,
            Effect::FillDisk => server.set_full(true),
            Effect::Partition => self.cut_a(),
            // It is client A that stands still.
            _ => {}
        }
        self.note_beginning(index);
    }

    fn note_beginning(&self, index: usize) {
        if let Some(what) = self.cell.fault.effect().beginning() {
            self.note_node(index, what);
        }
    }

    /// A node whose log failed ends, unless it is the power that goes. Whoever supervises it starts it again.
    pub(super) fn failed(&mut self, index: usize) {
        if self.cluster.servers[index].node.is_none() {
            return;
        }
        if self.cell.fault.is_power_loss() && self.struck_ns.is_none() {
            return self.strike();
        }
        self.cluster.servers[index].kill();
        self.cluster.end_all(index);
        let text = "the node ends, since its log failed".to_owned();
        self.note_node(index, Occurrence::Said { text });
        let at_ns = self.cluster.now_ns + SUPERVISED_NS;
        self.cluster.at(at_ns, ScheduledStep::Start(index));
    }

    pub(super) fn start(&mut self, index: usize) {
        let now_ns = self.cluster.now_ns;
        let server = &mut self.cluster.servers[index];
        server.tell_time(now_ns);
        if !server.start() {
            return self
                .cluster
                .at(now_ns + SUPERVISED_NS, ScheduledStep::Start(index));
        }
        self.note_node(index, Occurrence::Started);
        let node = self.cluster.servers[index].node.as_ref();
        let left = node.and_then(|node| node.delay_left().ok().flatten());
        let left_ms = left.unwrap_or_default().as_secs_f64() * 1e3;
        let longest = self.measured.delay_ms.get_or_insert(left_ms);
        *longest = longest.max(left_ms);
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            let ms = nanos(left) / 1_000_000;
            self.note_node(index, Occurrence::Waiting { ms });
        }
        let stood = self.stood.remove(&index).unwrap_or_default();
        for held in &stood {
            self.measured.lost += u64::from(self.forgot(index, held));
        }
        if !stood.is_empty()
            && let Some(held) = self.a.clone()
        {
            self.forgot(index, &held);
        }
        self.cluster.work(index);
        if self.cell.fences.are_on() {
            self.cluster.at(now_ns, ScheduledStep::SyncFences);
        }
    }

    /// What the operator does who runs `quorlock node sync --trust-disks`: the disks keep what they acknowledge.
    pub(super) fn sync_fences(&mut self) {
        let call = Call::SyncFences { trusts_disks: true };
        let operation = self.cluster.call(WITNESS, call);
        self.calls
            .insert((WITNESS, operation), CallPurpose::SyncFences);
    }

    /// Goes on until all nodes take fences.
    pub(super) fn fences_synced(&mut self, nodes: &[NodeFences]) {
        if !nodes.iter().all(NodeFences::takes_fences) {
            let at_ns = self.cluster.now_ns + SYNC_AGAIN_NS;
            self.cluster.at(at_ns, ScheduledStep::SyncFences);
        }
    }

    pub(super) fn serving(&self, index: usize) {
        self.note_node(index, Occurrence::Serving);
    }

    pub(super) fn heal(&mut self) {
        for index in self.cell.struck() {
            let server = &mut self.cluster.servers[index];
            server.tell_time(self.cluster.now_ns);
            let effect = self.cell.fault.effect();
            match effect {
                Effect::Pause => server.is_paused = false,
                Effect::DelaySyncs => server.sync_ns = 0,
                Effect::FillDisk => server.set_full(false),
                _ => continue,
            }
            if let Some(what) = effect.ending() {
                self.note_node(index, what);
            }
            self.cluster.work(index);
        }
        self.is_healed = true;
    }

    /// Looks whether all is well, until the end has begun.
    pub(super) fn watch(&mut self) {
        let now_ns = self.cluster.now_ns;
        let is_well = self.cluster.servers.iter().all(Server::is_well);
        let struck = &self.cluster.servers[self.cell.struck()];
        let struck_grant = struck.iter().all(grants);
        if struck_grant && self.measured.unavailable_ms.is_none() {
            let ns = now_ns.saturating_sub(self.struck_ns.unwrap_or(now_ns)) as f64;
            self.measured.unavailable_ms = Some(ns / 1e6);
        }
        let is_ended = self.is_healed || self.cell.fault.restarted(self.cell.nodes) > 0;
        if is_ended && is_well && self.a_is_over && self.b_is_over {
            return self.begin_end();
        }
        self.cluster.at(now_ns + WATCH_NS, ScheduledStep::Watch);
    }

    /// All faults have ended, and every lock is taken once more.
    fn begin_end(&mut self) {
        for (_, index) in self.cluster.join() {
            let node = number_of(index);
            self.note_client(A, Occurrence::Joined { node });
        }
        let bound_ns = nanos(self.bound());
        self.note(Who::Harness, Occurrence::Healed { bound_ns });
        let now_ns = self.cluster.now_ns;
        let standing = std::mem::take(&mut self.standing).into_iter();
        for held in self.b.take().into_iter().chain(standing) {
            // Those that are over are nobody's any more.
            if held.until_ns > now_ns {
                self.release(held);
            }
        }
        let mut locks = vec![DIRECTED.to_owned(), CONTENDED.to_owned()];
        locks.extend((1..=STANDING).map(|number| format!("standing-{number}")));
        self.last = Some(locks.len());
        for lock in locks {
            self.ask(
                WITNESS,
                &lock,
                self.bound(),
                CallPurpose::Last(lock.clone()),
            );
        }
    }

    /// Whether the end has begun.
    pub(super) fn is_ending(&self) -> bool {
        self.last.is_some()
    }
}

/// Whether it serves, at whatever pace.
fn grants(server: &Server) -> bool {
    let serves = server.node.as_ref().is_some_and(Node::is_serving);
    serves && !server.is_paused
}

/// How long a machine takes to come back, at least; at most twice as long.
const DOWN_NS: u64 = 30_000_000;
/// The power goes before so many changes of a disk, or after so long.
const CHANGES_MAX: u64 = 8;
const ARMED_NS: u64 = 10_000_000;
const SUPERVISED_NS: u64 = 200_000_000;
const SYNC_AGAIN_NS: u64 = 50_000_000;
const WATCH_NS: u64 = 5_000_000;
const PATIENCE: Duration = Duration::from_secs(3);
