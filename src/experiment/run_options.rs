//! The options of every experiment's run: where results go, what they are compared with, how progress is shown.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failed;
use super::progress::Manner;
use crate::exit_code::Failure;
use crate::output::{Format, line};

/// The options that are the same for all experiments.
#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// Where the directory of the run is made
    #[arg(long, default_value = "experiments", conflicts_with = "resume")]
    pub(super) dir: PathBuf,
    /// Go on with a run that was interrupted: its directory
    #[arg(long, value_name = "DIR")]
    pub(super) resume: Option<PathBuf>,
    /// Compare with an earlier run: its directory
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,
    /// Say nothing before the end
    #[arg(long)]
    quiet: bool,
    /// Show progress as JSON, an object per line; the last one is the summary
    #[arg(long)]
    json_lines: bool,
}

impl RunOptions {
    /// The summary of the run that this one is compared with.
    pub(super) fn baseline<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        self.baseline.as_deref().map(read_summary).transpose()
    }

    /// How progress is shown, and the result.
    pub(super) fn manner(&self, format: Format) -> (Manner, Format) {
        Manner::chosen(self.json_lines, self.quiet, format)
    }

    /// Lets the link `latest` lead to the run's directory; without it only a name is longer to type.
    pub(super) fn point_latest(&self, latest: &str, directory: &Path) {
        let Some(name) = directory.file_name() else {
            return;
        };
        let latest = self.dir.join(latest);
        let _was_none = std::fs::remove_file(&latest);
        let _without = std::os::unix::fs::symlink(name, &latest);
    }
}

/// The text of what a run came to, and what is said where it is compared with another.
pub(super) type Texts<S> = (fn(&S) -> String, fn(&S, &S) -> String);

/// Shows what a run came to, beside what an earlier one came to, and where its report and these data are.
pub(super) fn show<S: Serialize>(
    summary: &S,
    baseline: Option<&S>,
    (text, compared): Texts<S>,
    directory: &Path,
    data: &str,
    format: Format,
) {
    if format == Format::Json {
        return format.result("", summary);
    }
    line(text(summary));
    if let Some(baseline) = baseline {
        line(compared(summary, baseline));
    }
    let place = directory.display();
    line(format_args!(
        "Report: {place}/report.html\nData:   {place}/{data}"
    ));
}

fn read_summary<T: DeserializeOwned>(directory: &Path) -> Result<T, Failure> {
    let path = directory.join("summary.json");
    let said = |what: &dyn std::fmt::Display| {
        failed(format!("{}: {what}", path.display()))
            .remedy("--baseline wants the directory of an earlier run of the same experiment")
    };
    let text = std::fs::read_to_string(&path).map_err(|error| said(&error))?;
    serde_json::from_str(&text).map_err(|error| said(&error))
}
