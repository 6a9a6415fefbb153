//! The directed schedule: client A holds a lock, the fault strikes, client B wants the same lock.
//!
//! Where one node starts again, A holds its lock on a bare majority with that node in it and is cut off from the others,
//! so that B needs just one node that has forgotten. A works with its lock for as long as it may.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::{Client, Held};
use super::register::RegisterClient;
use super::stage::Stage;
use crate::cell::{Cell, Fault};
use crate::effect::BEYOND;
use crate::engine::EngineError;
use crate::history::Occurrence;
use crate::plan::Plan;

/// The lock of the schedule.
pub(super) const DIRECTED: &str = "directed";

/// Client A at work.
pub(super) struct ClientA {
    pub(super) held: Held,
    running: JoinHandle<()>,
}

/// A takes the lock, and works with it from then on.
pub(super) async fn hold(
    stage: &Stage,
    cell: &Cell,
    plan: &Plan,
    client: Client,
    register: RegisterClient,
) -> Result<ClientA, EngineError> {
    if cell.fault.leaves_bare_majority() {
        stage.cut_from(usize::from(cell.quorum()));
    }
    stage.lag();
    let Some(mut held) = client.acquire(DIRECTED, plan.ttl, PATIENCE).await else {
        let what = "client A did not get the lock before the fault";
        return Err(EngineError::failed(what));
    };
    note_grants(stage, &held).await;
    register.read(&client, &held);
    if cell.fault.strikes_after_sync() {
        // A start in another boot counts what was left of a lock when the last record was synced: the later that is, the
        // sooner the lock is over.
        sleep(plan.ttl / 2).await;
        stage.sync().await?;
    }
    if cell.fault == Fault::ExtensionLost {
        held = client.extend(held, plan.ttl).await?;
    }
    if cell.fault == Fault::ReleaseLost {
        register.write(&client, &held);
        client.release(held.clone()).await;
        let running = tokio::spawn(async {});
        return Ok(ClientA { held, running });
    }
    let is_paused = cell.fault == Fault::ClientPause;
    let ttl = plan.ttl;
    let own = held.clone();
    let running = tokio::spawn(async move {
        match is_paused {
            true => stand_still(client, own, register, ttl).await,
            false => work(client, own, register).await,
        }
    });
    Ok(ClientA { held, running })
}

impl ClientA {
    /// Waits until its work is done.
    pub(super) async fn end(self) {
        let _panicked = self.running.await;
    }
}

/// Works for as long as the lock is valid, nearly; then writes, if it still is.
async fn work(client: Client, held: Held, register: RegisterClient) {
    while client.sees_valid(&held) && held.lease.remaining() > LAST_MOMENT {
        sleep(LOOK_AGAIN).await;
    }
    if client.sees_valid(&held) {
        register.write(&client, &held);
        client.release(held).await;
    }
}

/// Does not look at its lock until it is over, and writes then: a process that was stopped, or collected garbage.
async fn stand_still(client: Client, held: Held, register: RegisterClient, ttl: Duration) {
    client.note(Occurrence::Paused);
    sleep(ttl + BEYOND).await;
    client.note(Occurrence::Resumed);
    register.write(&client, &held);
}

/// B waits for the lock; what it was granted.
pub(super) async fn want(
    stage: &Stage,
    plan: &Plan,
    client: &Client,
    register: &RegisterClient,
) -> Option<Held> {
    let wait = plan.ttl + plan.restart_delay_max + PATIENCE;
    let held = client.acquire(DIRECTED, plan.ttl, wait).await?;
    register.read(client, &held);
    note_grants(stage, &held).await;
    if client.sees_valid(&held) {
        register.write(client, &held);
    }
    Some(held)
}

/// Notes which nodes know the lock, asked one by one.
async fn note_grants(stage: &Stage, held: &Held) {
    for (index, node) in stage.nodes.iter().enumerate() {
        let token = held.lease.token().as_bytes();
        if node.holds(&held.lock, token).await == Some(true) {
            let (lock, hold) = (held.lock.clone(), held.hold);
            stage.note_node(index, Occurrence::Granted { lock, hold });
        }
    }
}

/// Notes which of these holds a node has lost whose disk this was: their tokens are nowhere on it.
pub(super) fn note_forgotten(stage: &Stage, index: usize, disk: &[Vec<u8>], holds: &[Held]) -> u64 {
    let is_kept = |held: &Held| {
        let token = held.lease.token().as_bytes();
        disk.iter()
            .any(|bytes| bytes.windows(token.len()).any(|window| window == token))
    };
    let mut forgotten = 0;
    for held in holds.iter().filter(|held| !is_kept(held)) {
        forgotten += 1;
        let (lock, hold) = (held.lock.clone(), held.hold);
        stage.note_node(index, Occurrence::Forgot { lock, hold });
    }
    forgotten
}

const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LAST_MOMENT: Duration = Duration::from_millis(60);
