//! The command line of the harness.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Doing, Failure};
use crate::workload::Workload;

pub(crate) const USAGE: &str = "\
usage: cargo run --release -p quorlock-benches -- [options]
       cargo run --release -p quorlock-benches -- --sync-delay MS PROGRAM [ARGUMENTS]

  --rounds N        how often each pair is measured, alternating (default 5)
  --only P1,P6,...  only these rows, by the first words of their names: P6 is P6 8, P6 50,
                    P6 200 and P6 50 deep, but not P6b
  --long            also the rows that take minutes a round: P11 10M
  --out DIR         where PEER/report.md and PEER/report.json go (default target/benchmarks)
  --ours PROGRAM    the node to measure (default: quorlock, built in release mode)
  --peers A,B,...   the servers to compare with, each in a report of its own; one that is not
                    installed is skipped by name (default redis-server,valkey-server)
  --load PROGRAM    the load generator (default redis-benchmark)
  --quick           a twentieth of the operations and one round: shows only that it works
  --sync-delay MS PROGRAM [ARGUMENTS]
                    measures nothing, but runs a program with every sync delayed, as the rows
                    P6b and P8 do

All rows with five rounds take about an hour for each peer, P11 10M a quarter of an hour more.
";

/// What the person who started the harness wants.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) only: Vec<String>,
    pub(crate) out: PathBuf,
    pub(crate) ours: Option<PathBuf>,
    pub(crate) peers: Vec<PathBuf>,
    pub(crate) load: PathBuf,
    pub(crate) quick: bool,
    pub(crate) long: bool,
    pub(crate) delayed: Option<Delayed>,
}

/// A program to run with its syncs delayed, in place of a measurement.
pub(crate) struct Delayed {
    pub(crate) delay: Duration,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl Options {
    /// Reads the arguments after the program's name; `None` if help was asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Failure> {
        let mut options = Self {
            rounds: 5,
            out: PathBuf::from("target/benchmarks"),
            peers: DEFAULT_PEERS.map(PathBuf::from).to_vec(),
            load: PathBuf::from("redis-benchmark"),
            ..Self::default()
        };
        while let Some(name) = arguments.next() {
            let mut value = || {
                let missing = || Failure::new(format!("{name} needs a value\n\n{USAGE}"));
                arguments.next().ok_or_else(missing)
            };
            match name.as_str() {
                "--rounds" => options.rounds = value()?.parse().doing("--rounds")?,
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--out" => options.out = value()?.into(),
                "--ours" => options.ours = Some(value()?.into()),
                "--peers" => options.peers = value()?.split(',').map(PathBuf::from).collect(),
                "--load" => options.load = value()?.into(),
                "--quick" => options.quick = true,
                "--long" => options.long = true,
                "--sync-delay" => {
                    let delay_ms: f64 = value()?.parse().doing("--sync-delay")?;
                    let delay = Duration::try_from_secs_f64(delay_ms / 1e3);
                    options.delayed = Some(Delayed {
                        delay: delay.doing("--sync-delay")?,
                        program: value()?,
                        arguments: arguments.by_ref().collect(),
                    });
                }
                "--help" | "-h" => return Ok(None),
                // Cargo passes this to what it takes for a bench.
                "--bench" => {}
                _ => return Err(Failure::new(format!("unknown option {name}\n\n{USAGE}"))),
            }
        }
        if options.quick {
            options.rounds = 1;
        }
        if options.rounds == 0 {
            return Err(Failure::new("--rounds must be at least 1"));
        }
        let mut names: Vec<&str> = options.peers.iter().map(|peer| file_name(peer)).collect();
        names.sort_unstable();
        if names.windows(2).any(|two| two[0] == two[1]) || names.contains(&"") {
            return Err(Failure::new(
                "--peers must name programs, no two of the same file name",
            ));
        }
        Ok(Some(options))
    }

    /// Whether this row is to be measured.
    pub(crate) fn wants(&self, workload: &Workload) -> bool {
        let is_named = |wish: &String| workload.is_named(wish);
        (self.long || !workload.is_long) && (self.only.is_empty() || self.only.iter().any(is_named))
    }
}

/// The last part of a program's path: what its report is called by.
pub(crate) fn file_name(program: &Path) -> &str {
    let name = program.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// What is measured if nothing is said, as far as it is installed.
pub(crate) const DEFAULT_PEERS: [&str; 2] = ["redis-server", "valkey-server"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, Failure> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_bad_ones_refused() {
        let options = parse("--rounds 7 --only P1,P6 --ours x").unwrap().unwrap();
        assert_eq!((options.rounds, options.only.len()), (7, 2));
        assert_eq!(options.peers, DEFAULT_PEERS.map(PathBuf::from));
        let options = parse("--peers old/redis-server,x").unwrap().unwrap();
        assert_eq!(options.peers.len(), 2);
        assert_eq!(file_name(&options.peers[0]), "redis-server");
        assert!(parse("--help").unwrap().is_none());
        for bad in [
            "--rounds",
            "--rounds 0",
            "--rounds many",
            "--bogus",
            "--peer redis-server",
            "--peers a/redis-server,b/redis-server",
            "--peers redis-server,",
            "--sync-delay 5",
            "--sync-delay -5 x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_follows_a_delayed_program_is_its_own() {
        let options = parse("--sync-delay 0.5 x --quick --help").unwrap().unwrap();
        let delayed = options.delayed.unwrap();
        assert_eq!(delayed.delay, Duration::from_micros(500));
        assert_eq!(delayed.program, "x");
        assert_eq!(delayed.arguments, ["--quick", "--help"]);
    }

    #[test]
    fn long_rows_are_measured_only_if_asked_for() {
        let wanted = |line: &str| {
            let options = parse(line).unwrap().unwrap();
            let rows = crate::workload::all().into_iter();
            rows.filter(|row| options.wants(row)).count()
        };
        assert_eq!((wanted("--only P11"), wanted("--only P11 --long")), (1, 2));
    }
}
