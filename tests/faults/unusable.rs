//! Directories that cannot be used, or that go away under a running node.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply};

use crate::check::{Bench, Check, Need, Record};
use crate::check_directory::CheckDirectory;
use crate::examine::{Finding, Rule, examine};
use crate::mount::Mount;
use crate::phase::{listening, make_segment_ahead};
use crate::stream::{SMALL, Stream};
use crate::subject::{Ended, Launch, Mode};
use crate::traffic::{Traffic, streams};

const KIND: &str = "unusable directory";

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = vec![
        Check::new(KIND, "directory/read-only", Need::Root, read_only),
        Check::new(KIND, "directory/no-permission", Need::Root, no_permission),
    ];
    for mode in Mode::ALL {
        for (what, is_all) in [("directory", true), ("segments", false)] {
            let name = format!("directory/removed-{what}/{}", mode.name());
            checks.push(Check::new(KIND, name, Need::Nothing, {
                move |bench, record| removed(bench, record, mode, is_all)
            }));
        }
    }
    checks
}

/// A file system mounted read-only: refused, and nothing is lost when it is writable again.
fn read_only(bench: &Bench, record: &mut Record) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let mount = Mount::on(&directory, "size=40m")?;
    let launch = Launch::new(bench, Mode::Everysec);
    let mut finding = Finding::default();
    mount.remount("ro")?;
    refuses(&launch, &directory, &mut finding)?;
    mount.remount("rw")?;
    let streams = write_and_kill(&launch, &directory)?;
    mount.remount("ro")?;
    refuses(&launch, &directory, &mut finding)?;
    mount.remount("rw")?;
    record.add(None, &after(&launch, &directory, &streams, finding));
    Ok(())
}

/// Another user: may not enter the directory, may not write in it, may not read its files.
fn no_permission(bench: &Bench, record: &mut Record) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    // The program itself may lie where that user cannot see it.
    let program = directory.file("quorlock");
    fs::copy(&bench.program, &program)?;
    for folder in directory.data().ancestors().skip(1).take(2) {
        allow(folder, 0o755)?;
    }
    let launch = Launch {
        program,
        ..Launch::new(bench, Mode::Everysec)
    };
    let streams = write_and_kill(&launch, &directory)?;
    let mut other_user = launch.clone();
    other_user.wrapper = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut finding = Finding::default();
    for rights in [0o700, 0o755, 0o777] {
        allow(&directory.data(), rights)?;
        refuses(&other_user, &directory, &mut finding)?;
    }
    allow(&directory.data(), 0o755)?;
    record.add(None, &after(&launch, &directory, &streams, finding));
    Ok(())
}

/// The directory, or the log's files in it, are removed under a running node. It cannot keep what
/// it would acknowledge, so it must notice and end: in `always` before the next reply, in
/// `everysec` within two seconds, in `no` at its next sync, at the latest when it stops.
fn removed(bench: &Bench, record: &mut Record, mode: Mode, is_all: bool) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let launch = Launch::new(bench, mode);
    let mut node = launch.start(&directory)?;
    let address = listening(&mut node, &directory)?;
    let mut connection = Connection::open(address)?;
    let set = ["SET", "k", "v", "PX", "60000"];
    connection.ask(&set)?;
    make_segment_ahead(address)?;
    if is_all {
        fs::remove_dir_all(directory.data())?;
    } else {
        for (path, _) in directory.segments()? {
            fs::remove_file(path)?;
        }
    }
    let mut finding = Finding::default();
    let reply = connection.ask(&set);
    if mode == Mode::Always && matches!(reply, Ok(Reply::Status(_))) {
        finding.flaw("a write was acknowledged as synced into a file that nobody can find");
    }
    if mode == Mode::No {
        node.terminate();
    }
    let ended = node.end(Duration::from_secs(5));
    if ended != Some(Ended::Exited(1)) {
        finding.flaw(format!("without its log the node came to {ended:?}"));
    }
    if !node.said().contains("removed") {
        finding.flaw(format!(
            "does not say what happened:\n    {}",
            node.last_words()
        ));
    }
    finding.heard(&node);
    record.add(None, &finding);
    Ok(())
}

fn write_and_kill(launch: &Launch, directory: &CheckDirectory) -> io::Result<Vec<Stream>> {
    let mut node = launch.start(directory)?;
    let mut streams = streams(41, SMALL);
    let came = Traffic::open(listening(&mut node, directory)?, &streams)?.run(&mut streams, 6, 3);
    if came.is_fine() {
        node.kill();
        return Ok(streams);
    }
    Err(io::Error::other(format!("preparing failed: {came:?}")))
}

fn refuses(launch: &Launch, directory: &CheckDirectory, finding: &mut Finding) -> io::Result<()> {
    let mut node = launch.start(directory)?;
    let outcome = node.listening();
    let names_it = node.said().contains("data");
    if outcome != Err(Ended::Exited(1)) || !names_it {
        let said = node.last_words();
        finding.flaw(format!("came to {outcome:?}:\n    {said}"));
    }
    finding.heard(&node);
    Ok(())
}

fn after(
    launch: &Launch,
    directory: &CheckDirectory,
    streams: &[Stream],
    finding: Finding,
) -> Finding {
    let rule = Rule {
        needs_delay: true,
        ..Rule::default()
    };
    let mut after = examine(launch, directory, streams, rule);
    after.join(finding);
    after
}

fn allow(path: &Path, rights: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(rights))
}
