//! The command line.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: tests/faults/run [options]

  --all             every call, every byte, every bit: hours; without it, fixed and few cases
  --only NAME       only the checks whose names begin so; NAME/7 is the seventh run of a check.
                    May be given several times
  --list            says what there is
  --jobs N          runs at a time (default: one per core)
  --dir DIR         where the nodes' directories are made (default: /dev/shm where it is large
                    enough, since a killed process loses nothing of any file system)
  --program FILE    the `quorlock` to test (default: built from these sources)
";

/// What the person who started it wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) is_thorough: bool,
    pub(crate) only: Vec<String>,
    pub(crate) is_list: bool,
    pub(crate) jobs: Option<usize>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) program: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments after the program's name; `None` if help was asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))
            };
            match name.as_str() {
                "--all" => options.is_thorough = true,
                "--list" => options.is_list = true,
                "--only" => options.only.push(value()?),
                "--dir" => options.folder = Some(value()?.into()),
                "--program" => options.program = Some(value()?.into()),
                "--jobs" => {
                    let jobs = value()?.parse().ok().filter(|jobs| *jobs > 0);
                    options.jobs = Some(jobs.ok_or("--jobs takes a number from 1 on")?);
                }
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("unknown option {name}\n\n{USAGE}")),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Option<Options>, String> {
        Options::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_mistakes_named() {
        let options = parse("--all --only kill --only slow/1 --jobs 3")
            .unwrap()
            .unwrap();
        assert!(options.is_thorough);
        assert_eq!(options.only, ["kill", "slow/1"]);
        assert_eq!(options.jobs, Some(3));
        assert_eq!(parse("--help"), Ok(None));
        for wrong in ["--jobs 0", "--jobs", "--onyl x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
