//! The exploration of one workload: at every change of the disk every crash, or as many as the budget has.
//!
//! Invariant: states are numbered in the order in which they are looked at, and the numbers depend on the seed and
//! the budget only. So a seed and a number bring a failure back.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use quorlock_persistence::MemoryDisk;

use super::check::{Reopened, Reopening, Violation, reopen};
use super::images::{self, Image, ImageKind};
use super::options::{Changed, Directory, Options, Vary};
use super::session::Kind;
use super::statistics::Statistics;
use super::time::WorldClock;
use super::workload::{Ending, Mode, Step, Workload};
use super::world::{Happened, World};
use quorlock_simulation::Random;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Images per point of a short workload; all subsets where there are no more.
    pub short: u64,
    /// Images per point of a long one.
    pub long: u64,
    /// What changes between starts.
    pub vary: Vary,
}

/// A violation, and what brings it back.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the workload.
    pub seed: u64,
    /// The number of the state.
    pub state: u64,
    /// The budget, which decides on the numbers.
    pub budget: Budget,
    /// Where in the workload, after which operation of the disk, and what survived.
    pub place: String,
    /// What was wrong.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { short, long, vary } = self.budget;
        let cap_only = if vary == Vary::Cap { " --cap-only" } else { "" };
        let (seed, state) = (self.seed, self.state);
        writeln!(
            formatter,
            "{}: {}",
            self.violation.what, self.violation.detail
        )?;
        writeln!(formatter, "  {}", self.place)?;
        write!(
            formatter,
            "  again: cargo run -p quorlock-tests --bin crash-states -- --seed {seed} --only {state} \
             --short {short} --long {long}{cap_only}"
        )
    }
}

/// Explores the workload of a seed; with `only`, nothing but the state of that number.
pub fn explore(
    seed: u64,
    budget: Budget,
    only: Option<u64>,
    statistics: &mut Statistics,
) -> Result<(), Box<Failure>> {
    let workload = Workload::of(seed, budget.vary);
    explore_workload(&workload, seed, budget, only, statistics)
}

/// Explores a given workload.
pub(crate) fn explore_workload(
    workload: &Workload,
    seed: u64,
    budget: Budget,
    only: Option<u64>,
    statistics: &mut Statistics,
) -> Result<(), Box<Failure>> {
    let limit = if workload.is_short {
        budget.short
    } else {
        budget.long
    };
    let mut explorer = Explorer {
        seed,
        budget,
        only,
        limit,
        states: 0,
        place: String::new(),
        statistics,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| explorer.run(workload)));
    let outcome = ran.unwrap_or_else(|_| Err(Violation::new("the node panics", "see above")));
    explorer.statistics.workloads += 1;
    outcome.map_err(|violation| Box::new(explorer.failure(violation)))
}

struct Explorer<'a> {
    seed: u64,
    budget: Budget,
    only: Option<u64>,
    limit: u64,
    states: u64,
    place: String,
    statistics: &'a mut Statistics,
}

/// What a crash must leave, as far as the driver knows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    acknowledged: usize,
    durable: usize,
    told: u64,
}

