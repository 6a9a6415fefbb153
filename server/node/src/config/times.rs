//! Values of directives that are times, or paths.

use std::path::PathBuf;
use std::time::Duration;

use super::Problem;
use super::settings::{RESTART_DELAYS, RestartDelay};
use super::value::{duration, integer, one_of, text};

pub(super) fn restart_delay(value: &str) -> Result<RestartDelay, Problem> {
    if value.starts_with(|c: char| c.is_ascii_digit()) {
        time(value, DAY).map(RestartDelay::Fixed)
    } else {
        one_of(RESTART_DELAYS, value)
            .map_err(|problem| Problem::new(format!("{problem}, or a time in milliseconds")))
    }
}

pub(super) fn time(value: &str, max: Duration) -> Result<Duration, Problem> {
    duration(value, Duration::from_millis(1), max)
}

/// 0 means never.
pub(super) fn optional_time(value: &str) -> Result<Option<Duration>, Problem> {
    let time = duration(value, Duration::ZERO, DAY)?;
    Ok((!time.is_zero()).then_some(time))
}

pub(super) fn seconds(value: &str) -> Result<Option<Duration>, Problem> {
    // Others of our times take a unit; these are Redis's.
    let in_seconds = |problem| Problem::new(format!("{problem}; write whole seconds, such as 60"));
    let seconds = integer(value, 0_u32, 2_147_483_647).map_err(in_seconds)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

pub(super) fn show_seconds(time: Option<Duration>) -> String {
    time.unwrap_or_default().as_secs().to_string()
}

pub(super) fn path(value: &str) -> Result<Option<PathBuf>, Problem> {
    Ok(non_empty(text(value, PATH_BYTES_MAX)?).map(PathBuf::from))
}

pub(super) fn show_path(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map_or_else(String::new, |path| path.display().to_string())
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// Linux's PATH_MAX.
pub(super) const PATH_BYTES_MAX: usize = 4096;
