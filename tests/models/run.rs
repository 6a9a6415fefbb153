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
pub(crate) fn all(options: &Options, mut say: impl FnMut(String)) -> Counts {
    let mut counts = Counts::default();
    say(report::models_head());
    for scope in exclusion::scopes(options.size) {
        if options.wants(scope.name) {
            let outcome = check_scope(scope.clone(), Mutant::None, options.threads);
            judge_model(&mut counts, &mut say, scope.name, scope.about, &outcome, 0);
        }
    }
    let walks = exclusion::everything();
    if options.wants(walks.name) {
        let (name, about) = (walks.name, walks.about);
        let outcome = walk(walks, options.size);
        judge_model(&mut counts, &mut say, name, about, &outcome, 0);
    }
    judge_fences(&mut counts, &mut say, options);
    judge_sharing(&mut counts, &mut say, options);
    for (name, about, bounds) in stream::runs(options.size) {
        if options.wants(name) {
            let (outcome, crashes) = check_stream(bounds, stream::Mutant::None, options.threads);
            judge_model(&mut counts, &mut say, name, about, &outcome, crashes);
        }
    }
    say(report::mutants_head());
    for (mutant, scope) in exclusion::mutants() {
        if options.wants(mutant.words()) || options.wants(scope.name) {
            let name = scope.name;
            let outcome = check_scope(scope, mutant, options.threads);
            judge_mutant(
                &mut counts,
                &mut say,
                options,
                (mutant.words(), name),
                &outcome,
            );
        }
    }
    judge_mutants_of_fences(&mut counts, &mut say, options);
    judge_mutants_of_sharing(&mut counts, &mut say, options);
    for mutant in stream::Mutant::ALL {
        if options.wants(mutant.words()) {
            let (name, bounds) = stream::catching(mutant);
            let (outcome, _) = check_stream(bounds, mutant, options.threads);
            judge_mutant(
                &mut counts,
                &mut say,
                options,
                (mutant.words(), name),
                &outcome,
            );
        }
    }
    counts
}

fn judge_fences(counts: &mut Counts, say: &mut impl FnMut(String), options: &Options) {
    for scope in fences::scopes(options.size) {
        if options.wants(scope.name) {
            let (name, about) = (scope.name, scope.about);
            let outcome = check_fences(scope, fences::Mutant::None, options.threads);
            judge_model(counts, say, name, about, &outcome, 0);
        }
    }
    let walks = fences::everything();
    if options.wants(walks.name) {
        let (name, about) = (walks.name, walks.about);
        let outcome = walk_fences(walks, options.size);
        judge_model(counts, say, name, about, &outcome, 0);
    }
}

fn judge_mutants_of_fences(counts: &mut Counts, say: &mut impl FnMut(String), options: &Options) {
    for (mutant, scope) in fences::mutants() {
        if options.wants(mutant.words()) || options.wants(scope.name) {
            let words = (mutant.words(), scope.name);
            let outcome = check_fences(scope, mutant, options.threads);
            judge_mutant(counts, say, options, words, &outcome);
        }
    }
}

fn judge_sharing(counts: &mut Counts, say: &mut impl FnMut(String), options: &Options) {
    for scope in sharing::scopes(options.size) {
        if options.wants(scope.name) {
            let (name, about) = (scope.name, scope.about);
            let outcome = check_sharing(scope, sharing::Mutant::None, options.threads);
            judge_model(counts, say, name, about, &outcome, 0);
        }
    }
    let walks = sharing::everything();
    if options.wants(walks.name) {
        let (name, about) = (walks.name, walks.about);
        let outcome = walk_sharing(walks, options.size);
        judge_model(counts, say, name, about, &outcome, 0);
    }
}

fn judge_mutants_of_sharing(counts: &mut Counts, say: &mut impl FnMut(String), options: &Options) {
    for (mutant, scope) in sharing::mutants() {
        if options.wants(mutant.words()) || options.wants(scope.name) {
            let words = (mutant.words(), scope.name);
            let outcome = check_sharing(scope, mutant, options.threads);
            judge_mutant(counts, say, options, words, &outcome);
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

fn judge_model(
    counts: &mut Counts,
    say: &mut impl FnMut(String),
    name: &str,
    about: &str,
    outcome: &Outcome,
    crash_states: u64,
) {
    counts.add(outcome.is_good());
    say(report::model(name, about, outcome, crash_states));
    if let Some(failure) = &outcome.failure {
        say(report::steps(failure));
    }
}

fn judge_mutant(
    counts: &mut Counts,
    say: &mut impl FnMut(String),
    options: &Options,
    (words, name): (&str, &str),
    outcome: &Outcome,
) {
    counts.add(outcome.failure.is_some());
    say(report::mutant(words, name, outcome));
    if let Some(failure) = &outcome.failure
        && options.has_steps
    {
        say(report::steps(failure));
    }
}
