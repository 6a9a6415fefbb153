//! A wall clock that one process of another product is shown, by libfaketime, and that can be set while it runs.
//!
//! libfaketime comes before the C library and answers `gettimeofday` and its like; it reads the offset from a file. The
//! monotonic clocks stay as they are, so that timers go on as they would on a machine whose clock was set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock of one process.
#[derive(Clone, Debug)]
pub(super) struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// A clock that is right, kept in a file of this name.
    pub(super) fn new(library: &Path, file: &Path) -> io::Result<FakeClock> {
        let clock = FakeClock {
            library: library.to_owned(),
            // Servers change their directory.
            file: std::path::absolute(file)?,
        };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets it to so much from the true time.
    pub(super) fn step(&self, ms: i64) -> io::Result<()> {
        let (sign, ms) = (if ms < 0 { '-' } else { '+' }, ms.unsigned_abs());
        // Put in place as a whole: it is read all the time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000))?;
        fs::rename(new, &self.file)
    }

    /// Lets a process that is about to start see it.
    pub(super) fn show(&self, command: &mut Command) {
        // The C library's own allocator goes before jemalloc, which reads the clock while libfaketime begins and never
        // gets an answer (libfaketime issue 130).
        let mut libraries = self.library.clone().into_os_string();
        libraries.push(":libc.so.6");
        command
            .env("LD_PRELOAD", libraries)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Where libfaketime is, if it is on this machine.
    pub(super) fn library() -> Option<PathBuf> {
        let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(Path::new);
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        let folders = roots
            .iter()
            .flat_map(|root| [root.join(&triple), root.to_path_buf()]);
        let files = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
        files.into_iter().find(|file| file.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_written_as_libfaketime_reads_it() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("clock");
        let clock = FakeClock::new(Path::new("/lib.so"), &file).expect("it is made");
        let shown = || fs::read_to_string(&file).expect("it is there");
        assert_eq!(shown(), "+0.000\n");
        for (ms, text) in [(3_600_000, "+3600.000\n"), (-1_005, "-1.005\n")] {
            clock.step(ms).expect("it is set");
            assert_eq!(shown(), text);
        }
    }
}
