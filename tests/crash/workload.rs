//! Workloads: what a node does and what happens to it, made from a seed.
//!
//! Invariant: the same seed gives the same steps.

use std::fmt;

use quorlock_persistence::{DiskFault, DiskOperation};

use super::options::{DIRECT_BLOCKS, Options, PAGE_BYTES, Vary};
use super::request::Request;
use quorlock_simulation::Random;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A client sends a request.
    Request(Request),
    /// A worker goes on until it has nothing to do.
    Iterate(usize),
    /// What is written is synced, as every second.
    Sync,
    /// The log thread begins its next job; where that is a sync, others go on until its end.
    BeginSync,
    FinishSync,
    /// From here on a sync takes so many nanoseconds.
    SyncsTake(u64),
    /// The log thread makes segments and removes old ones.
    WorkOnLog,
    /// One turn of maintenance.
    Maintain,
    /// Time goes on.
    Advance(u64),
    /// One step of a checkpoint.
    Compact,
    /// The clients' connection goes over to another database.
    Select(u8),
    /// A client goes.
    Leave(usize, Leaving),
    /// A client reads so many bytes more, or any number again.
    Reads(usize, Option<usize>),
    /// The restart delay is waited out.
    Serve,
    /// The node ends in some way, and is started again.
    Restart(Ending, Options),
    /// The disk holds so many bytes more than now, or any number again.
    Room(Option<u64>),
    /// An operation of the disk goes wrong.
    Fault(Vec<DiskOperation>, u64, DiskFault),
    /// The wall clock is stepped, in seconds.
    Wall(i64),
    /// `CONFIG SET appendfsync`
    Mode(Mode),
    /// `CONFIG SET restart-delay-max`, in seconds.
    Cap(u64),
    /// From here on every sync answers Ok and makes nothing durable.
    Lie,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Request(request) => formatter.write_str(&request.text()),
            Step::Restart(ending, options) => write!(formatter, "{ending:?}, start: {options}"),
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// How a client goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaving {
    /// It closes without having read its replies, and another one comes.
    Closes,
    /// The same with half of this request sent.
    InsideOf(Request),
    /// It sends no more and still reads.
    SendsNoMore,
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order.
    Stop,
    /// Killed; the machine stays up.
    Kill,
    /// Killed; then the machine is restarted in order.
    KillAndReboot,
    /// With the machine; a random part of what was not synced is left, nothing for 0.
    PowerLoss(u64),
}

/// `appendonly` and `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Always,
    Everysec,
    No,
    /// `appendonly no`
    Volatile,
}

impl Mode {
    pub(crate) const ALL: [Mode; 4] = [Mode::Always, Mode::Everysec, Mode::No, Mode::Volatile];

    /// Those between which a node changes while it runs.
    const LOGGED: [Mode; 3] = [Mode::Always, Mode::Everysec, Mode::No];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Always => "always",
            Mode::Everysec => "everysec",
            Mode::No => "no",
            Mode::Volatile => "appendonly no",
        }
    }
}

/// What a node is started with and goes through.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) mode: Mode,
    /// The blocks in which the file system takes direct writes at first.
    pub(crate) direct_blocks: Option<usize>,
    /// Short ones are explored to the last subset, long ones by samples.
    pub(crate) is_short: bool,
    /// There are clients that listen, track and wait.
    pub(crate) is_listened_to: bool,
    pub(crate) steps: Vec<Step>,
}

impl Workload {
    /// The workload of a seed.
    pub(crate) fn of(seed: u64, vary: Vary) -> Workload {
        let mut random = Random::of(&[seed, 1]);
        let is_short = random.chance(1, 2);
        let mode = random.pick(&[
            Mode::Always,
            Mode::Always,
            Mode::Everysec,
            Mode::Everysec,
            Mode::No,
            Mode::Volatile,
        ]);
        let length = match is_short {
            true => 6 + random.below(12),
            false => 40 + random.below(120),
        };
        let mut maker = Maker {
            mode,
            is_short,
            vary,
            steps: Vec::new(),
            random,
        };
        for _ in 0..length {
            maker.add();
        }
        let Maker {
            mut steps,
            mut random,
            ..
        } = maker;
        if random.chance(1, 3) {
            let place = random.below(steps.len().div_ceil(2) as u64);
            let place = usize::try_from(place).unwrap_or(0);
            steps.insert(place, any_fault(&mut random));
        } else if random.chance(1, 4) {
            // A disk may lie from any moment on.
            let place = usize::try_from(random.below(steps.len() as u64)).unwrap_or(0);
            steps.insert(place, Step::Lie);
        }
        let mut random = Random::of(&[seed, 4]);
        let direct_blocks = match vary {
            Vary::Everything => random.pick(&DIRECT_BLOCKS),
            Vary::Cap => Some(PAGE_BYTES),
        };
        // In a short one every subset of all its sectors would be tried.
        if let Some(block) = direct_blocks.filter(|block| *block > PAGE_BYTES && !is_short) {
            let place = random.below(steps.len().div_ceil(3) as u64);
            let place = usize::try_from(place).unwrap_or(0);
            steps.splice(place..place, fill_block(block, &mut random));
        }
        add_elements(&mut steps, seed);
        add_transactions(&mut steps, seed);
        add_readers(&mut steps, seed);
        let is_listened_to = add_listeners(&mut steps, seed);
        Workload {
            mode,
            direct_blocks,
            is_short,
            is_listened_to,
            steps,
        }
    }
}

