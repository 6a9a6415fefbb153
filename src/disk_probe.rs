//! How long the disk of a directory takes to write 4 KiB and to sync them, and what file system it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::clock;

/// How long each of so many syncs took, the shortest first; fewer where they take long.
///
/// # Errors
/// What the system says to the file, the write or the sync.
pub(crate) fn sync_times(directory: &Path, count: usize) -> io::Result<Vec<Duration>> {
    let path = directory.join(format!(".quorlock-sync-probe-{}", std::process::id()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    // Whoever ends this in between finds nothing left behind.
    fs::remove_file(&path)?;
    timed(file, count)
}

fn timed(mut file: fs::File, count: usize) -> io::Result<Vec<Duration>> {
    let began = clock::now();
    let mut times = Vec::with_capacity(count);
    while times.len() < count && clock::now().saturating_sub(began) < LASTS_MAX {
        let before = clock::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(clock::now().saturating_sub(before));
    }
    times.sort_unstable();
    Ok(times)
}

/// The file system that the directory is on, and its device: the longest mount point that leads to it.
pub(crate) fn file_system(directory: &Path) -> Option<(String, String)> {
    let directory = directory.canonicalize().ok()?;
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        directory
            .starts_with(point)
            .then_some((point.len(), device, kind))
    });
    let (_, device, kind) = mounts.max_by_key(|(length, ..)| *length)?;
    Some((kind.to_owned(), device.to_owned()))
}

/// A disk that takes longer for a sync has been asked often enough.
const LASTS_MAX: Duration = Duration::from_secs(3);
