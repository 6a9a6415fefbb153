//! The world a node is started in: its boot id and its time namespace.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What the kernel shows a process. Offsets are those of a time namespace of its own; without
/// any, and without a boot id, it is the machine's own world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct World {
    pub(crate) boot_id: Option<&'static str>,
    pub(crate) shift: Option<Shift>,
}

/// How far a time namespace is ahead of the machine, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    /// `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
    pub(crate) monotonic: u32,
    /// `CLOCK_BOOTTIME`.
    pub(crate) boottime: u32,
}

impl World {
    pub(crate) fn booted(boot_id: &'static str) -> Self {
        Self {
            boot_id: Some(boot_id),
            shift: None,
        }
    }

    pub(crate) fn shifted(monotonic: u32, boottime: u32) -> Self {
        Self {
            boot_id: None,
            shift: Some(Shift {
                monotonic,
                boottime,
            }),
        }
    }

    /// The words that start a program in this world; its own words follow. `scratch` holds the
    /// file that is shown as the boot id.
    pub(crate) fn words(&self, scratch: &Path) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if self.boot_id.is_none() && self.shift.is_none() {
            return words;
        }
        words.push("unshare".to_owned());
        if let Some(shift) = self.shift {
            words.push("--time".to_owned());
            words.push(format!("--monotonic={}", shift.monotonic));
            words.push(format!("--boottime={}", shift.boottime));
        }
        if let Some(boot_id) = self.boot_id {
            let file = scratch.join("boot_id");
            fs::write(&file, boot_id).expect("a file can be written");
            let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
            words.extend(["--mount", "sh", "-c", script].map(str::to_owned));
            words.push(file.display().to_string());
        }
        words
    }
}

/// The number of the time namespace that a program started in this world is in.
pub(crate) fn namespace(world: World, scratch: &Path) -> String {
    let words = world.words(scratch);
    let (program, rest) = words.split_first().expect("a world of its own");
    let output = Command::new(program)
        .args(rest)
        .args(["readlink", "/proc/self/ns/time"])
        .output()
        .expect("unshare can be started");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What this machine lacks for such worlds.
pub(crate) fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root: namespaces of its own");
    }
    let scratch = tempfile::tempdir().expect("a temporary folder can be made");
    let hidden = "00000000-0000-4000-8000-000000000000\n";
    let world = World {
        boot_id: Some(hidden),
        ..World::shifted(0, AHEAD)
    };
    let words = world.words(scratch.path());
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["cat", "/proc/sys/kernel/random/boot_id", "/proc/uptime"])
        .output();
    let Ok(output) = output else {
        return Some("needs unshare of util-linux 2.36 or newer");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let uptime = text
        .strip_prefix(hidden)
        .and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    if uptime.is_some_and(|uptime| uptime >= AHEAD) {
        None
    } else {
        Some("needs bind mounts over /proc, and time namespaces that a program enters with exec")
    }
}

const AHEAD: u32 = 100_000_000;
