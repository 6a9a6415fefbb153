//! Whether what is kept on disk about a cluster comes from this user alone.
//!
//! Invariant: nothing that another user owns or may write is obeyed, written into or removed: it could name other nodes
//! than the user means, or another directory. A folder of `.quorlock` is found in parent directories, which others may own.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::geteuid;

use crate::exit_code::Failure;

/// Refuses a link, and what another user owns or may write. What does not exist, or may not be looked at, passes:
/// to open it says so better.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    check_found(path, fs::symlink_metadata(path))
}

/// The same for a directory that the user has named, which may be a link of theirs.
pub(super) fn check_behind_links(path: &Path) -> Result<(), Failure> {
    check_found(path, fs::metadata(path))
}

fn check_found(path: &Path, about: io::Result<Metadata>) -> Result<(), Failure> {
    let Ok(about) = about else {
        return Ok(());
    };
    let shown = path.display();
    let (what, remedy) = if about.is_symlink() {
        ("is a link".to_owned(), NAME_ANOTHER.to_owned())
    } else if about.uid() != geteuid().as_raw() {
        let what = format!("belongs to another user (id {})", about.uid());
        (what, format!("ask as that user\n{NAME_ANOTHER}"))
    } else if about.mode() & WRITABLE_BY_OTHERS != 0 {
        let remedy = format!("if nobody else has changed it: chmod go-w {shown}\n{NAME_ANOTHER}");
        ("may be written by other users".to_owned(), remedy)
    } else {
        return Ok(());
    };
    Err(Failure::failed(format!(
        "{shown} {what}, so what it says of a cluster is not followed; nothing was done"
    ))
    .remedy(remedy))
}

/// Makes an empty file in place of what was left under this name, so that no link is followed. With these modes nobody but this
/// user may write it, whatever the umask.
pub(super) fn open_own(path: &Path, mode: u32) -> io::Result<File> {
    remove_if_there(path)?;
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(mode).open(path)
}

/// Removes a file, unless there is none.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// All may read it.
pub(super) const READABLE: u32 = 0o644;

/// Opens no link.
pub(super) const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const NAME_ANOTHER: &str =
    "or name the nodes with --nodes or QUORLOCK_NODES, or start a cluster in another folder";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_and_what_others_may_write_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        assert!(check(&path).is_ok(), "nothing is there");
        fs::write(&path, "").unwrap();
        for (mode, is_ours) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check(&path).is_ok(), is_ours, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = home.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(check(&link).is_err());
        assert!(check_behind_links(&link).is_ok());
    }
}
