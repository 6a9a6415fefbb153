//! A directory is released, copied and adopted, with a crash at every point: whatever the disk keeps, the node starts in one
//! place at most, and knows the locks there.
//!
//! Invariant: outcomes are told by starts of production code on each image, never by what the harness knows of the log.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use quorlock_node::clock::SettableClock;
use quorlock_node::config::Config;
use quorlock_node::past::Receipt;
use quorlock_node::simulation::{Node, Setup};
use quorlock_node::start::{RelocationError, RelocationScene, StartError, adopt, release};
use quorlock_persistence::{LogOptions, MemoryDisk, Point};
use quorlock_simulation::Random;

use super::images::{self, Image, ImageKind};
use super::options::SEGMENT_BYTES_MIN;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocations {
    /// Disks that a crash may leave.
    pub states: u64,
    /// Of these, from which no node starts before an adoption.
    pub released: u64,
    /// On which a node starts as after a clean stop.
    pub clean: u64,
    /// On which a node starts and waits.
    pub waiting: u64,
    /// Points of crash of which every subset of what was not synced was tried.
    pub complete_points: u64,
}

/// A way to run the node and to lay out its disk.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `appendfsync`.
    pub mode: &'static str,
    /// The disk has no room for another segment when the directory is released and adopted.
    pub is_full: bool,
    /// For everything that is left to chance.
    pub seed: u64,
}

/// Releases a node's directory, copies and adopts it, and looks at each crash on the way.
///
/// # Errors
/// What a node does that it must not.
pub fn relocate(case: Case) -> Result<Relocations, String> {
    let mover = Mover::new(case);
    let home = mover.stopped()?;
    let receipt = mover.release(&home)?;
    // Another machine: another boot, and clocks that have nothing to do with the first one's.
    let away = mover.copy(&home, AWAY);
    mover.adopt(&away, &receipt)?;
    mover.start_again(&away)?;
    mover.refuse(&home, &receipt)?;
    Ok(mover.seen.get())
}

/// What a start makes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Released,
    Clean,
    Waits,
}

struct Mover {
    case: Case,
    here: Arc<SettableClock>,
    there: Arc<SettableClock>,
    seen: Cell<Relocations>,
}

impl Mover {
    fn new(case: Case) -> Self {
        let there = SettableClock::new();
        there.reboot(Duration::from_secs(9));
        Self {
            case,
            here: Arc::new(SettableClock::new()),
            there: Arc::new(there),
            seen: Cell::default(),
        }
    }

    /// A node that has granted a lock and was stopped in order.
    fn stopped(&self) -> Result<MemoryDisk, String> {
        let disk = MemoryDisk::with_power_loss();
        disk.seed(self.case.seed);
        disk.set_directory_number(HOME);
        let mut node = self.start(&disk, &self.here).map_err(words)?;
        let reply = node.execute(&[b"SET", b"lock", b"A", b"NX", b"PX", b"50000"]);
        if reply != b"+OK\r\n" {
            return Err(format!("no lock: {}", String::from_utf8_lossy(&reply)));
        }
        node.stop().map_err(words)?;
        drop(node);
        self.here.advance(Duration::from_secs(20));
        if self.case.is_full {
            let used: u64 = super::world::used_bytes(&disk);
            disk.set_capacity(Some(used));
        }
        Ok(disk)
    }

    /// Once the receipt is there no crash may leave a directory that starts; before, it may be either.
    fn release(&self, disk: &MemoryDisk) -> Result<Receipt, String> {
        disk.record_points();
        let released = release(&self.world(disk, &self.here)).map_err(words)?;
        let mut is_any_free = false;
        for point in disk.take_points() {
            self.at(&point, |image| {
                let outcome = self.outcome(image, &self.here)?;
                is_any_free |= outcome == Outcome::Clean;
                match (outcome, self.adopts(image, &released.receipt)?) {
                    (Outcome::Released, true) => Ok(()),
                    // A torn record, behind which nothing is known.
                    (Outcome::Released, false) if image.kind == ImageKind::Torn => Ok(()),
                    (Outcome::Clean | Outcome::Waits, false) => Ok(()),
                    (outcome, adopts) => Err(format!("it starts: {outcome:?}, adopts: {adopts}")),
                }
            })?;
        }
        if !is_any_free {
            return Err("no crash came before the release".to_owned());
        }
        self.now(disk, |image| match self.outcome(image, &self.here)? {
            Outcome::Released => Ok(()),
            other => Err(format!("what was released starts: {other:?}")),
        })?;
        Ok(released.receipt)
    }

