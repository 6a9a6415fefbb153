//! `.quorlock/current`: the cluster last started in a directory.
//!
//! One line with the cluster's directory, relative to `.quorlock` where it lies inside it, so that
//! a project can be moved. It is looked up in the working directory and then upwards. Invariant: it is followed only where
//! nobody but this user can have written it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::home::{ClusterHome, DEFAULT_DIRECTORY};
use super::manifest::Manifest;
use super::ownership::{self, READABLE, open_own};
use crate::clusters::NodeList;
use crate::exit_code::Failure;
use crate::tls_options::TlsFlags;

/// The directory of the cluster last started here or in the nearest directory above.
pub(super) fn directory() -> Result<Option<PathBuf>, Failure> {
    let here = working_directory()?;
    let mut ancestors = here.ancestors();
    ancestors
        .find_map(|ancestor| recorded_in(&ancestor.join(FOLDER)).transpose())
        .transpose()
}

/// Refuses the working directory's folder if it is not this user's alone: a cluster is to be recorded there.
pub(super) fn check_folder() -> Result<(), Failure> {
    ownership::check(&working_directory()?.join(FOLDER))
}

/// The nodes of that cluster, and how they are spoken with.
pub(crate) fn nodes() -> Result<Option<NodeList>, Failure> {
    let Some(directory) = directory()? else {
        return Ok(None);
    };
    let home = ClusterHome::at(&directory)?;
    home.check_ownership()?;
    if !home.manifest().is_file() {
        return Ok(None);
    }
    let manifest = Manifest::read(&home)?;
    let tls = TlsFlags {
        cacert: manifest.certificates(&home).map(|it| it.authority),
        ..TlsFlags::default()
    };
    Ok(Some(NodeList {
        nodes: manifest.urls(),
        tls,
        ..NodeList::default()
    }))
}

/// The directory of that cluster and the addresses of its nodes, if it is down.
pub(crate) fn stopped() -> Option<(PathBuf, Vec<String>)> {
    let home = ClusterHome::at(&directory().ok()??).ok()?;
    home.check_ownership().ok()?;
    let manifest = Manifest::read(&home).ok()?;
    (!home.is_running()).then(|| (home.directory().to_owned(), manifest.urls()))
}

/// The cluster that a command means: the one in `given`, or else the one last started.
pub(super) fn find(given: Option<&Path>) -> Result<ClusterHome, Failure> {
    let home = match given {
        Some(directory) => ClusterHome::at(directory)?,
        None => match directory()? {
            Some(directory) => ClusterHome::at(&directory)?,
            None => {
                check_folder()?;
                ClusterHome::at(Path::new(DEFAULT_DIRECTORY))?
            }
        },
    };
    home.check_ownership()?;
    match fs::metadata(home.manifest()) {
        Ok(found) if found.is_file() => return Ok(home),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let shown = home.directory().display();
            return Err(Failure::failed(format!(
                "this user may not look into {shown}, so whether a cluster is there cannot be said"
            ))
            .remedy("ask as the user who started it, or name another directory with --dir"));
        }
        _ => {}
    }
    let shown = home.directory().display();
    Err(Failure::failed(format!("there is no cluster in {shown}"))
        .remedy("start one with: quorlock cluster up\nor name its directory with --dir"))
}

/// Records `home` as the cluster last started in the working directory.
pub(super) fn record(home: &ClusterHome) -> Result<(), Failure> {
    let folder = working_directory()?.join(FOLDER);
    ownership::check(&folder)?;
    let directory = home
        .directory()
        .strip_prefix(&folder)
        .unwrap_or(home.directory());
    let write = || -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder)?;
        let draft = folder.join(format!("current.{}", std::process::id()));
        let mut file = open_own(&draft, READABLE)?;
        file.write_all(format!("{}\n", directory.display()).as_bytes())?;
        fs::rename(draft, folder.join(FILE))
    };
    write().map_err(|error| Failure::failed(format!("cannot write {}: {error}", folder.display())))
}

/// Forgets `home` if it is the one recorded in the working directory; a folder that is empty
/// then goes too.
pub(super) fn forget(home: &ClusterHome) {
    let Ok(here) = working_directory() else {
        return;
    };
    let folder = here.join(FOLDER);
    if recorded_in(&folder).is_ok_and(|found| found.as_deref() == Some(home.directory())) {
        let _stays = fs::remove_file(folder.join(FILE));
        let _is_not_empty = fs::remove_dir(folder);
    }
}

fn recorded_in(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let file = folder.join(FILE);
    if fs::symlink_metadata(&file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    ownership::check(folder)?;
    ownership::check(&file)?;
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().next().filter(|line| !line.is_empty());
    Ok(line.map(|line| folder.join(line)))
}

fn working_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|error| Failure::failed(format!("the working directory is gone: {error}")))
}

const FOLDER: &str = ".quorlock";
const FILE: &str = "current";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_record_moves_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = || recorded_in(folder.path()).expect("it is ours");
        assert_eq!(recorded(), None);
        fs::write(folder.path().join(FILE), "dev\n").unwrap();
        assert_eq!(recorded(), Some(folder.path().join("dev")));
        fs::write(folder.path().join(FILE), "/elsewhere/x\n").unwrap();
        assert_eq!(recorded(), Some(PathBuf::from("/elsewhere/x")));
        fs::write(folder.path().join(FILE), "\n").unwrap();
        assert_eq!(recorded(), None);
    }
}
