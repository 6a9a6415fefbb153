//! The load beside the directed schedule: clients that measure, and clients that want the same lock.
//!
//! Those that measure take and give back locks of their own as fast as they can, until the fault; nothing of it is
//! recorded but how long it took. The others share one lock through the whole trial, and everything they get is
//! recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::client::{Client, Scene};
use super::register::{RegisterClient, Registers};
use crate::engine::EngineError;

/// What the clients that measure came to.
#[derive(Default)]
pub(super) struct ClientLoad {
    pub(super) seconds: f64,
    pub(super) cycles: u64,
    pub(super) acquire_us: Vec<u32>,
}

impl ClientLoad {
    /// Runs so many clients for so long.
    pub(super) async fn run(
        scene: &Scene,
        ports: &[u16],
        clients: u32,
        time: Duration,
        ttl: Duration,
    ) -> Result<ClientLoad, EngineError> {
        let start = Instant::now();
        let mut running = Vec::new();
        for number in 1..=clients {
            let client = Client::new(&format!("load-{number}"), scene, ports)?;
            running.push(tokio::spawn(measure(client, number, start + time, ttl)));
        }
        let mut load = ClientLoad::default();
        for client in running {
            let times = client.await.map_err(EngineError::failed)?;
            load.cycles += times.len() as u64;
            load.acquire_us.extend(times);
        }
        load.seconds = start.elapsed().as_secs_f64();
        Ok(load)
    }
}

async fn measure(client: Client, number: u32, end: Instant, ttl: Duration) -> Vec<u32> {
    let lock = format!("load-{number}");
    // The first one connects, which is not what is measured.
    client.cycle(&lock, ttl).await;
    let mut times = Vec::new();
    while Instant::now() < end {
        let before = Instant::now();
        if client.cycle(&lock, ttl).await {
            let micros = before.elapsed().as_micros();
            times.push(u32::try_from(micros).unwrap_or(u32::MAX));
        }
    }
    times
}

/// Clients that want the same lock, until they are asked to end.
pub(super) struct Contenders {
    is_over: Arc<AtomicBool>,
    running: Vec<JoinHandle<()>>,
}

impl Contenders {
    pub(super) fn start(
        scene: &Scene,
        ports: &[u16],
        registers: &Registers,
        ttl: Duration,
    ) -> Result<Contenders, EngineError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut running = Vec::new();
        for number in 1..=CONTENDERS {
            let client = Client::new(&format!("contender-{number}"), scene, ports)?;
            let (register, is_over) = (registers.connect()?, Arc::clone(&is_over));
            running.push(tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    contend(&client, &register, ttl).await;
                }
            }));
        }
        Ok(Contenders { is_over, running })
    }

    /// Ends them, after the lock that each of them waits for.
    pub(super) async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.running {
            let _panicked = client.await;
        }
    }
}

async fn contend(client: &Client, register: &RegisterClient, ttl: Duration) {
    if let Some(held) = client.acquire(CONTENDED, ttl, PATIENCE).await {
        register.read(client, &held);
        sleep(WORK).await;
        // What a careful application does; between the look and the write there is always a moment.
        if client.sees_valid(&held) {
            register.write(client, &held);
        }
        client.release(held).await;
    }
    sleep(PAUSE).await;
}

/// The lock that they share.
pub(super) const CONTENDED: &str = "contended";
const CONTENDERS: u32 = 3;
const PATIENCE: Duration = Duration::from_millis(300);
const WORK: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(10);
