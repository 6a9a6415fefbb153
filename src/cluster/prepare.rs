//! Before a cluster starts: what is there already, and what must be made.
//!
//! A new directory gets a manifest and one identity per node. An existing one is resumed as it
//! is: same nodes, ports and locks. Whatever does not fit is refused with the way out.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::clean;
use super::embedded::create_identity;
use super::home::ClusterHome;
use super::manifest::{self, Entry, Manifest};
use super::options::Arguments;
use super::ports;
use crate::clock;
use crate::exit_code::Failure;
use crate::output::shell_word;

/// A cluster whose nodes can be started.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) manifest: Manifest,
    /// Whether the nodes existed before.
    pub(super) resumed: bool,
    /// Something the user should know, or nothing.
    pub(super) note: String,
}

/// Makes or resumes the cluster in `home`, which this process owns.
pub(super) fn prepare(home: &ClusterHome, arguments: &Arguments) -> Result<Prepared, Failure> {
    if home.manifest().is_file() {
        let manifest = Manifest::read(home)?;
        if manifest.complete {
            return resume(home, arguments, manifest);
        }
        discard_draft(home, &manifest)?;
    }
    create(home, arguments)
}

fn create(home: &ClusterHome, arguments: &Arguments) -> Result<Prepared, Failure> {
    let count = arguments.nodes.unwrap_or(DEFAULT_NODES);
    let base = ports::choose(arguments.base_port, count)?;
    let note = match arguments.base_port {
        None if base != ports::DEFAULT_BASE => format!(
            "Ports {} to {} were not all free, so these are {base} to {}.",
            ports::DEFAULT_BASE,
            ports::DEFAULT_BASE + (count - 1),
            base + (count - 1)
        ),
        _ => String::new(),
    };
    let ports = base..=base + (count - 1);
    let mut manifest = Manifest::new(home.name(), arguments.appendfsync(), ports);
    if arguments.ephemeral {
        for node in &mut manifest.nodes {
            node.id = manifest::IN_MEMORY.to_owned();
        }
    } else {
        manifest.write(home)?;
        let (cluster_id, size) = (manifest.cluster_id().to_owned(), manifest.nodes.len());
        for node in &mut manifest.nodes {
            node.id = create_identity(&home.node_directory(node.number), &cluster_id, size)?;
        }
    }
    if arguments.tls {
        manifest.issued = Some(home.certificates().ensure(&manifest)?);
    }
    manifest.complete = true;
    manifest.write(home)?;
    Ok(Prepared {
        manifest,
        resumed: false,
        note,
    })
}

fn resume(
    home: &ClusterHome,
    arguments: &Arguments,
    mut manifest: Manifest,
) -> Result<Prepared, Failure> {
    let shown = home.directory().display();
    let word = shell_word(&shown);
    let count = manifest.nodes.len();
    if let Some(asked) = arguments.nodes.filter(|asked| usize::from(*asked) != count) {
        return Err(Failure::failed(format!(
            "the cluster in {shown} has {count} nodes, not {asked}; locks are held by a majority \
             of exactly those, so its size is fixed"
        ))
        .remedy(format!(
            "resume it with: quorlock cluster up --dir {word}\n\
             or make another with --dir OTHER\n\
             or forget this one and its locks: quorlock cluster clean --dir {word}"
        )));
    }
    let first = manifest.nodes.first().map_or(0, |node| node.port);
    if let Some(asked) = arguments
        .base_port
        .filter(|asked| *asked != 0 && *asked != first)
    {
        return Err(Failure::failed(format!(
            "the cluster in {shown} has its ports from {first} on, not from {asked} on"
        ))
        .remedy("leave --base-port out to resume it, or make another with --dir"));
    }
    if arguments.tls && !manifest.speaks_tls() {
        return Err(Failure::failed(format!(
            "the cluster in {shown} was made without --tls, and its clients know its nodes as redis://; nothing was changed"
        ))
        .remedy(format!(
            "resume it without TLS: quorlock cluster up --dir {word}\n\
             or make another with --dir OTHER\n\
             or forget this one and its locks: quorlock cluster clean --dir {word}"
        )));
    }
    for node in &manifest.nodes {
        check_past(home, node)?;
    }
    if let Some(port) = first_port_that_stays_taken(&manifest) {
        return Err(Failure::failed(format!(
            "port {port}, which belongs to the cluster in {shown}, is taken"
        ))
        .remedy(format!(
            "stop what uses it (ss -ltnp 'sport = :{port}') and try again"
        )));
    }
    let before = manifest.clone();
    if let Some(appendfsync) = &arguments.appendfsync {
        manifest.appendfsync.clone_from(appendfsync);
    }
    let note = renew_certificates(home, &mut manifest, arguments.tls)?;
    if manifest != before {
        manifest.write(home)?;
    }
    Ok(Prepared {
        manifest,
        resumed: true,
        note,
    })
}

