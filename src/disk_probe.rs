//! How long the disk of a directory takes to write 4 KiB and to sync them, and what file system it is.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
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
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    mounted(&mounts, &directory)
}

/// The same from the system's table of mounts.
fn mounted(mounts: &[u8], directory: &Path) -> Option<(String, String)> {
    let mounts = mounts.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ').map(unescaped);
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        let leads_here = directory.starts_with(OsStr::from_bytes(&point));
        leads_here.then_some((point.len(), device, kind))
    });
    // Of several mounts on one point the last one is seen.
    let (_, device, kind) = mounts.max_by_key(|(length, ..)| *length)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&kind), text(&device)))
}

/// A word of that table: blanks, tabs, line ends and backslashes are three octal digits behind a backslash (proc(5)).
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

/// A disk that takes longer for a sync has been asked often enough.
const LASTS_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_that_leads_nearest_to_a_directory_is_found_whatever_its_name() {
        let mounts = b"/dev/sda1 / ext4 rw 0 0\n\
            tmpfs /run tmpfs rw 0 0\n\
            /dev/sdb1 /mnt/my\\040disk xfs rw 0 0\n\
            /dev/sdc1 /mnt/back\\134slash btrfs rw 0 0\n\
            short\n";
        let kind = |directory: &str| mounted(mounts, Path::new(directory)).map(|(kind, _)| kind);
        for (directory, expected) in [
            ("/var/lib/quorlock", "ext4"),
            ("/run/quorlock", "tmpfs"),
            ("/runner", "ext4"),
            ("/mnt/my disk/n1", "xfs"),
            ("/mnt/back\\slash", "btrfs"),
        ] {
            assert_eq!(kind(directory).as_deref(), Some(expected), "{directory}");
        }
        assert_eq!(mounted(b"", Path::new("/")), None);
    }
}
