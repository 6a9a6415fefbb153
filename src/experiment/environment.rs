//! Where a run was carried out: facts for whoever reads its figures elsewhere.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quorlock_experiment::compare::DEBUG_BUILD;
use quorlock_server::Date;

use crate::{clock, disk_probe};

/// The name of a run's directory: when it began, in UTC.
pub(super) fn run_name(wall: Duration) -> String {
    let text = Date::of(wall).to_string();
    let words: Vec<&str> = text.split([' ', '.']).collect();
    let [day, month, year, time, ..] = words[..] else {
        return wall.as_secs().to_string();
    };
    // Names sort as the runs came.
    let month = MONTHS.iter().position(|known| *known == month);
    let (month, time) = (month.unwrap_or_default() + 1, time.replace(':', ""));
    format!("{year}{month:02}{day}-{time}")
}

/// What is known of the machine, the directory and the build.
pub(super) fn facts(directory: &Path) -> Vec<(String, String)> {
    let facts = [
        ("quorlock", build()),
        ("date", format!("{} UTC", Date::of(clock::wall()))),
        ("processor", processor()),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
        ("load before", load()),
        ("file system", file_system(directory)),
        ("sync", sync_probe(directory)),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The version; a build without optimisation says so, since its figures are nobody's.
fn build() -> String {
    match cfg!(debug_assertions) {
        true => format!("{} {DEBUG_BUILD}", env!("CARGO_PKG_VERSION")),
        false => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("model name"));
    let name = lines.next().and_then(|line| line.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {cores} cores",
        name.map_or("unknown", |(_, name)| name)
    )
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// What else the machine has to do: the load average of the last minute when the run began.
fn load() -> String {
    let text = first_line("/proc/loadavg");
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn file_system(directory: &Path) -> String {
    let found = disk_probe::file_system(directory);
    found.map_or_else(String::new, |(kind, device)| format!("{kind} on {device}"))
}

/// How long the disk takes for a write of 4 KiB and its sync: the median of a few dozen.
fn sync_probe(directory: &Path) -> String {
    let times = disk_probe::sync_times(directory, PROBES).unwrap_or_default();
    match times.get(times.len() / 2) {
        Some(median) => format!("{} us for 4 KiB, median of {PROBES}", median.as_micros()),
        None => String::new(),
    }
}

const PROBES: usize = 40;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_sort_as_they_came() {
        let name = |seconds| run_name(Duration::from_secs(seconds));
        assert_eq!(name(1_795_468_843), "20261123-212043");
        assert!(name(1_795_468_843) < name(1_795_500_000 + 86_400 * 30));
    }
}
