//! The command line of the harness.

use std::path::PathBuf;

use crate::failure::{Doing, Failure};

pub(crate) const USAGE: &str = "\
usage: cargo run --release -p quorlock-benches -- [options]

  --rounds N        how often each pair is measured, alternating (default 5)
  --only P1,P6,...  only these workloads, by the beginning of their name
  --out DIR         where report.md and report.json go (default target/benchmarks)
  --ours PROGRAM    the node to measure (default: quorlock, built in release mode)
  --peer PROGRAM    the server to compare with (default redis-server)
  --load PROGRAM    the load generator (default redis-benchmark)
  --quick           a twentieth of the operations and one round: shows only that it works
";

/// What the person who started the harness wants.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) only: Vec<String>,
    pub(crate) out: PathBuf,
    pub(crate) ours: Option<PathBuf>,
    pub(crate) peer: PathBuf,
    pub(crate) load: PathBuf,
    pub(crate) quick: bool,
}

impl Options {
    /// Reads the arguments after the program's name; `None` if help was asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Failure> {
        let mut options = Self {
            rounds: 5,
            only: Vec::new(),
            out: PathBuf::from("target/benchmarks"),
            ours: None,
            peer: PathBuf::from("redis-server"),
            load: PathBuf::from("redis-benchmark"),
            quick: false,
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
                "--peer" => options.peer = value()?.into(),
                "--load" => options.load = value()?.into(),
                "--quick" => options.quick = true,
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
        Ok(Some(options))
    }
}

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
        assert!(parse("--help").unwrap().is_none());
        for bad in ["--rounds", "--rounds 0", "--rounds many", "--bogus"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
