//! What the program checks, in which order, and how that is counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::check::{Outcome, Search, check};
use crate::exclusion::{self, Exclusion, Mutant, Scope, Size};
use crate::fences::{self, Fencing};
use crate::report;
use crate::sharing::{self, Sharing};
use crate::stream::{self, Bounds, Stream};

pub(crate) const USAGE: &str = "\
usage: models [--small] [--only TEXT] [--steps]
  --small      the bounds of the tests
  --only TEXT  only models and mutants whose name or words contain TEXT
  --steps      print the steps that catch each mutant
";

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Options {
    size: Size,
    only: String,
    has_steps: bool,
    threads: usize,
}

impl Options {
    /// `None` if help was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            size: Size::Full,
            only: String::new(),
            has_steps: false,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--small" => options.size = Size::Small,
                "--steps" => options.has_steps = true,
                "--only" => {
                    options.only = arguments.next().ok_or("--only needs a text")?;
                }
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Some(options))
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }
}

/// Checks that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    skipped: usize,
}

impl Counts {
    fn add(&mut self, is_good: bool) {
        if is_good {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(
            formatter,
            "{passed} passed, {failed} failed, {skipped} skipped"
        )
    }
}

/// Runs everything that is asked for, and says each line as soon as it is known.
pub(crate) fn all(options: &Options, say: impl FnMut(String)) -> Counts {
    let (size, threads) = (options.size, options.threads);
    let mut run = Run {
        options,
        say,
        counts: Counts::default(),
    };
    (run.say)(report::models_head());
    for scope in exclusion::scopes(size) {
        run.model(scope.name, scope.about, || {
            (check_scope(scope, Mutant::None, threads), 0)
        });
    }
    let walks = exclusion::everything();
    run.model(walks.name, walks.about, || (walk(walks, size), 0));
    for scope in fences::scopes(size) {
        run.model(scope.name, scope.about, || {
            (check_fences(scope, fences::Mutant::None, threads), 0)
        });
    }
    let walks = fences::everything();
    run.model(walks.name, walks.about, || (walk_fences(walks, size), 0));
    for scope in sharing::scopes(size) {
        run.model(scope.name, scope.about, || {
            (check_sharing(scope, sharing::Mutant::None, threads), 0)
        });
    }
    let walks = sharing::everything();
    run.model(walks.name, walks.about, || (walk_sharing(walks, size), 0));
    for (name, about, bounds) in stream::runs(size) {
        run.model(name, about, || {
            check_stream(bounds, stream::Mutant::None, threads)
        });
    }
    (run.say)(report::mutants_head());
    for (mutant, scope) in exclusion::mutants() {
        run.mutant(mutant.words(), scope.name, || {
            check_scope(scope, mutant, threads)
        });
    }
    for (mutant, scope) in fences::mutants() {
        run.mutant(mutant.words(), scope.name, || {
            check_fences(scope, mutant, threads)
        });
    }
    for (mutant, scope) in sharing::mutants() {
        run.mutant(mutant.words(), scope.name, || {
            check_sharing(scope, mutant, threads)
        });
    }
    for mutant in stream::Mutant::ALL {
        let (name, bounds) = stream::catching(mutant);
        run.mutant(mutant.words(), name, || {
            check_stream(bounds, mutant, threads).0
        });
    }
    run.counts
}

/// What is asked for, and what came out so far.
struct Run<'a, Say> {
    options: &'a Options,
    say: Say,
    counts: Counts,
}

impl<Say: FnMut(String)> Run<'_, Say> {
    /// Checks a model where it is asked for. The check also tells how many crash states were looked at.
    fn model(&mut self, name: &str, about: &str, check: impl FnOnce() -> (Outcome, u64)) {
        if !self.options.wants(name) {
            return;
        }
        let (outcome, crash_states) = check();
        self.counts.add(outcome.is_good());
        (self.say)(report::model(name, about, &outcome, crash_states));
        if let Some(failure) = &outcome.failure {
            (self.say)(report::steps(failure));
        }
    }

    /// Checks a model with a mutant, which has to be caught, where either is asked for.
    fn mutant(&mut self, words: &str, name: &str, check: impl FnOnce() -> Outcome) {
        if !self.options.wants(words) && !self.options.wants(name) {
            return;
        }
        let outcome = check();
        self.counts.add(outcome.failure.is_some());
        (self.say)(report::mutant(words, name, &outcome));
        if let Some(failure) = &outcome.failure
            && self.options.has_steps
        {
            (self.say)(report::steps(failure));
        }
    }
}

/// Explores a scope completely.
pub(crate) fn check_scope(scope: Scope, mutant: Mutant, threads: usize) -> Outcome {
    check(Exclusion::new(scope, mutant), Search::Everything, threads)
}

/// Explores a scope of fences completely.
pub(crate) fn check_fences(
    scope: fences::Scope,
    mutant: fences::Mutant,
    threads: usize,
) -> Outcome {
    check(Fencing::new(scope, mutant), Search::Everything, threads)
}

/// Random walks through fences on more nodes.
pub(crate) fn walk_fences(scope: fences::Scope, size: Size) -> Outcome {
    let states = if size == Size::Full { 500_000 } else { 50_000 };
    let search = Search::Walks { seed: 5, states };
    check(Fencing::new(scope, fences::Mutant::None), search, 1)
}

/// Explores a scope of shared locks completely.
pub(crate) fn check_sharing(
    scope: sharing::Scope,
    mutant: sharing::Mutant,
    threads: usize,
) -> Outcome {
    check(Sharing::new(scope, mutant), Search::Everything, threads)
}

/// Random walks through shared locks on more nodes.
pub(crate) fn walk_sharing(scope: sharing::Scope, size: Size) -> Outcome {
    let states = if size == Size::Full { 500_000 } else { 50_000 };
    let search = Search::Walks { seed: 6, states };
    check(Sharing::new(scope, sharing::Mutant::None), search, 1)
}

/// Explores the log completely; also tells how many crash states were looked at.
pub(crate) fn check_stream(
    bounds: Bounds,
    mutant: stream::Mutant,
    threads: usize,
) -> (Outcome, u64) {
    let model = Stream::new(bounds, mutant);
    let crash_states = Arc::clone(&model.crash_states);
    let outcome = check(model, Search::Everything, threads);
    (outcome, crash_states.load(Ordering::Relaxed))
}

/// Random walks through a world that is too large to be explored.
pub(crate) fn walk(scope: Scope, size: Size) -> Outcome {
    let states = if size == Size::Full {
        2_000_000
    } else {
        100_000
    };
    let search = Search::Walks { seed: 4, states };
    check(Exclusion::new(scope, Mutant::None), search, 1)
}