/// Makes certificates anew that are near their end, where the cluster has any. Gives what the user should know.
fn renew_certificates(
    home: &ClusterHome,
    manifest: &mut Manifest,
    is_asked_for: bool,
) -> Result<String, Failure> {
    let Some(certificates) = manifest.certificates(home) else {
        return Ok(String::new());
    };
    let issued = certificates.ensure(manifest)?;
    if manifest.issued.replace(issued) != Some(issued) {
        return Ok(format!(
            "Its certificates were near their end, damaged or gone, so there are new ones: clients have to read {} again.",
            certificates.authority.display()
        ));
    }
    Ok(match is_asked_for {
        true => String::new(),
        false => "It was made with --tls, so its nodes speak TLS.".to_owned(),
    })
}

/// Refuses a node whose directory is not the one it was created in.
fn check_past(home: &ClusterHome, node: &Entry) -> Result<(), Failure> {
    let directory = home.node_directory(node.number);
    let what = match recorded_id(&directory) {
        Ok(id) if id == node.id => return Ok(()),
        Ok(id) => format!("holds another node ({id})"),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            format!("does not tell who it is ({error})")
        }
        Err(_) if directory.is_dir() => "has lost its contents".to_owned(),
        Err(_) => "is gone".to_owned(),
    };
    Err(Failure::failed(format!(
        "node {} was created before, but {} {what}: what it granted is not known any more, so it \
         must not vote as if nothing had happened",
        node.number,
        directory.display()
    ))
    .remedy(format!(
        "restore the directory, or forget the whole cluster and its locks:\n\
         quorlock cluster clean --dir {}",
        shell_word(home.directory().display())
    )))
}

/// The id in a node's directory. Whether the rest of the file is sound is for the node to say.
fn recorded_id(directory: &Path) -> io::Result<String> {
    let text = fs::read_to_string(directory.join("node.id"))?;
    let id = text
        .lines()
        .nth(1)
        .and_then(|line| line.strip_prefix("id "));
    id.map(str::to_owned)
        .ok_or_else(|| io::Error::other("node.id names no node"))
}

/// The nodes of a supervisor that was killed may still be stopping, so a taken port is given a
/// moment.
fn first_port_that_stays_taken(manifest: &Manifest) -> Option<u16> {
    let give_up = clock::now() + PORT_PATIENCE;
    loop {
        let taken = ports::first_taken(manifest.nodes.iter().map(|node| node.port))?;
        if clock::now() > give_up {
            return Some(taken);
        }
        clock::block_for(PORT_STEP);
    }
}

/// Removes the nodes of a start that did not come as far as starting one.
fn discard_draft(home: &ClusterHome, manifest: &Manifest) -> Result<(), Failure> {
    for node in &manifest.nodes {
        match clean::remove_node(&home.node_directory(node.number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(home.failure("cannot remove an unfinished node in", &error));
            }
            _ => {}
        }
    }
    Ok(())
}

const DEFAULT_NODES: u16 = 5;
const PORT_PATIENCE: Duration = Duration::from_secs(3);
const PORT_STEP: Duration = Duration::from_millis(50);
