//! `quorlock cluster clean`: removes the files of a cluster, and those alone.
//!
//! Invariant: what no cluster or node has made stays, and no link is followed. So a directory that is taken for
//! a cluster's by mistake loses nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::ClusterDirectory;
use super::current;
use super::home::{self, ClusterHome, Kind};
use super::manifest::Manifest;
use crate::exit_code::Failure;
use crate::output::Format;

/// What went and what stayed.
#[derive(Debug, Default)]
pub(super) struct CleanOutcome {
    removed: Vec<PathBuf>,
    kept: Vec<PathBuf>,
}

/// Removes a stopped cluster.
pub(super) fn run(cluster: &ClusterDirectory, format: Format) -> Result<ExitCode, Failure> {
    let home = cluster.find()?;
    let shown = home.directory().display();
    let _ownership = home.own().map_err(|_| {
        Failure::failed(format!(
            "the cluster in {shown} is running; nothing was removed"
        ))
        .remedy("stop it first: quorlock cluster down")
    })?;
    let cleaned = remove(&home)
        .map_err(|error| Failure::failed(format!("cannot remove all of {shown}: {error}")))?;
    current::forget(&home);
    let names = names_of(home.directory(), &cleaned.removed);
    let mut text = format!(
        "the cluster in {shown} was removed; its locks and identities are gone\nremoved: {names}"
    );
    if !cleaned.kept.is_empty() {
        let names = names_of(home.directory(), &cleaned.kept);
        text.push_str(&format!("\nkept, for no cluster has made it: {names}"));
    }
    let value = json!({
        "removed": home.directory(), "files": cleaned.removed, "kept": cleaned.kept,
    });
    format.result(&text, &value);
    Ok(ExitCode::SUCCESS)
}

/// Removes a cluster's files, and its directory if nothing else is in it.
pub(super) fn remove(home: &ClusterHome) -> io::Result<CleanOutcome> {
    let mut cleaned = CleanOutcome::default();
    let speaks_tls = Manifest::read(home).is_ok_and(|it| it.speaks_tls());
    let kind_of = |name: &str| home::kind_of(name, speaks_tls);
    remove_from(home.directory(), &kind_of, &mut cleaned)?;
    Ok(cleaned)
}

/// Removes a node's files, and its directory if nothing else is in it.
pub(super) fn remove_node(directory: &Path) -> io::Result<()> {
    remove_from(directory, &kind_in_node, &mut CleanOutcome::default())
}

fn kind_in_node(name: &str) -> Kind {
    match quorlock_server::is_node_file(name) {
        true if name.starts_with("repair-") => Kind::Node,
        true => Kind::File,
        false => Kind::Foreign,
    }
}

fn remove_from(
    directory: &Path,
    kind_of: &dyn Fn(&str) -> Kind,
    cleaned: &mut CleanOutcome,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name, about) = (entry.path(), entry.file_name(), entry.file_type()?);
        let kind = name.to_str().map_or(Kind::Foreign, kind_of);
        if kind == Kind::Node && about.is_dir() {
            remove_from(&path, &kind_in_node, cleaned)?;
        } else if kind == Kind::File && !about.is_dir() && !about.is_symlink() {
            fs::remove_file(&path)?;
            cleaned.removed.push(path);
        } else {
            cleaned.kept.push(path);
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Names for people: relative, and of many only the first.
fn names_of(directory: &Path, paths: &[PathBuf]) -> String {
    let mut paths: Vec<_> = paths.iter().collect();
    paths.sort();
    let names = paths.iter().take(NAMES_MAX).map(|path| {
        let name = path.strip_prefix(directory).unwrap_or(path);
        name.to_string_lossy().escape_debug().to_string()
    });
    let mut names: Vec<String> = names.collect();
    if let Some(more @ 1..) = paths.len().checked_sub(NAMES_MAX) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

const NAMES_MAX: usize = 40;
