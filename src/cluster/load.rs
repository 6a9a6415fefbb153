//! `cluster up --with-load`: callers that take locks all the time, and a check that no lock has two holders.
//!
//! The check believes no node and no rule of the client: it knows the callers' own clock, and what each caller was told when it got its lock.
//! Callers of several clients want the same locks, so that their clients have to agree by the nodes alone.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorlock_client::{AcquireError, Redlock, Wait};
use rand::RngExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clock;
use crate::clusters::NodeList;
use crate::exit_code::Failure;

/// Callers at work, until this is dropped.
#[derive(Debug)]
pub(super) struct CallerLoad {
    shared: Rc<Shared>,
    callers: JoinSet<()>,
}

/// What callers have come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallerFigures {
    pub(super) callers: usize,
    pub(super) is_on: bool,
    /// Locks that were held.
    pub(super) taken: u64,
    /// Calls that ended without a lock, because no majority of the nodes could vote.
    pub(super) refused: u64,
    /// Calls that ended without a lock, because others held it all the time.
    pub(super) busy: u64,
    /// Locks whose holder was told that it has lost them.
    pub(super) lost: u64,
    /// Locks that a caller got while another one had been told that it holds them.
    pub(super) overlaps: u64,
}

/// A way to look at a load, and to switch it.
#[derive(Clone, Debug)]
pub(super) struct LoadSwitch(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    is_on: watch::Sender<bool>,
    figures: Mutex<CallerFigures>,
    holds: Mutex<Holds>,
    /// Each overlap, in words.
    overlaps: mpsc::UnboundedSender<String>,
}

/// Who holds which lock until when, by the time since this process began.
#[derive(Debug, Default)]
struct Holds(HashMap<usize, Vec<(usize, Duration)>>);

impl Holds {
    /// A caller was told that it holds a lock until then. Returns the first other one that was told so for a time that is not over.
    fn begin(
        &mut self,
        name: usize,
        caller: usize,
        now: Duration,
        until: Duration,
    ) -> Option<(usize, Duration)> {
        let holds = self.0.entry(name).or_default();
        holds.retain(|(_, other)| *other > now);
        let other = holds.first().copied();
        holds.push((caller, until));
        other
    }

    /// A caller has done with a lock: before it gives it back.
    fn end(&mut self, name: usize, caller: usize) {
        if let Some(holds) = self.0.get_mut(&name) {
            holds.retain(|(holder, _)| *holder != caller);
        }
    }
}

impl CallerLoad {
    /// So many callers for locks on these nodes, which rest until they are [switched on](LoadSwitch::set). Locks with two holders are
    /// reported there. To be called in a local set.
    ///
    /// # Errors
    /// When no client can be made for these nodes.
    pub(super) fn begin(
        callers: usize,
        nodes: Vec<String>,
        cacert: Option<PathBuf>,
        overlaps: mpsc::UnboundedSender<String>,
    ) -> Result<Self, Failure> {
        let mut list = NodeList::default();
        list.tls.cacert = cacert;
        let tls = list.tls.options()?;
        let client = || {
            let builder = Redlock::builder().nodes(nodes.iter()).tls(tls.clone());
            builder.client_name("quorlock-load").build()
        };
        let clients = (0..CLIENTS.min(callers)).map(|_| client());
        let clients: Vec<Redlock> = clients.collect::<Result<_, _>>().map_err(Failure::usage)?;
        let figures = CallerFigures {
            callers,
            ..CallerFigures::default()
        };
        let shared = Rc::new(Shared {
            is_on: watch::Sender::new(false),
            figures: Mutex::new(figures),
            holds: Mutex::default(),
            overlaps,
        });
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let client = clients[caller % clients.len()].clone();
            let shared = Rc::clone(&shared);
            let names = callers.div_ceil(CALLERS_OF_A_NAME);
            tasks.spawn_local(async move { shared.call(caller, names, &client).await });
        }
        Ok(Self {
            shared,
            callers: tasks,
        })
    }

    pub(super) fn switch(&self) -> LoadSwitch {
        LoadSwitch(Rc::clone(&self.shared))
    }

    /// Ends all callers and returns what they came to.
    pub(super) fn end(mut self) -> CallerFigures {
        self.callers.abort_all();
        self.shared.figures()
    }
}

impl LoadSwitch {
    pub(super) fn figures(&self) -> CallerFigures {
        self.0.figures()
    }

    /// Lets callers rest, or go on.
    pub(super) fn flip(&self) {
        let is_on = *self.0.is_on.borrow();
        self.set(!is_on);
    }

