//! A writer that stands in line while a reader holds the lock, and a reader that wants it as well. The writer stays, and has the
//! lock before that reader; or its process is stopped, or it is cut off, and the reader has the lock some seconds later.
//!
//! The truth is what callers were told.

use std::time::Duration;

use quorlock_client::Wait;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{AcquireCall, Call, Outcome};
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::Loss;
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Cluster, ClusterEvent, Layout, Random, drift_ppm};

use super::calls::lock_name;
use super::world::{SECOND_NS, SeedReport};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    IsStopped,
    IsCutOff,
}

/// What is planned for a moment.
#[derive(Debug)]
enum Moment {
    ReaderHolds,
    WriterWaits,
    WriterVanishes,
    ReaderWaits,
    ReaderReleases,
    /// A caller should have the lock by now.
    End,
}

struct Scene {
    cluster: Cluster<Moment>,
    fate: Fate,
    /// Since when one of those who wait may have the lock, and until when it has it.
    may_ns: u64,
    due_ns: u64,
    held: Option<OperationId>,
    end: Option<Result<SeedReport, String>>,
}

/// Runs a seed. With `traces` the error says all that happened.
///
/// # Errors
/// The first promise that was not kept, and when.
pub(crate) fn run(seed: u64, traces: bool) -> Result<SeedReport, String> {
    let mut scene = Scene::new(seed, traces);
    let mut events = 0;
    while scene.end.is_none() && scene.cluster.advance() {
        events += 1;
        while let Some(event) = scene.cluster.take_event() {
            match event {
                ClusterEvent::Step(moment) => scene.step(&moment),
                ClusterEvent::Outcome(client, _, outcome) => scene.note_outcome(client, &outcome),
                ClusterEvent::Lost(HOLDER, _, loss) if loss != Loss::Released => {
                    scene.fails(format!("the reader has lost its lock: {loss:?}"));
                }
                _ => {}
            }
        }
    }
    let end = scene.end.take();
    let end = end.unwrap_or_else(|| Err("nothing happens any more".to_owned()));
    let report = end.map_err(|violation| {
        let trace = scene.cluster.trace.take().unwrap_or_default().join("\n");
        let (fate, ms) = (scene.fate, scene.cluster.now_ns / 1_000_000);
        format!("{trace}\nthe writer {fate:?}, at {ms} ms: {violation}")
    })?;
    Ok(SeedReport {
        events,
        connects: scene.cluster.connects,
        requests: scene.cluster.requests,
        simulated_ms: scene.cluster.now_ns / 1_000_000,
        ..report
    })
}

impl Scene {
    fn new(seed: u64, traces: bool) -> Scene {
        let mut random = Random::of(&[seed, 31]);
        let mut cluster = cluster(seed, &mut random, traces);
        let fate = random.pick(&[Fate::Stays, Fate::IsStopped, Fate::IsCutOff]);
        let [vanishes_ns, reads_ns] =
            [(); 2].map(|()| 3 * SECOND_NS + random.below(LONGEST_NS) / random.pick(&[1_u64, 20]));
        cluster.at(SECOND_NS, Moment::ReaderHolds);
        cluster.at(2 * SECOND_NS, Moment::WriterWaits);
        cluster.at(reads_ns, Moment::ReaderWaits);
        let (may_ns, due_ns) = match fate {
            Fate::Stays => {
                let released_ns = reads_ns + random.below(LONGEST_NS);
                cluster.at(released_ns, Moment::ReaderReleases);
                (released_ns, released_ns + TURN_NS_MAX)
            }
            _ => {
                cluster.at(vanishes_ns, Moment::WriterVanishes);
                let may_ns = reads_ns.max(vanishes_ns);
                (may_ns, may_ns + PASSES_NS_MAX)
            }
        };
        cluster.at(due_ns, Moment::End);
        Scene {
            cluster,
            fate,
            may_ns,
            due_ns,
            held: None,
            end: None,
        }
    }

