//! How far a run has come, for whoever watches.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::clock;
use crate::output::{Format, line, remark};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// A bar that moves.
    Bar,
    /// A line per trial.
    Lines,
    /// An object per line.
    JsonLines,
    /// Not at all.
    Quiet,
}

impl Manner {
    /// What was asked for: a bar where somebody looks, lines elsewhere. Beside progress as JSON the result is JSON as well,
    /// so that whoever reads it reads nothing else.
    pub(super) fn chosen(json_lines: bool, is_quiet: bool, format: Format) -> (Manner, Format) {
        let is_terminal = std::io::stderr().is_terminal();
        match () {
            () if json_lines => (Manner::JsonLines, Format::Json),
            () if is_quiet || format == Format::Json => (Manner::Quiet, format),
            () if is_terminal => (Manner::Bar, format),
            () => (Manner::Lines, format),
        }
    }
}

/// The progress of one run.
pub(super) struct ProgressDisplay {
    manner: Manner,
    bar: ProgressBar,
    began: Duration,
    /// What was done before this run, which may be the rest of another.
    done_before: Option<u64>,
}

impl ProgressDisplay {
    pub(super) fn new(manner: Manner, directory: &Path) -> ProgressDisplay {
        if manner == Manner::Lines {
            remark(format_args!("results go to {}", directory.display()));
        }
        ProgressDisplay {
            manner,
            bar: match manner {
                Manner::Bar => ProgressBar::new(1).with_style(style()),
                _ => ProgressBar::hidden(),
            },
            began: clock::now(),
            done_before: None,
        }
    }

    /// A step begins: so many of all are done.
    pub(super) fn begins(&mut self, done: u64, total: u64, what: String) {
        let before = *self.done_before.get_or_insert(done);
        match self.manner {
            Manner::Bar => {
                self.bar.set_length(total);
                self.bar.set_position(done);
                self.bar.set_message(what);
            }
            Manner::Lines if done > before => {
                let passed = clock::now().saturating_sub(self.began);
                let left_s = passed.as_secs().saturating_mul(total - done) / (done - before);
                remark(format_args!(
                    "{done} of {total} done, about {left_s} s left"
                ));
            }
            _ => {}
        }
    }

    /// What a step came to; a bar has no room for it.
    pub(super) fn result(&self, words: impl Display) {
        if self.manner == Manner::Lines {
            remark(words);
        }
    }

    /// What the user should know although the run goes on.
    pub(super) fn warning(&self, words: impl Display) {
        match self.manner {
            Manner::Bar => self.bar.println(words.to_string()),
            Manner::Lines => remark(words),
            Manner::JsonLines | Manner::Quiet => {}
        }
    }

    /// The same for programs: each event is an object.
    pub(super) fn object(&self, event: &serde_json::Value) {
        if self.manner == Manner::JsonLines {
            line(event);
        }
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos}/{len}, {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
