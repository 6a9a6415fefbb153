//! `quorlock doctor --dir`: whether the disk of a directory may keep what it acknowledges.
//!
//! Invariant: only a loss of power proves anything. What is found here is what makes it unlikely.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client_rules::inspection::findings::{Finding, Severity};
use serde_json::{Value, json};

use super::remedies::{describe_all, value};
use crate::disk_probe;
use crate::exit_code::{FAILED, Failure, NO_INPUT};
use crate::output::Format;

/// Measures syncs in the directory and says what is to be made of them.
pub(super) fn examine(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let shown = directory.display();
    let times = disk_probe::sync_times(directory, SYNCS).map_err(|error| {
        Failure::new(
            NO_INPUT,
            format!("no file can be written and synced in {shown}: {error}"),
        )
        .remedy(match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room there: a node that cannot write refuses locks"
            }
            ErrorKind::ReadOnlyFilesystem => {
                "mount it so that it can be written to: a node needs that"
            }
            _ => "name the directory of a node, or one beside it, as a user who may write there",
        })
    })?;
    let file_system = disk_probe::file_system(directory);
    let kind = file_system.as_ref().map(|(kind, _)| kind.as_str());
    let (Some(least), Some(most)) = (times.first(), times.last()) else {
        return Err(Failure::failed(format!("no sync ended in {shown}")));
    };
    let median = times[times.len() / 2];
    let found: Vec<Finding> = judge(median, kind).into_iter().collect();
    let mut lines = describe_all(&found, &[]);
    if found.is_empty() {
        lines.push(
            "nothing was found; whether the disk keeps what it acknowledges, only a loss of power shows"
                .to_owned(),
        );
    }
    let on = file_system.as_ref();
    let on = on.map_or_else(String::new, |(kind, device)| {
        format!(", {kind} on {device}")
    });
    lines.push(format!(
        "{shown}{on}: {} syncs of 4 KiB took {} us (median), {} to {} us",
        times.len(),
        median.as_micros(),
        least.as_micros(),
        most.as_micros()
    ));
    let findings: Vec<Value> = found.iter().map(|one| value(one, &[])).collect();
    let micros = |time: Duration| time.as_micros();
    format.answer(
        &lines.join("\n"),
        &json!({
            "dir": shown.to_string(), "file_system": kind, "syncs": times.len(), "median_us": micros(median),
            "least_us": micros(*least), "most_us": micros(*most), "findings": findings,
        }),
    )?;
    Ok(match found.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

/// What half of the syncs take at least, and the kind of file system.
fn judge(median: Duration, file_system: Option<&str>) -> Option<Finding> {
    if let Some(kind) = file_system.filter(|kind| MEMORY.contains(kind)) {
        return Some(found(
            "in-memory",
            format!("{kind} is memory: what is synced there is gone with the machine's next start"),
            "put dir on a disk",
        ));
    }
    (median < SYNC_MIN).then(|| {
        found(
            "fast-sync",
            format!(
                "half of the syncs took less than {} us, which is less than a disk needs: a cache that loses its content with the power \
                 may acknowledge them. This is no proof: some disks have caches that outlive the power",
                SYNC_MIN.as_micros()
            ),
            "see that no write cache is on without a battery (cat /sys/block/*/queue/write_cache), that a virtual disk has not \
             cache=unsafe, and that nothing like eatmydata is between; leave trust-fsync no, so that a restart after a loss of power waits",
        )
    })
}

fn found(kind: &'static str, what: String, remedy: &'static str) -> Finding {
    Finding {
        severity: Severity::Warning,
        node: None,
        kind,
        what,
        remedy,
    }
}

/// Enough for a median that one slow sync does not move.
const SYNCS: usize = 200;
/// Syncs of disks whose caches outlive a loss of power take longer.
const SYNC_MIN: Duration = Duration::from_micros(20);
const MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_takes_less_than_a_disk_needs_is_found_and_no_other() {
        let kind = |micros, file_system| {
            let found = judge(Duration::from_micros(micros), file_system);
            found.map(|found| {
                assert!(!found.remedy.is_empty());
                found.kind
            })
        };
        assert_eq!(kind(19, Some("ext4")), Some("fast-sync"));
        assert_eq!(kind(0, None), Some("fast-sync"));
        assert_eq!(kind(20, Some("ext4")), None);
        assert_eq!(kind(9_000, None), None);
        assert_eq!(kind(1, Some("tmpfs")), Some("in-memory"));
        assert_eq!(kind(50, Some("ramfs")), Some("in-memory"), "however slow");
    }
}