    fn step(&mut self, moment: &Moment) {
        self.cluster.note(|| format!("{moment:?}"));
        match moment {
            Moment::ReaderHolds => self.held = Some(self.acquire(HOLDER, true)),
            Moment::WriterWaits => {
                self.acquire(WRITER, false);
            }
            Moment::ReaderWaits => {
                self.acquire(READER, true);
            }
            Moment::WriterVanishes if self.fate == Fate::IsStopped => {
                self.cluster.stop_client(WRITER, GONE_NS);
            }
            Moment::WriterVanishes => {
                let uplink = &mut self.cluster.uplinks[WRITER];
                uplink.cut_to_node(GONE_NS);
                uplink.cut_to_client(GONE_NS);
            }
            Moment::ReaderReleases => {
                if let Some(held) = self.held.take() {
                    self.cluster.drop_operation(HOLDER, held);
                }
            }
            Moment::End => {
                let ms = (self.due_ns - self.may_ns) / 1_000_000;
                self.fails(format!("no caller has the lock after {ms} ms"));
            }
        }
    }

    fn acquire(&mut self, client: usize, is_shared: bool) -> OperationId {
        let call = AcquireCall {
            is_shared,
            wait: Wait::For(Duration::from_secs(3_600)),
            renews: true,
            ..AcquireCall::new(LockName::from(lock_name(0)), TTL)
        };
        self.cluster.call(client, Call::Acquire(call))
    }

    fn note_outcome(&mut self, client: usize, outcome: &Outcome) {
        let now_ns = self.cluster.now_ns;
        self.cluster
            .note(|| format!("client {client}: {outcome:?}"));
        let is_its_turn = match self.fate {
            Fate::Stays => client == WRITER,
            _ => client == READER,
        };
        match outcome {
            Outcome::Acquired { .. } if client == HOLDER => {}
            Outcome::Acquired { .. } if is_its_turn && now_ns >= self.may_ns => {
                let report = SeedReport {
                    acquired: 1,
                    read: u64::from(client == READER),
                    turns_ms: vec![(now_ns - self.may_ns) / 1_000_000],
                    ..SeedReport::default()
                };
                self.end.get_or_insert(Ok(report));
            }
            Outcome::Acquired { .. } => {
                self.fails(format!("client {client} has the lock out of turn"));
            }
            Outcome::NotAcquired(error) => self.fails(error.to_string()),
            _ => {}
        }
    }

    fn fails(&mut self, violation: String) {
        self.end.get_or_insert(Err(violation));
    }
}

fn cluster(seed: u64, random: &mut Random, traces: bool) -> Cluster<Moment> {
    let nodes = random.pick(&[3, 5]);
    let way_ns = 1_000 * random.pick(&[50_u64, 1_000, 20_000]);
    let layout = Layout {
        seed,
        nodes,
        directives: &[
            ("appendonly", "yes"),
            ("first-start", "serve"),
            ("restart-delay-max", "30s"),
        ],
        sizes: LogOptions {
            first_segment_bytes: 256 << 10,
            segment_bytes: 256 << 10,
            ..LogOptions::default()
        },
        client_rates_ppm: &|random| (drift_ppm(random), 0),
        node_rate_ppm: &drift_ppm,
        listed: &|_| nodes,
        configure: &|builder| builder,
        ways_ns: vec![vec![way_ns; nodes]; 3],
        is_in_step: false,
        jitter: Random::of(&[seed, 32]),
        tick_ns: SECOND_NS / 20,
        is_silent_without_power: false,
        traces,
    };
    layout.build()
}

/// The clients: one that holds the lock and reads, one that wants to write, and one that wants to read.
const HOLDER: usize = 0;
const WRITER: usize = 1;
const READER: usize = 2;

const TTL: Duration = Duration::from_secs(10);
/// After how long the writer vanishes, and the reader comes, at most.
const LONGEST_NS: u64 = 200 * SECOND_NS;
/// The writer does not come back while it counts.
const GONE_NS: u64 = 3_600 * SECOND_NS;
/// How long a reader waits behind a writer that has vanished: 12 s at the node of the line, then a second at the others, and what
/// attempts and pauses between them take.
const PASSES_NS_MAX: u64 = 20 * SECOND_NS;
/// How long the writer that stays waits once the lock is free.
const TURN_NS_MAX: u64 = 4 * SECOND_NS;