    /// Whatever a crash leaves of the adoption is released as before, or is adopted.
    fn adopt(&self, disk: &MemoryDisk, receipt: &Receipt) -> Result<(), String> {
        disk.record_points();
        adopt(&self.world(disk, &self.there), Some(receipt)).map_err(words)?;
        for point in disk.take_points() {
            self.at(&point, |image| match self.outcome(image, &self.there)? {
                Outcome::Clean => match self.adopts(image, receipt)? {
                    false => Ok(()),
                    true => Err("what starts can be adopted once more".to_owned()),
                },
                Outcome::Released if self.adopts(image, receipt)? => Ok(()),
                Outcome::Released => self.adopts_with_wait(image),
                Outcome::Waits => Err("an adoption costs a delay".to_owned()),
            })?;
        }
        self.now(disk, |image| match self.outcome(image, &self.there)? {
            Outcome::Clean => Ok(()),
            other => Err(format!("what was adopted: {other:?}")),
        })
    }

    /// The first start after the adoption is one as any other.
    fn start_again(&self, disk: &MemoryDisk) -> Result<(), String> {
        disk.record_points();
        drop(self.start(disk, &self.there).map_err(words)?);
        for point in disk.take_points() {
            self.at(&point, |image| match self.outcome(image, &self.there)? {
                Outcome::Clean | Outcome::Waits => Ok(()),
                Outcome::Released => Err("a start has undone the adoption".to_owned()),
            })?;
        }
        Ok(())
    }

    /// The place that was left starts no more; it and a copy can be adopted at the cost of the delay.
    fn refuse(&self, home: &MemoryDisk, receipt: &Receipt) -> Result<(), String> {
        self.now(home, |image| match self.outcome(image, &self.here)? {
            Outcome::Released => self.adopts_with_wait(image),
            other => Err(format!("the place that was left starts: {other:?}")),
        })?;
        let other = self.other_receipt(receipt);
        let refused = adopt(
            &self.world(&self.copy(home, AWAY), &self.there),
            Some(&other),
        );
        match refused {
            Err(RelocationError::Refused(_)) => Ok(()),
            other => Err(format!("another receipt: {other:?}")),
        }
    }

    fn other_receipt(&self, receipt: &Receipt) -> Receipt {
        let text = receipt.to_string();
        let (first, rest) = text.split_at(1);
        let first = if first == "0" { "1" } else { "0" };
        let other = format!("{first}{rest}").parse();
        other.unwrap_or(*receipt)
    }

    /// Looks at everything that a crash at this point may leave.
    fn at(
        &self,
        point: &Point,
        check: impl FnMut(&Image) -> Result<(), String>,
    ) -> Result<(), String> {
        let place = format!("after {:?} {}", point.operation, point.file);
        self.look(&point.disk, &place, check)
    }

    fn now(
        &self,
        disk: &MemoryDisk,
        check: impl FnMut(&Image) -> Result<(), String>,
    ) -> Result<(), String> {
        self.look(disk, "at the end", check)
    }

    fn look(
        &self,
        disk: &MemoryDisk,
        place: &str,
        mut check: impl FnMut(&Image) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut random = Random::of(&[self.case.seed, self.seen.get().states]);
        let mut outcome = Ok(());
        let is_complete = images::all(disk, IMAGES_MAX, &mut random, |image| {
            if outcome.is_err() {
                return;
            }
            self.count(|seen| seen.states += 1);
            let (kind, loss) = (image.kind, image.loss.clone());
            outcome = check(&image).map_err(|what| {
                let case = self.case;
                format!("{case:?}, {place}, {kind:?}, {loss}: {what}")
            });
        });
        self.count(|seen| seen.complete_points += u64::from(is_complete));
        outcome
    }