    /// Lets callers take locks, or rest.
    pub(super) fn set(&self, is_on: bool) {
        self.0.is_on.send_replace(is_on);
        self.0.count(|figures| figures.is_on = is_on);
    }
}

impl Shared {
    fn figures(&self) -> CallerFigures {
        *lock(&self.figures)
    }

    fn count(&self, change: impl FnOnce(&mut CallerFigures)) {
        change(&mut lock(&self.figures));
    }

    /// One caller, for ever.
    async fn call(&self, caller: usize, names: usize, client: &Redlock) {
        let mut is_on = self.is_on.subscribe();
        while is_on.wait_for(|is_on| *is_on).await.is_ok() {
            let (name, hold_us) = {
                let mut random = rand::rng();
                let hold_us = match random.random_range(0..LONG_ONE_IN) {
                    // As long as it takes to kill a node and start it again.
                    0 => random.random_range(LONG_US_MIN..LONG_US_MAX),
                    _ => random.random_range(0..HOLD_US_MAX),
                };
                (random.random_range(0..names), hold_us)
            };
            let asked = client
                .lock(format!("load-{name}"))
                .ttl(TTL)
                .wait(Wait::For(PATIENCE));
            match asked.acquire().await {
                Ok(guard) => {
                    let now = clock::now();
                    let other = lock(&self.holds).begin(name, caller, now, now + guard.remaining());
                    self.count(|figures| figures.taken += 1);
                    if let Some((other, until)) = other {
                        self.overlap(name, [other, caller], until.saturating_sub(now));
                    }
                    sleep(Duration::from_micros(hold_us)).await;
                    lock(&self.holds).end(name, caller);
                    if guard.release().await.was_lost() {
                        self.count(|figures| figures.lost += 1);
                    }
                }
                Err(AcquireError::Busy { .. }) => self.count(|figures| figures.busy += 1),
                Err(_) => {
                    self.count(|figures| figures.refused += 1);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn overlap(&self, name: usize, [first, second]: [usize; 2], left: Duration) {
        self.count(|figures| figures.overlaps += 1);
        let left = left.as_millis();
        let text = format!(
            "TWO HOLDERS: caller {second} got load-{name} while caller {first} had been told that it holds it for another {left} ms"
        );
        // Nobody reads it at the end.
        let _ = self.overlaps.send(text);
    }
}

/// No holder of these locks can panic with one of them half changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for CallerFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            taken,
            refused,
            busy,
            lost,
            overlaps,
            ..
        } = self;
        write!(
            formatter,
            "{taken} locks taken, {overlaps} with two holders"
        )?;
        if *refused > 0 {
            write!(formatter, ", {refused} calls without a quorum")?;
        }
        if *busy > 0 {
            write!(formatter, ", {busy} calls that waited in vain")?;
        }
        if *lost > 0 {
            write!(formatter, ", {lost} locks lost")?;
        }
        Ok(())
    }
}

/// Each is one more client that knows nothing of the others.
const CLIENTS: usize = 4;
/// How many callers want the same lock.
const CALLERS_OF_A_NAME: usize = 5;
const HOLD_US_MAX: u64 = 5_000;
const LONG_ONE_IN: u32 = 100;
const LONG_US_MIN: u64 = 500_000;
const LONG_US_MAX: u64 = 3_000_000;
const TTL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_name_what_went_wrong_and_nothing_else() {
        let mut figures = CallerFigures {
            taken: 7,
            ..CallerFigures::default()
        };
        assert_eq!(figures.to_string(), "7 locks taken, 0 with two holders");
        (figures.refused, figures.busy, figures.lost) = (1, 2, 3);
        let all = "7 locks taken, 0 with two holders, 1 calls without a quorum, 2 calls that waited in vain, 3 locks lost";
        assert_eq!(figures.to_string(), all);
    }

    #[test]
    fn a_lock_has_two_holders_where_one_gets_it_within_what_another_was_told() {
        let at = Duration::from_millis;
        let mut holds = Holds::default();
        assert_eq!(holds.begin(1, 7, at(0), at(100)), None);
        assert_eq!(holds.begin(2, 8, at(50), at(150)), None, "another lock");
        assert_eq!(holds.begin(1, 8, at(99), at(200)), Some((7, at(100))));
        holds.end(1, 8);
        assert_eq!(
            holds.begin(1, 9, at(100), at(200)),
            None,
            "its time is over"
        );
        holds.end(1, 9);
        assert_eq!(
            holds.begin(1, 7, at(110), at(200)),
            None,
            "it was given back"
        );
    }
}
