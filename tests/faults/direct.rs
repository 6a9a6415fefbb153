//! Whether the node under test writes past the page cache with `appendfsync always`: otherwise the faults would
//! strike another way of writing than the one they are meant for.
//!
//! Looked at from outside: the calls that strace shows, and the flags of a descriptor in `/proc`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::check::{Bench, Check, Need, Record};
use crate::check_directory::CheckDirectory;
use crate::examine::{Finding, Rule, examine};
use crate::phase::{listening, make_segment_ahead};
use crate::segment::{self, BLOCK_BYTES};
use crate::strace::{Attached, Injection};
use crate::stream::SMALL;
use crate::subject::{Launch, Mode};
use crate::traffic::{Traffic, streams};

const KIND: &str = "direct writes";

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = vec![Check::new(
        KIND,
        "direct/always",
        Need::Direct,
        |bench, record| serve(bench, record, Mode::Always, true),
    )];
    for mode in [Mode::Everysec, Mode::No] {
        let name = format!("direct/{}", mode.name());
        checks.push(Check::new(
            KIND,
            name,
            Need::Attach,
            move |bench, record| serve(bench, record, mode, false),
        ));
    }
    checks.push(Check::new(
        KIND,
        "direct/turned-off",
        Need::Attach,
        |bench, record| serve(bench, record, Mode::Always, false),
    ));
    checks
}

/// Every write of the log's frames goes to a descriptor with `O_DIRECT` and is of whole blocks; or none is.
fn serve(bench: &Bench, record: &mut Record, mode: Mode, is_direct: bool) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let mut launch = Launch::new(bench, mode);
    if mode == Mode::Always && !is_direct {
        launch = launch.with(&["--log-direct-io", "no"]);
    }
    // Here strace tells.
    launch.is_direct = false;
    let mut node = launch.start(&directory)?;
    let address = listening(&mut node, &directory)?;
    make_segment_ahead(address)?;
    let trace = directory.file("direct.trace");
    let attached = Attached::to(node.id(), None, &Injection::watching("pwrite64"), &trace)?;
    let mut streams = streams(41, SMALL);
    let came = Traffic::open(address, &streams)?.run(&mut streams, 6, 3);
    drop(attached);
    let mut finding = Finding::default();
    if !came.is_fine() {
        finding.flaw(format!("{came:?}"));
    }
    let writes: Vec<Write> = fs::read_to_string(&trace)?
        .lines()
        .filter_map(Write::parse)
        .collect();
    for write in &writes {
        let has_flag = is_open_direct(node.id(), write.descriptor)?;
        let is_whole = write.length % BLOCK_BYTES == 0 && write.offset % BLOCK_BYTES == 0;
        if has_flag != is_direct || is_direct && !is_whole {
            finding.flaw(format!("O_DIRECT is {has_flag} for {write:?}"));
        }
    }
    if writes.is_empty() {
        finding.flaw("strace has seen no write of the log");
    }
    record
        .figures
        .push(format!("{} writes, O_DIRECT: {is_direct}", writes.len()));
    node.kill();
    finding.heard(&node);
    let rule = Rule {
        needs_delay: mode != Mode::Always,
        ..Rule::default()
    };
    let mut after = examine(&launch, &directory, &streams, rule);
    after.join(finding);
    record.add(None, &after);
    Ok(())
}

/// A write as strace shows it.
#[derive(Debug, PartialEq, Eq)]
struct Write {
    descriptor: u64,
    length: u64,
    offset: u64,
}

impl Write {
    fn parse(line: &str) -> Option<Self> {
        let (_, arguments) = line.split_once("pwrite64(")?;
        let (descriptor, _) = arguments.split_once(',')?;
        let ends = [" <unfinished", ") "];
        let end = ends.iter().filter_map(|end| arguments.rfind(end)).min()?;
        let mut last = arguments[..end].rsplit(", ");
        let (offset, length) = (last.next()?, last.next()?);
        Some(Self {
            descriptor: descriptor.parse().ok()?,
            length: length.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

/// Whether the file system of a folder takes direct writes of whole blocks.
pub(crate) fn is_taken_in(folder: &Path) -> bool {
    let path = folder.join("direct");
    let mut options = File::options();
    let flag = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    options.write(true).create(true).custom_flags(flag);
    let block = usize::try_from(BLOCK_BYTES).unwrap_or(0);
    let memory = vec![0; 2 * block];
    let begins = memory.as_ptr().align_offset(block);
    let written = options
        .open(&path)
        .and_then(|file| file.write_all_at(&memory[begins..][..block], 0));
    let _ = fs::remove_file(path);
    written.is_ok()
}

/// Whether a process writes the newest segment in use directly: it then has a descriptor for that.
pub(crate) fn writes_newest(process: u32, directory: &CheckDirectory) -> io::Result<bool> {
    let newest = segment::newest(directory)?.canonicalize()?;
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let number = entry.file_name().to_string_lossy().parse();
        // It may be closed by now.
        let is_newest = fs::read_link(entry.path()).is_ok_and(|path| path == newest);
        if let (true, Ok(number)) = (is_newest, number)
            && is_open_direct(process, number)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_open_direct(process: u32, descriptor: u64) -> io::Result<bool> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}"))?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.map(|octal| u32::from_str_radix(octal.trim(), 8));
    match flags {
        Some(Ok(flags)) => Ok(flags & OFlags::DIRECT.bits() != 0),
        _ => Err(io::Error::other(format!("no flags in {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_read_from_a_trace_whole_or_unfinished() {
        let write = Some(Write {
            descriptor: 12,
            length: 4096,
            offset: 8192,
        });
        let whole = "77 pwrite64(12, \"\\1, 2) = 3\"..., 4096, 8192) = 4096";
        let unfinished = "77 pwrite64(12, \"QUORLOCK\"..., 4096, 8192 <unfinished ...>";
        assert_eq!(Write::parse(whole), write);
        assert_eq!(Write::parse(unfinished), write);
        assert_eq!(Write::parse("77 <... pwrite64 resumed>) = 4096"), None);
    }
}
