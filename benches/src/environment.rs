//! What the figures were measured on: without it they say nothing.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::clock;
use crate::cores::Cores;
use crate::failure::{Doing, Failure};

/// One line for each fact.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Environment {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    /// Median of syncing 512 bytes written in place into a zero-filled file.
    pub(crate) sync_in_place_us: f64,
    /// Median of syncing 512 bytes appended to a growing file.
    pub(crate) sync_growing_us: f64,
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) pinned: String,
}

impl Environment {
    pub(crate) fn look(
        scratch: &Path,
        ours: &Path,
        peer: &Path,
        cores: Cores,
    ) -> Result<Self, Failure> {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = model.map_or("unknown", |rest| rest.trim_start_matches([':', ' ', '\t']));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            date: output("date", &["-u", "+%Y-%m-%d"]),
            commit: output("git", &["rev-parse", "--short", "HEAD"]),
            processor: processor.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            file_system: file_system(scratch),
            sync_in_place_us: sync_time(scratch, true)?,
            sync_growing_us: sync_time(scratch, false)?,
            ours: version(ours),
            peer: version(peer),
            pinned: format!(
                "server on core {}, load on core {}",
                cores.server, cores.load
            ),
        })
    }

    /// One line, for the report and the terminal.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, Linux {}, {}, fdatasync {:.0} us in place and {:.0} us growing; {}",
            self.processor,
            self.cores,
            self.kernel,
            self.file_system,
            self.sync_in_place_us,
            self.sync_growing_us,
            self.pinned
        )
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

fn version(program: &Path) -> String {
    let text = output(&program.to_string_lossy(), &["--version"]);
    let first = text.lines().next().unwrap_or_default();
    first.split(" sha=").next().unwrap_or_default().to_owned()
}

/// The type of the file system that holds `path`: the longest mount point that is its prefix.
fn file_system(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut best = ("unknown", 0);
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        if let (Some(point), Some(kind)) = (words.next(), words.next())
            && path.starts_with(point)
            && point.len() >= best.1
        {
            best = (kind, point.len());
        }
    }
    best.0.to_owned()
}

fn sync_time(scratch: &Path, is_in_place: bool) -> Result<f64, Failure> {
    const WRITES: usize = 300;
    let path = scratch.join("sync-probe");
    let doing = "measuring fdatasync";
    let mut file = File::create(&path).doing(doing)?;
    if is_in_place {
        file.write_all(&vec![0; 512 * WRITES]).doing(doing)?;
        file.sync_all().doing(doing)?;
        file.seek(SeekFrom::Start(0)).doing(doing)?;
    }
    let mut times: Vec<Duration> = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let start = clock::now();
        file.write_all(&[7; 512]).doing(doing)?;
        file.sync_data().doing(doing)?;
        times.push(clock::now().saturating_sub(start));
    }
    fs::remove_file(path).doing(doing)?;
    times.sort();
    Ok(times[WRITES / 2].as_secs_f64() * 1e6)
}
