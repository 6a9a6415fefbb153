//! One client of a trial: takes and gives back locks, and notes what its calls return.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_client::{Lease, LockRequest, NodeFences, Redlock, Wait};
use tokio::time::{Instant, sleep};

use super::trial_clock::TrialClock;
use crate::cell::FenceCheck;
use crate::engine::EngineError;
use crate::history::{Occurrence, TrialHistory, Who};

/// What all clients of a trial share.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) clock: TrialClock,
    pub(super) history: Arc<TrialHistory>,
    fences: FenceCheck,
    holds: Arc<AtomicU64>,
}

/// A client with a name.
#[derive(Clone)]
pub(super) struct Client {
    name: String,
    scene: Scene,
    redlock: Redlock,
}

/// A lock that a client holds, as far as it knows.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) lock: String,
    pub(super) hold: u64,
    pub(super) lease: Lease,
    /// What the register is told: 0 where there are no fences.
    pub(super) fence: u64,
    /// When its acquisition returned.
    pub(super) since: Instant,
}

impl Scene {
    pub(super) fn new(clock: TrialClock, history: &Arc<TrialHistory>, fences: FenceCheck) -> Scene {
        Scene {
            clock,
            history: Arc::clone(history),
            fences,
            holds: Arc::default(),
        }
    }

    /// Notes what happens now.
    pub(super) fn note(&self, who: Who, what: Occurrence) {
        self.history.note(self.clock.now_ns(), who, what);
    }
}

impl Client {
    /// A client of the nodes behind these ports.
    pub(super) fn new(name: &str, scene: &Scene, ports: &[u16]) -> Result<Client, EngineError> {
        let nodes = ports.iter().map(|port| format!("redis://127.0.0.1:{port}"));
        // Whoever waits finds out at once what nodes have forgotten.
        let builder = Redlock::builder().nodes(nodes).client_name(name);
        let redlock = builder.stand_in_line(false).build();
        let redlock = redlock.map_err(EngineError::failed)?;
        Ok(Client {
            name: name.to_owned(),
            scene: scene.clone(),
            redlock,
        })
    }

    fn who(&self) -> Who {
        Who::Client(self.name.clone())
    }

    pub(super) fn note(&self, what: Occurrence) {
        self.scene.note(self.who(), what);
    }

    fn request(&self, lock: &str, ttl: Duration, wait: Wait) -> LockRequest {
        let request = self.redlock.lock(lock).ttl(ttl).wait(wait);
        match self.scene.fences {
            FenceCheck::Off => request,
            FenceCheck::On => request.fenced(),
        }
    }

    /// Asks for a lock without noting anything: for locks that no other client wants.
    pub(super) async fn cycle(&self, lock: &str, ttl: Duration) -> bool {
        match self.request(lock, ttl, Wait::None).acquire_lease().await {
            Ok(lease) => {
                let _released = self.redlock.release(lock, lease.token()).await;
                true
            }
            Err(_) => false,
        }
    }

    /// Asks for a lock, and waits for it so long.
    pub(super) async fn acquire(&self, lock: &str, ttl: Duration, wait: Duration) -> Option<Held> {
        self.note(Occurrence::Asked {
            lock: lock.to_owned(),
        });
        let request = self.request(lock, ttl, Wait::For(wait));
        let outcome = request.acquire_lease().await;
        // Read before the time left: the claim is then noted as no longer than it is.
        let (since, now_ns) = (Instant::now(), self.scene.clock.now_ns());
        match outcome {
            Ok(lease) => {
                let hold = self.scene.holds.fetch_add(1, Ordering::Relaxed) + 1;
                let left_ns = u64::try_from(lease.remaining().as_nanos()).unwrap_or(u64::MAX);
                let what = Occurrence::Acquired {
                    lock: lock.to_owned(),
                    hold,
                    token: lease.token().hint(),
                    valid_until_ns: now_ns.saturating_add(left_ns),
                    nodes: Vec::new(),
                    fence: lease.fence(),
                };
                self.scene.history.note(now_ns, self.who(), what);
                Some(Held {
                    lock: lock.to_owned(),
                    hold,
                    fence: lease.fence().unwrap_or(0),
                    lease,
                    since,
                })
            }
            Err(error) => {
                let (lock, why) = (lock.to_owned(), error.to_string());
                self.note(Occurrence::Refused { lock, why });
                None
            }
        }
    }

    /// Looks whether the lock is valid, and notes it if so.
    pub(super) fn sees_valid(&self, held: &Held) -> bool {
        let now_ns = self.scene.clock.now_ns();
        let is_valid = held.lease.is_valid();
        if is_valid {
            let (lock, hold) = (held.lock.clone(), held.hold);
            let what = Occurrence::SeenValid { lock, hold };
            self.scene.history.note(now_ns, self.who(), what);
        }
        is_valid
    }

    /// Lets nodes that lost power take fences again, as the operator does who runs `quorlock node sync --trust-disks`: these
    /// disks keep what they acknowledge. Goes on until all of them do, or time is up.
    pub(super) async fn sync_fences(&self) {
        let give_up = Instant::now() + SYNC_MAX;
        while Instant::now() < give_up {
            let nodes = self.redlock.sync_fences_of_trusted_disks().await;
            if nodes.iter().all(NodeFences::takes_fences) {
                return;
            }
            sleep(SYNC_AGAIN).await;
        }
    }

    /// Extends the lock by this ttl from now on.
    pub(super) async fn extend(&self, held: Held, ttl: Duration) -> Result<Held, EngineError> {
        let Held {
            lock, hold, lease, ..
        } = &held;
        let outcome = self.redlock.extend(lock, lease.token(), ttl).await;
        let now_ns = self.scene.clock.now_ns();
        let lease = outcome.map_err(|error| {
            let name = &self.name;
            EngineError::failed(format_args!(
                "client {name} could not extend its lock: {error}"
            ))
        })?;
        let left_ns = u64::try_from(lease.remaining().as_nanos()).unwrap_or(u64::MAX);
        let what = Occurrence::Extended {
            lock: lock.clone(),
            hold: *hold,
            valid_until_ns: now_ns.saturating_add(left_ns),
        };
        self.scene.history.note(now_ns, self.who(), what);
        Ok(Held { lease, ..held })
    }

    /// Gives the lock back.
    pub(super) async fn release(&self, held: Held) {
        let Held {
            lock, hold, lease, ..
        } = held;
        self.note(Occurrence::ReleaseAsked {
            lock: lock.clone(),
            hold,
        });
        let _outcome = self.redlock.release(&lock, lease.token()).await;
        self.note(Occurrence::Released { lock, hold });
    }
}

const SYNC_MAX: Duration = Duration::from_secs(20);
const SYNC_AGAIN: Duration = Duration::from_millis(50);
