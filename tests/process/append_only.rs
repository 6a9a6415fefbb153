//! Append-only files as Redis writes them, and what imports and exports of them need.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorlock_testkit::NodeProcess;
use rustix::time::{ClockId, clock_gettime};

use crate::shell::{Ended, Shell};

/// A directory with what is to be imported, and the node that is made of it.
pub(crate) struct Imported {
    pub(crate) shell: Shell,
}

impl Imported {
    pub(crate) fn new() -> Self {
        let shell = Shell::in_memory();
        fs::create_dir_all(shell.file("redis/appendonlydir")).unwrap();
        Self { shell }
    }

    /// Writes a base and an increment, as bytes, with their manifest.
    pub(crate) fn with(base: &[u8], increment: &[u8]) -> Self {
        let imported = Self::new();
        imported.write("appendonly.aof.1.base.aof", base);
        imported.write("appendonly.aof.1.incr.aof", increment);
        imported.write("appendonly.aof.manifest", MANIFEST);
        imported
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.source().join("appendonlydir").join(name), bytes).unwrap();
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.shell.file("redis")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.shell.file("node")
    }

    pub(crate) fn import(&self, options: &[&str]) -> Ended {
        let (source, directory) = (self.source(), self.directory());
        let mut words = vec!["log", "import", source.to_str().unwrap()];
        words.push(directory.to_str().unwrap());
        words.extend(options);
        self.shell.quorlock(&words)
    }

    /// Imports, and starts the node without its restart delay.
    pub(crate) fn served(&self, options: &[&str]) -> NodeProcess {
        let ended = self.import(options);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        self.start(&["--restart-delay", "off"])
    }

    pub(crate) fn start(&self, directives: &[&str]) -> NodeProcess {
        NodeProcess::start_on(self.shell.path(), "node", directives)
    }

    /// Refused with exit code 2 and all of this, and nothing is left of the node.
    pub(crate) fn is_refused(&self, options: &[&str], said: &[&str]) {
        let ended = self.import(options);
        assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
        for part in said {
            let text = &ended.stderr;
            assert!(text.contains(part), "'{part}' is not said:\n{text}");
        }
        assert!(!self.directory().exists(), "nothing was made");
    }
}

/// Commands as Redis writes them.
pub(crate) fn commands(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(quorlock_testkit::request(&words));
    }
    bytes
}

/// Milliseconds since the epoch, that long from now.
pub(crate) fn in_future(time: Duration) -> u128 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = Duration::from_secs(now.tv_sec.try_into().unwrap());
    (seconds + time).as_millis()
}

/// What a node answers to a line of words.
pub(crate) fn ask(node: &NodeProcess, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    node.ask(&words).unwrap()
}

/// The files of an export.
pub(crate) fn exported(target: &Path) -> Vec<u8> {
    let folder = target.join("appendonlydir");
    let manifest = fs::read(folder.join("appendonly.aof.manifest")).unwrap();
    assert_eq!(manifest, MANIFEST);
    let increment = fs::read(folder.join("appendonly.aof.1.incr.aof")).unwrap();
    assert!(increment.is_empty());
    assert_eq!(fs::read_dir(target).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    fs::read(folder.join("appendonly.aof.1.base.aof")).unwrap()
}

const MANIFEST: &[u8] =
    b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