impl Explorer<'_> {
    fn run(&mut self, workload: &Workload) -> Result<(), Violation> {
        let mut world = World::new(self.seed, workload)?;
        self.place = "node init".to_owned();
        self.look(&mut world)?;
        self.place = format!("first start, {}", workload.mode.name());
        self.start(&mut world)?;
        for (number, step) in workload.steps.iter().enumerate() {
            self.place = format!("step {number}, {step}");
            match self.step(&mut world, step) {
                Err(violation) if world.has_lied && violation.is_refusal() => {
                    self.statistics.refusals += 1;
                    return Ok(());
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn step(&mut self, world: &mut World, step: &Step) -> Result<(), Violation> {
        if let Step::Restart(ending, options) = step {
            return self.restart(world, *ending, *options);
        }
        if matches!(step, Step::Fault(..)) {
            self.statistics.faults_planned += 1;
        }
        world.apply(step)?;
        for (operation, fault) in world.disk.take_faults() {
            self.statistics.note_fault(operation, fault);
        }
        let large_writes = world.take_large_writes();
        // The log thread tries which blocks are taken; what a worker writes are commits.
        if matches!(step, Step::Iterate(_)) && large_writes > 0 {
            self.statistics.large_writes += large_writes;
            self.statistics.further_blocks += u64::from(world.has_filled_block());
        }
        self.look(world)?;
        let before = known(world);
        world.settle();
        match known(world) != before {
            true => self.look_now(world),
            false => Ok(()),
        }
    }

    fn restart(
        &mut self,
        world: &mut World,
        ending: Ending,
        options: Options,
    ) -> Result<(), Violation> {
        world.end(ending)?;
        self.look(world)?;
        world.settle();
        self.look_now(world)?;
        world.pass_on(ending, options);
        self.statistics.note_start(world);
        self.statistics.restarts += 1;
        self.start(world)
    }

    fn start(&mut self, world: &mut World) -> Result<(), Violation> {
        world.start()?;
        if let Some(node) = &world.node {
            let reason = node.verdict().stop.reason();
            self.place.push_str(&format!(" ({reason})"));
        }
        self.look(world)?;
        world.go_on()?;
        self.look_now(world)
    }

    /// Looks at every point that the disk has gone through, with what clients knew there.
    fn look(&mut self, world: &mut World) -> Result<(), Violation> {
        let place = self.place.clone();
        for happened in std::mem::take(&mut world.happened) {
            match happened {
                Happened::Changed(point) => {
                    self.place = format!("{place}, after {:?} {}", point.operation, point.file);
                    self.point(world, &point.disk)?;
                }
                Happened::Told(kind, learnt, disk) => {
                    let before = known(world);
                    world.reveal(&learnt);
                    if known(world) != before {
                        self.statistics.note_told(kind);
                        self.place = match kind {
                            Kind::Message => format!("{place}, after a message"),
                            _ => format!("{place}, after a reply"),
                        };
                        self.point(world, &disk)?;
                    }
                }
            }
        }
        self.place = place;
        Ok(())
    }

    /// Looks at the disk as it is, after clients were told something.
    fn look_now(&mut self, world: &World) -> Result<(), Violation> {
        let place = self.place.clone();
        self.place = format!("{place}, after the step");
        self.point(world, &world.disk.after_process_end())?;
        self.place = place;
        Ok(())
    }

    fn point(&mut self, world: &World, disk: &MemoryDisk) -> Result<(), Violation> {
        self.statistics.points += 1;
        let mut random = Random::of(&[self.seed, self.states]);
        let mut outcome = Ok(());
        let place = std::mem::take(&mut self.place);
        let is_complete = images::all(disk, self.limit, &mut random, |image| {
            if outcome.is_ok() {
                outcome = self.state(world, &image, &place);
            }
        });
        self.statistics.complete_points += u64::from(is_complete);
        if outcome.is_ok() {
            self.place = place;
        }
        outcome
    }

    /// One state of the disk: the node is started on it and must be as it should be.
    fn state(&mut self, world: &World, image: &Image, place: &str) -> Result<(), Violation> {
        self.states += 1;
        if self.only.is_some_and(|only| only != self.states) {
            return Ok(());
        }
        let mut random = Random::of(&[self.seed, self.states, 2]);
        let (disk, how) = how(world, image, &mut random, self.budget.vary);
        self.statistics.note_state(world, image);
        self.statistics.note_directory(how.options.directory);
        let boot = if how.is_other_boot {
            "other boot"
        } else {
            "same boot"
        };
        let (kind, loss, options) = (image.kind, &image.loss, how.options);
        self.place = format!("{place}, {kind:?}, {loss}, {boot}, {options}");
        if world.has_lied {
            self.place.push_str(", the disk has lied");
        }
        let wall = random.chance(1, 12).then(|| disk.after_process_end());
        let reopened = match reopen(world, &disk, &how) {
            Err(violation) if world.has_lied && violation.is_refusal() => {
                self.statistics.refusals += 1;
                return Ok(());
            }
            Err(violation) if image.kind == ImageKind::Torn && violation.is_torn_header() => {
                self.statistics.torn_headers += 1;
                return Ok(());
            }
            reopened => reopened?,
        };
        if let Some(copy) = wall {
            self.statistics.wall_steps += 1;
            check_wall(world, &copy, &how, &reopened, &mut random)?;
        }
        self.statistics.note_reopened(&reopened);
        if random.chance(1, 5) && !world.has_lied {
            self.crash_again(world, image, &how, &reopened, &mut random)?;
        } else if random.chance(1, 8) {
            self.statistics.services += 1;
            reopened.check_service()?;
        }
        Ok(())
    }

    /// A second crash while the node starts after the first.
    fn crash_again(
        &mut self,
        world: &World,
        first: &Image,
        how: &Reopening,
        reopened: &Reopened,
        random: &mut Random,
    ) -> Result<(), Violation> {
        let count = reopened.points.len() as u64;
        let place = self.place.clone();
        for _ in 0..SECOND_CRASHES {
            let Ok(number) = usize::try_from(random.below(count)) else {
                continue;
            };
            let point = &reopened.points[number];
            let image = match random.chance(1, 3) {
                true => images::process_end(&point.disk),
                false => images::power_loss(&point.disk, random),
            };
            let clock = Arc::new(reopened.clock.fork());
            clock.advance(1 + random.below(1_000_000_000));
            let is_other_boot = !matches!(image.kind, ImageKind::ProcessEnd) && random.chance(3, 4);
            let mut options = Options {
                directory: Directory::Same,
                ..how.options
            };
            if how.gone_back.is_none() && random.chance(1, 2) {
                // What the operator has limited once stays limited.
                options.cap_s = Options::any(options.mode, random, self.budget.vary).cap_s;
            }
            if is_other_boot {
                clock.reboot(options.rate_ppm);
            }
            // The clock of another boot may be faster, and let go of a limited delay sooner.
            let limits = limits_from(&clock, &options, world);
            let may_serve_from = limits.chain(how.may_serve_from).min();
            let again = Reopening {
                may_serve_from,
                clock,
                is_other_boot,
                today_ns: match how.gone_back {
                    Some(_) => how.today_ns,
                    None => options.cap_ns(),
                },
                options,
                // What the first crash has left on the disk stays there.
                least: match (first.kind, image.kind) {
                    (ImageKind::Subset | ImageKind::Torn, _) => reopened.kept.unwrap_or(0),
                    (_, ImageKind::ProcessEnd) => how.least,
                    _ => world.oracle.durable,
                },
                time_goes_on: false,
                ..how.clone()
            };
            self.statistics.second_crashes += 1;
            let (operation, file) = (point.operation, &point.file);
            self.place = format!(
                "{place}; again after {operation:?} {file}, {:?}, {}",
                image.kind, image.loss
            );
            match reopen(world, &image.disk, &again) {
                Err(violation) if image.kind == ImageKind::Torn && violation.is_torn_header() => {
                    self.statistics.torn_headers += 1;
                }
                reopened => drop(reopened?),
            }
        }
        self.place = place;
        Ok(())
    }

    fn failure(&self, violation: Violation) -> Failure {
        Failure {
            seed: self.seed,
            state: self.states,
            budget: self.budget,
            place: self.place.clone(),
            violation,
        }
    }
}

fn known(world: &World) -> Known {
    Known {
        acknowledged: world.oracle.acknowledged,
        durable: world.oracle.durable,
        told: world.oracle.told,
    }
}

/// How the node is started on an image, and what is done to the directory before.
fn how(world: &World, image: &Image, random: &mut Random, vary: Vary) -> (MemoryDisk, Reopening) {
    let lost_power = matches!(image.kind, ImageKind::Subset | ImageKind::Torn);
    let is_other_boot = match lost_power {
        // A disk may lose its power alone; one that lies as well is beyond any node.
        true => random.chance(3, 4) || world.has_lied,
        false => random.chance(1, 4),
    };
    let mode = match random.chance(1, 4) {
        true => random.pick(&Mode::ALL),
        false => world.mode,
    };
    let mut options = Options::any(mode, random, vary);
    if world.has_lied {
        options.trusts_fsync = false;
        options.directory = Directory::Same;
    }
    let changed = options.directory.change(&image.disk, &world.backups);
    let changed = changed.unwrap_or_else(|| {
        options.directory = Directory::Same;
        Changed::same(&image.disk)
    });
    let clock = Arc::new(world.clock.fork());
    clock.advance(1 + random.below(2_000_000_000));
    if is_other_boot {
        clock.reboot(options.rate_ppm);
    }
    // A start that is under way may have put on record how long it waits. In another boot that begins anew, by its clock.
    let clocks: [&WorldClock; 2] = [&world.clock, &clock];
    let limited_by = |clock| limit_from(clock, &world.options);
    let under_way = clocks.into_iter().filter_map(limited_by);
    let under_way = under_way.filter(|_| world.ahead_ns.is_none());
    let is_moved = options.directory == Directory::Moved;
    let gone_back = match changed.is_older {
        true => Some(changed.cap_ns),
        false => world.gone_back,
    };
    let how = Reopening {
        may_serve_from: limits_from(&clock, &options, world).chain(under_way).min(),
        clock,
        is_other_boot,
        options,
        directory_number: world.directory_number + u64::from(is_moved),
        gone_back,
        today_ns: match world.gone_back {
            // The start under way may have put on record what it waits for.
            Some(_) if !changed.is_older => options.cap_ns().min(world.options.cap_ns()),
            _ => options.cap_ns(),
        },
        least: match image.kind {
            // Nothing can be kept by a disk that keeps nothing.
            ImageKind::Subset | ImageKind::Torn if world.has_lied => 0,
            ImageKind::ProcessEnd => world.oracle.acknowledged,
            _ => world.oracle.durable,
        },
        time_goes_on: image.kind == ImageKind::ProcessEnd
            && !is_other_boot
            && gone_back.is_none()
            && world.ahead_ns.is_some(),
    };
    (changed.disk, how)
}

/// Until when a start now waits where the operator has limited the delay, in true time.
fn limit_from(clock: &WorldClock, options: &Options) -> Option<u64> {
    let limit_ns = options.limit_ns()?;
    Some(clock.true_ns() + clock.true_for_raw(limit_ns))
}

/// The same, and for a delay that an earlier start has left, which begins anew in another boot.
fn limits_from(
    clock: &WorldClock,
    options: &Options,
    world: &World,
) -> impl Iterator<Item = u64> + use<> {
    let carried = world.carried_limit_ns();
    let carried = carried.map(|limit_ns| clock.true_ns() + clock.true_for_raw(limit_ns));
    limit_from(clock, options).into_iter().chain(carried)
}

/// The wall clock has no say in anything that a restart decides.
fn check_wall(
    world: &World,
    disk: &MemoryDisk,
    how: &Reopening,
    reopened: &Reopened,
    random: &mut Random,
) -> Result<(), Violation> {
    let clock = Arc::new(how.clock.fork());
    clock.step_wall(random.pick(&[1_000_000, -1_000_000, 3_600_000_000, -315_360_000_000_000]));
    let stepped = reopen(
        world,
        disk,
        &Reopening {
            clock,
            ..how.clone()
        },
    )?;
    let is_same = stepped.kept == reopened.kept
        && stepped.lost == reopened.lost
        && stepped.node.verdict() == reopened.node.verdict();
    match is_same {
        true => Ok(()),
        false => {
            let (one, other) = (reopened.node.verdict(), stepped.node.verdict());
            Err(Violation::new(
                "a stepped wall clock changes a restart",
                format!("{one:?} {other:?}"),
            ))
        }
    }
}

const SECOND_CRASHES: u32 = 2;