struct Maker {
    mode: Mode,
    is_short: bool,
    vary: Vary,
    steps: Vec<Step>,
    random: Random,
}

impl Maker {
    /// Adds a step, or a few that belong together.
    fn add(&mut self) {
        let random = &mut self.random;
        match random.below(100) {
            0..=41 => self.serve_requests(),
            42..=46 => self.steps.push(Step::BeginSync),
            47..=51 => self.steps.push(Step::FinishSync),
            52..=58 => self.steps.push(Step::Sync),
            59..=66 => self.steps.push(Step::WorkOnLog),
            67..=70 => self.steps.push(Step::Maintain),
            71..=76 => {
                let longest = random.pick(&[1_000_000, 200_000_000, 2_000_000_000, 30_000_000_000]);
                self.steps.push(Step::Advance(random.below(longest)));
            }
            77..=84 => self.steps.push(Step::Compact),
            85..=86 => self.compact(),
            87 => self.steps.push(match random.below(3) {
                2 => Step::SyncsTake(random.pick(&[0, 2_000_000])),
                0 => Step::Select(u8::from(random.chance(1, 2))),
                _ => Step::Wall(random.pick(&WALL_STEPS)),
            }),
            88..=89 => self.configure(),
            90..=91 => self.steps.push(Step::Serve),
            92..=93 => {
                let room = random.chance(2, 3).then(|| random.below(40_000));
                self.steps.push(Step::Room(room));
            }
            _ => self.restart(),
        }
    }

    /// Clients send some requests, or leave; then some of the workers go on.
    fn serve_requests(&mut self) {
        let is_pipeline = self.random.chance(1, 12);
        let connection = Request::any_connection(&mut self.random);
        let most = if is_pipeline { 20 } else { 3 };
        for _ in 0..=self.random.below(most) {
            let mut request = Request::any(&mut self.random);
            if is_pipeline {
                request.connection = connection;
            }
            self.steps.push(Step::Request(request));
        }
        if self.random.chance(1, 12) {
            self.leave_or_stop_reading(connection);
        }
        let first = usize::from(self.random.chance(1, 2));
        for worker in [first, first + 1, first + 2] {
            if self.random.chance(5, 6) {
                self.steps.push(Step::Iterate(worker));
            }
        }
        if self.random.chance(1, 4) {
            self.steps.push(Step::Sync);
        }
    }

    fn leave_or_stop_reading(&mut self, connection: usize) {
        let random = &mut self.random;
        self.steps.push(match random.below(6) {
            0 => Step::Leave(connection, Leaving::Closes),
            1 => Step::Leave(connection, Leaving::InsideOf(Request::any(random))),
            2 => Step::Leave(connection, Leaving::SendsNoMore),
            3 => Step::Reads(connection, Some(0)),
            4 => Step::Reads(
                connection,
                Some(usize::try_from(random.below(40)).unwrap_or(0)),
            ),
            _ => Step::Reads(connection, None),
        });
    }

    /// A change while the node runs.
    fn configure(&mut self) {
        if self.random.chance(1, 3) {
            self.steps
                .push(Step::Cap(self.random.pick(&[5, 20, 60, 90])));
        } else if self.mode != Mode::Volatile {
            self.mode = self.random.pick(&Mode::LOGGED);
            self.steps.push(Step::Mode(self.mode));
        }
    }

    fn compact(&mut self) {
        let steps = 3 + self.random.below(8);
        self.steps.extend((0..steps).map(|_| Step::Compact));
        self.steps.push(Step::WorkOnLog);
    }

