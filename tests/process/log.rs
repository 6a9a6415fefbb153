//! Nodes whose logs are looked at, and the bytes of those logs.

use std::fs;
use std::path::{Path, PathBuf};

use quorlock_testkit::{NodeProcess, eventually};
use serde_json::Value;

use crate::shell::{Ended, Shell};

/// A stopped or killed node's directory with the locks `lock:0` to `lock:9` on record.
pub(crate) struct Logged {
    pub(crate) shell: Shell,
    pub(crate) node: NodeProcess,
    pub(crate) directory: PathBuf,
}

impl Logged {
    /// A node that runs and has granted ten locks, each synced on its own.
    pub(crate) fn running(directives: &[&str]) -> Self {
        let shell = Shell::in_memory();
        let mut all = vec!["--appendfsync", "always"];
        all.extend(directives);
        let node = NodeProcess::start(shell.path(), "node", &all);
        for number in 0..10 {
            let key = format!("lock:{number}");
            let reply = node.ask(&["SET", &key, "token", "PX", "30000"]);
            assert_eq!(reply.unwrap(), "+OK");
        }
        let directory = shell.file("node");
        Self {
            shell,
            node,
            directory,
        }
    }

    pub(crate) fn stopped() -> Self {
        let mut logged = Self::running(&[]);
        logged.node.stop();
        logged
    }

    /// With a segment made ahead, the second one: that takes a quarter of the first.
    pub(crate) fn stopped_with_segment_ahead() -> Self {
        let mut logged = Self::running(&[]);
        let long = "x".repeat(300_000);
        let reply = logged.node.ask(&["SET", "long", &long, "PX", "30000"]);
        assert_eq!(reply.unwrap(), "+OK");
        // A stop does not wait for it.
        eventually("a segment is made ahead", || logged.segment(2).exists());
        logged.node.stop();
        logged
    }

    pub(crate) fn killed() -> Self {
        let mut logged = Self::running(&[]);
        logged.node.kill();
        logged
    }

    /// Runs `quorlock log` with these words and this directory.
    pub(crate) fn log(&self, action: &str, words: &[&str]) -> Ended {
        let directory = self.directory.to_str().unwrap();
        let mut all = vec!["log", action, directory];
        all.extend(words);
        self.shell.quorlock(&all)
    }

    /// `quorlock log check --json`, whose exit code is in the object as well.
    pub(crate) fn check(&self) -> Value {
        let ended = self.log("check", &["--json"]);
        let value = ended.json();
        assert_eq!(
            value["exit_code"].as_i64(),
            ended.code.map(i64::from),
            "{value}"
        );
        value
    }

    /// The path of a segment.
    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.directory.join(format!("segment-{number:010}.segment"))
    }

    /// Changes the content of a segment.
    pub(crate) fn edit(&self, number: u32, change: impl FnOnce(&mut Vec<u8>)) {
        edit(&self.segment(number), change);
    }

    /// Where the frames of a segment lie.
    pub(crate) fn frames(&self, number: u32) -> Vec<(usize, usize)> {
        frames(&fs::read(self.segment(number)).unwrap())
    }

    /// Tries to start a node on the directory, which must refuse. Returns what it said.
    pub(crate) fn refused_start(&self) -> String {
        let directory = self.directory.to_str().unwrap();
        let ended = self
            .shell
            .quorlock(&["server", "--port", "0", "--dir", directory]);
        assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
        format!("{}{}", ended.stdout, ended.stderr)
    }
}

/// Changes the content of a file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Begin and end of each frame of a segment, counted from the lengths in their heads.
pub(crate) fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut begin = 4096;
    while begin + 40 <= bytes.len() && bytes[begin..begin + 4] != [0; 4] {
        let length = u32::from_le_bytes(bytes[begin + 8..begin + 12].try_into().unwrap());
        let end = (begin + 40 + length as usize).next_multiple_of(8);
        found.push((begin, end));
        begin = end;
    }
    found
}
