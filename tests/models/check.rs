//! Runs the checker over a model and tells what came out.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_client::{ClientInstant, Clock as _, SystemClock};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// A model whose counterexamples end with words.
pub(crate) trait Explain: Model {
    /// What is wrong in this state, as far as can be told.
    fn explain(&self, state: &Self::State) -> String;

    /// What all copies of it share.
    fn refuted(&self) -> &Refuted;
}

/// Whether a run has found what it looks for. The checker goes on for a while after a discovery and
/// would keep the last one; the first is the one with the fewest steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refuted(Arc<AtomicBool>);

impl Refuted {
    /// False for the first state in which something does not hold, and only for that one.
    pub(crate) fn unless_first(&self, holds: bool) -> bool {
        holds || self.0.swap(true, Ordering::Relaxed)
    }

    /// Nothing more needs to be explored.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The search is over; the steps to what it found can be taken again.
    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Different states that were checked.
    pub(crate) states: usize,
    /// The longest sequence of steps.
    pub(crate) depth: usize,
    pub(crate) took: Duration,
    /// Everything within the bounds was explored.
    pub(crate) is_complete: bool,
    /// The invariant that does not hold, and the steps that show it.
    pub(crate) failure: Option<Counterexample>,
    /// What should be possible and was not seen.
    pub(crate) unseen: Vec<&'static str>,
}

/// Steps from the beginning to a state in which an invariant does not hold.
#[derive(Debug)]
pub(crate) struct Counterexample {
    pub(crate) property: &'static str,
    pub(crate) steps: Vec<String>,
    /// What the last state looks like.
    pub(crate) end: String,
}

impl Outcome {
    /// Whether all invariants hold everywhere, and all that should be possible is.
    pub(crate) fn is_good(&self) -> bool {
        self.failure.is_none() && self.unseen.is_empty()
    }
}

/// How to look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search {
    /// Everything, nearest first, so that a counterexample is as short as possible.
    Everything,
    /// Random walks from this seed until so many states were seen.
    Walks { seed: u64, states: usize },
}

/// Checks a model. Stops at the first invariant that does not hold.
pub(crate) fn check<M>(model: M, search: Search, threads: usize) -> Outcome
where
    M: Explain + Clone + Send + Sync + 'static,
    M::State: Clone + Hash + Send + Sync + PartialEq + std::fmt::Debug + 'static,
    M::Action: Clone + Display + Send + Sync + PartialEq + std::fmt::Debug + 'static,
{
    let began = SystemClock.now();
    let builder = model
        .clone()
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures);
    match search {
        Search::Everything => told(&model, &builder.spawn_bfs().join(), began),
        Search::Walks { seed, states } => {
            let chooser = stateright::UniformChooser;
            let builder = builder.target_state_count(states);
            told(
                &model,
                &builder.spawn_simulation(seed, chooser).join(),
                began,
            )
        }
    }
}

fn told<M>(model: &M, checker: &impl Checker<M>, began: ClientInstant) -> Outcome
where
    M: Explain,
    M::State: Clone + Hash + PartialEq + std::fmt::Debug,
    M::Action: Clone + Display + PartialEq + std::fmt::Debug,
{
    model.refuted().end();
    let mut failure = None;
    let mut unseen = Vec::new();
    for property in model.properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (Expectation::Sometimes, None) => unseen.push(property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                let end = model.explain(path.last_state());
                let actions = path.into_actions();
                let steps = actions.iter().map(ToString::to_string).collect();
                failure = Some(Counterexample {
                    property: property.name,
                    steps,
                    end,
                });
            }
        }
    }
    if failure.is_some() {
        unseen.clear();
    }
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: SystemClock.now().since(began),
        is_complete: checker.is_done() && failure.is_none(),
        failure,
        unseen,
    }
}
