//! `quorlock cluster logs`: what the nodes wrote.
//!
//! Reads the files, so it works for a stopped cluster too. With several nodes every line starts
//! with the node it came from.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::ClusterDirectory;
use super::home::ClusterHome;
use super::manifest::Manifest;
use crate::clock;
use crate::exit_code::Failure;
use crate::output;

/// Arguments of `quorlock cluster logs`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Number of the node (default: all)
    #[arg(value_name = "N", value_parser = super::parse_number)]
    node: Option<u16>,
    /// Go on printing what is written, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    cluster: ClusterDirectory,
}

/// Prints the logs.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let home = arguments.cluster.find()?;
    let manifest = Manifest::read(&home)?;
    let numbers = manifest.nodes.iter().map(|node| node.number);
    let mut logs: Vec<Log> = numbers
        .filter(|number| arguments.node.is_none_or(|wanted| wanted == *number))
        .map(|number| Log::open(&home, number, arguments.node.is_none()))
        .collect::<Result<_, _>>()?;
    if logs.is_empty() {
        let count = manifest.nodes.len();
        return Err(Failure::usage(format!(
            "the nodes are numbered 1 to {count}"
        )));
    }
    loop {
        for log in &mut logs {
            log.print_new()?;
        }
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        clock::block_for(FOLLOW_STEP);
    }
}

/// The last lines of a file, or why there are none.
pub(super) fn tail(path: &Path, lines: usize) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Err(error) => format!("(cannot be read: {error})"),
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all.get(all.len().saturating_sub(lines)..)
                .unwrap_or_default()
                .join("\n")
        }
    }
}

struct Log {
    reader: BufReader<File>,
    prefix: String,
    /// A line whose end has not been written yet.
    partial: Vec<u8>,
}

impl Log {
    fn open(home: &ClusterHome, number: u16, is_prefixed: bool) -> Result<Self, Failure> {
        let path = home.node_log(number);
        let file = File::open(&path).map_err(|error| {
            Failure::failed(format!(
                "node {number} has no log: {}: {error}",
                path.display()
            ))
            .remedy(
                "nodes inside the supervisor, with --in-process or --ephemeral, do not write one",
            )
        })?;
        let prefix = if is_prefixed {
            format!("[n{number}] ")
        } else {
            String::new()
        };
        Ok(Self {
            reader: BufReader::new(file),
            prefix,
            partial: Vec::new(),
        })
    }

    fn print_new(&mut self) -> Result<(), Failure> {
        loop {
            let count = self
                .reader
                .read_until(b'\n', &mut self.partial)
                .map_err(|error| Failure::failed(format!("cannot read the log: {error}")))?;
            if count == 0 || self.partial.last() != Some(&b'\n') {
                return Ok(());
            }
            let line = String::from_utf8_lossy(&self.partial);
            output::line(format_args!("{}{}", self.prefix, line.trim_end()));
            self.partial.clear();
        }
    }
}

const FOLLOW_STEP: Duration = Duration::from_millis(100);
const TAIL_BYTES: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_at_most_the_wanted_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert!(tail(&path, 2).contains("cannot be read"));
        std::fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&path, 2), "b\nc");
        assert_eq!(tail(&path, 9), "a\nb\nc");
    }
}