    /// Starts a node on a copy of the image. Where it serves it must know the lock, with all the time that it had.
    fn outcome(&self, image: &Image, clock: &Arc<SettableClock>) -> Result<Outcome, String> {
        let disk = image.disk.after_process_end();
        disk.set_capacity(None);
        let started = match self.start(&disk, clock) {
            Err(StartError::Released { .. }) => None,
            Err(error) => return Err(format!("the node refuses to start: {error}")),
            Ok(node) => Some(node),
        };
        let Some(mut node) = started else {
            self.count(|seen| seen.released += 1);
            return Ok(Outcome::Released);
        };
        if !node.is_serving() {
            self.count(|seen| seen.waiting += 1);
            return Ok(Outcome::Waits);
        }
        let reply = String::from_utf8_lossy(&node.execute(&[b"PTTL", b"lock"])).into_owned();
        let left = reply
            .trim()
            .strip_prefix(':')
            .and_then(|left| left.parse().ok());
        let least_ms = match Arc::ptr_eq(clock, &self.here) {
            true => 29_000,
            // No time passes in a move.
            false => 50_000,
        };
        if left.is_none_or(|left: i64| left < least_ms) {
            return Err(format!("it serves, and the lock has {reply}"));
        }
        self.count(|seen| seen.clean += 1);
        Ok(Outcome::Clean)
    }

    /// Whether what the image holds can be adopted elsewhere with the receipt.
    fn adopts(&self, image: &Image, receipt: &Receipt) -> Result<bool, String> {
        let disk = self.copy(&image.disk, AWAY + 1);
        match adopt(&self.world(&disk, &self.there), Some(receipt)) {
            Ok(_) => Ok(true),
            Err(RelocationError::Refused(_)) => Ok(false),
            Err(error) => Err(format!("it cannot be adopted: {error}")),
        }
    }

    /// Without the receipt it can, and then it waits.
    fn adopts_with_wait(&self, image: &Image) -> Result<(), String> {
        let disk = image.disk.after_process_end();
        disk.set_capacity(None);
        adopt(&self.world(&disk, &self.there), None).map_err(words)?;
        let node = self.start(&disk, &self.there).map_err(words)?;
        let left = node.delay_left().map_err(words)?;
        match left.is_some_and(|left| left >= Duration::from_secs(60)) {
            true => Ok(()),
            false => Err(format!("adopted without its receipt it waits for {left:?}")),
        }
    }

    /// The directory, copied to another machine or file system.
    fn copy(&self, disk: &MemoryDisk, number: u64) -> MemoryDisk {
        let copy = disk.with_put_back(&disk.after_process_end(), |_| true);
        copy.set_directory_number(number);
        copy.set_capacity(None);
        copy
    }

    fn start(&self, disk: &MemoryDisk, clock: &Arc<SettableClock>) -> Result<Node, StartError> {
        let mut config = Config::default();
        for (name, value) in [("first-start", "serve"), ("appendfsync", self.case.mode)] {
            config.set(name, &[value]).map_err(|_| unknown(name))?;
        }
        let setup = Setup {
            sizes: self.sizes(),
            ..Setup::new(config)
        };
        Node::start(Arc::new(disk.clone()), clock.clone(), &setup)
    }

    fn world<'a>(&self, disk: &MemoryDisk, clock: &'a Arc<SettableClock>) -> RelocationScene<'a> {
        RelocationScene {
            disk: Arc::new(disk.clone()),
            sizes: self.sizes(),
            clock: &**clock,
            random: &|bytes| {
                bytes.fill(7);
                Ok(())
            },
        }
    }

    /// Small ones, of which more subsets can be tried.
    fn sizes(&self) -> LogOptions {
        LogOptions {
            first_segment_bytes: SEGMENT_BYTES_MIN,
            segment_bytes: SEGMENT_BYTES_MIN,
            frame_bytes_max: 4 << 10,
            reserve_bytes: 1 << 10,
            ..LogOptions::default()
        }
    }

    fn count(&self, note: impl FnOnce(&mut Relocations)) {
        let mut seen = self.seen.get();
        note(&mut seen);
        self.seen.set(seen);
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn unknown(name: &str) -> StartError {
    StartError::Config(format!("no directive {name}"))
}

const HOME: u64 = 7;
const AWAY: u64 = 8;
/// Per point of crash: all subsets where there are no more.
const IMAGES_MAX: u64 = 1 << 10;