    fn restart(&mut self) {
        let random = &mut self.random;
        if self.is_short && random.chance(1, 2) {
            return;
        }
        let ending = match random.below(8) {
            0..=2 => Ending::Stop,
            3..=4 => Ending::Kill,
            5 => Ending::KillAndReboot,
            _ => Ending::PowerLoss(random.number()),
        };
        if random.chance(1, 4) {
            self.mode = random.pick(&Mode::ALL);
        }
        let mut options = || Options::any(self.mode, random, self.vary);
        self.steps.push(Step::Restart(ending, options()));
        let again = options();
        match random.below(6) {
            // Two crashes in a row.
            0 => self.steps.push(Step::Restart(Ending::Kill, again)),
            1 => self.steps.push(Step::Restart(Ending::Stop, again)),
            2 => self.steps.push(Step::Request(Request::any(random))),
            _ => self.steps.push(Step::Serve),
        }
    }
}

/// Requests on lists, sets and sorted sets beside the others, in some workloads. They are drawn from numbers of their
/// own, so that all other workloads stay what they are.
fn add_elements(steps: &mut Vec<Step>, seed: u64) {
    let mut random = Random::of(&[seed, 7]);
    if random.chance(1, 6) {
        let more = |random: &mut Random| vec![Request::on_elements(random)];
        add_requests(steps, &mut random, 3, more);
    }
}

/// The same with transactions.
fn add_transactions(steps: &mut Vec<Step>, seed: u64) {
    let mut random = Random::of(&[seed, 6]);
    if random.chance(1, 6) {
        add_requests(steps, &mut random, 6, Request::transaction);
    }
}

/// The same with readers of locks that many hold at a time.
fn add_readers(steps: &mut Vec<Step>, seed: u64) {
    let mut random = Random::of(&[seed, 9]);
    if random.chance(1, 4) {
        let more = |random: &mut Random| vec![Request::of_reader(random)];
        add_requests(steps, &mut random, 4, more);
    }
}

/// The same with clients that listen, track and wait. Says whether there are any.
fn add_listeners(steps: &mut Vec<Step>, seed: u64) -> bool {
    let mut random = Random::of(&[seed, 8]);
    let is_listened_to = random.chance(1, 6);
    if is_listened_to {
        add_requests(steps, &mut random, 5, Request::beside_listeners);
    }
    is_listened_to
}

/// Adds requests behind so many sixths of those that there are.
fn add_requests(
    steps: &mut Vec<Step>,
    random: &mut Random,
    sixths: u64,
    more: impl Fn(&mut Random) -> Vec<Request>,
) {
    for step in std::mem::take(steps) {
        let is_request = matches!(step, Step::Request(_));
        steps.push(step);
        if is_request && random.chance(sixths, 6) {
            steps.extend(more(random).into_iter().map(Step::Request));
        }
    }
}

/// So many large writes at once that a large block is nearly full: else no workload would come to its end.
fn fill_block(block: usize, random: &mut Random) -> Vec<Step> {
    let count = block / Request::LARGE_BYTES;
    // With room for them: a full disk is tried again each second.
    let mut steps = vec![
        Step::Room(None),
        Step::Serve,
        Step::Advance(1_500_000_000),
        Step::Maintain,
        Step::WorkOnLog,
    ];
    steps.extend((0..count).map(|_| Step::Request(Request::large(random))));
    steps.extend((0..3).map(Step::Iterate));
    steps.push(Step::Sync);
    steps
}

/// Something that goes wrong with the disk, at some operation from here on.
fn any_fault(random: &mut Random) -> Step {
    let after = random.below(6);
    let error = random.pick(&[ERROR_IO, ERROR_IO, ERROR_NO_SPACE]);
    let (operation, fault) = match random.below(10) {
        0..=3 => (DiskOperation::Sync, DiskFault::Error(ERROR_IO)),
        4 => (DiskOperation::SyncDirectory, DiskFault::Error(ERROR_IO)),
        5 => (DiskOperation::Write, DiskFault::Error(error)),
        6..=7 => {
            let written = usize::try_from(random.below(900)).unwrap_or(0);
            (DiskOperation::Write, DiskFault::Short(written, error))
        }
        8 => (DiskOperation::Create, DiskFault::Error(error)),
        _ => (DiskOperation::Rename, DiskFault::Error(error)),
    };
    Step::Fault(vec![operation], after, fault)
}

const WALL_STEPS: [i64; 6] = [1, -1, 3_600, -3_600, 315_360_000, -315_360_000];
pub(crate) const ERROR_IO: i32 = 5;
const ERROR_NO_SPACE: i32 = 28;
