//! The processes that descend from the command, wherever they have gone.
//!
//! A process group can be left: coreutils `timeout`, shells with job control and daemons do. A
//! child subreaper keeps what they start in its own line: an orphan becomes its child instead of
//! init's. So every descendant is found by its parents, and none is signalled that is not one.
//! Not found is what somebody else starts on the command's behalf (a service manager, a container
//! daemon, `at`).

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid,
};

/// A process, as it was seen in the list of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// In ticks since the start of the machine: tells it from a later process of the same number.
    started: u64,
    name: String,
    has_ended: bool,
}

/// From now on orphaned descendants become children of this process.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The descendants of this process that have not ended.
pub(super) fn alive() -> io::Result<Vec<Process>> {
    let mut found = all()?;
    found.retain(|process| !process.has_ended);
    Ok(found)
}

/// Takes note of the end of adopted orphans, so that they do not stay in the list of processes.
/// The command itself is left alone: its number must not go to somebody else yet.
pub(super) fn reap_orphans(command: Pid) -> io::Result<()> {
    let own = getpid().as_raw_nonzero().get();
    for process in all()? {
        if process.has_ended && process.parent == own && process.pid != command {
            let _seen = waitid(
                WaitId::Pid(process.pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }
    Ok(())
}

/// Sends `signal` to all of them. Gives those that this process may not signal.
pub(super) fn signal(processes: &[Process], signal: Signal) -> Vec<Process> {
    let is_refused = |process: &&Process| process.signal(signal) == Err(Errno::PERM);
    processes.iter().filter(is_refused).cloned().collect()
}

impl Process {
    pub(super) fn is(&self, pid: Pid) -> bool {
        self.pid == pid
    }

    /// Whether it was among `others`, whoever its parent was then.
    pub(super) fn is_among(&self, others: &[Self]) -> bool {
        let is_same = |other: &Self| (other.pid, other.started) == (self.pid, self.started);
        others.iter().any(is_same)
    }

    pub(super) fn is_in_group(&self, group: Pid) -> bool {
        self.group == group.as_raw_nonzero().get()
    }

    fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let handle = pidfd_open(self.pid, PidfdFlags::empty())?;
        // The handle is for whoever has the number now. If that is the one that was seen, it stays
        // so for this handle, whatever becomes of the number.
        if read(self.pid).is_some_and(|now| now.started == self.started) {
            pidfd_send_signal(handle, signal)?;
        }
        Ok(())
    }
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.pid.as_raw_nonzero(), self.name)
    }
}

/// Names them for a message; of many, the first ones.
pub(super) fn list(processes: &[Process]) -> String {
    let shown: Vec<String> = processes
        .iter()
        .take(SHOWN_MAX)
        .map(Process::to_string)
        .collect();
    let more = processes.len().saturating_sub(SHOWN_MAX);
    match (shown.join(", "), more) {
        (shown, 0) => shown,
        (shown, more) => format!("{shown} and {more} more"),
    }
}

/// All descendants of this process, ended ones that nobody took note of included.
fn all() -> io::Result<Vec<Process>> {
    let mut by_parent: HashMap<i32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir(PROCESSES)? {
        let pid = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        // One that ends while the list is read is none.
        if let Some(process) = pid.and_then(Pid::from_raw).and_then(read) {
            by_parent.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = by_parent
        .remove(&getpid().as_raw_nonzero().get())
        .unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let children = by_parent.remove(&process.pid.as_raw_nonzero().get());
        found.extend(children.unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

fn read(pid: Pid) -> Option<Process> {
    let path = format!("{PROCESSES}/{}/stat", pid.as_raw_nonzero());
    parse(pid, &String::from_utf8_lossy(&fs::read(path).ok()?))
}

/// Reads a line of `/proc/PID/stat`: number, name in parentheses, and fields.
fn parse(pid: Pid, line: &str) -> Option<Process> {
    // The name may contain blanks and parentheses itself.
    let (name, fields) = line.rsplit_once(')')?;
    let name = name.split_once('(')?.1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(FIELD_STARTED)?.parse().ok()?,
        name: name.chars().filter(|c| !c.is_control()).collect(),
        has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
    })
}

const PROCESSES: &str = "/proc";
/// Counted from the state, which follows the name.
const FIELD_STARTED: usize = 19;
const SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_end_of_a_name() {
        let pid = Pid::from_raw(7).unwrap();
        let line = "7 (a) Z 1 (b) S 3 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 4711 99\n";
        let process = parse(pid, line).unwrap();
        assert_eq!(
            (
                process.name.as_str(),
                process.parent,
                process.started,
                process.has_ended
            ),
            ("a) Z 1 (b", 3, 4711, false)
        );
        assert_eq!(parse(pid, "7 (a) S 3"), None);
        assert_eq!(parse(pid, ""), None);
    }

    #[test]
    fn many_are_cut_short() {
        let pid = Pid::from_raw(7).unwrap();
        let line = "7 (a) S 3 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 4711 99";
        let process = parse(pid, line).unwrap();
        assert_eq!(list(std::slice::from_ref(&process)), "7 (a)");
        let many = list(&vec![process; SHOWN_MAX + 2]);
        assert!(many.ends_with("7 (a) and 2 more"), "{many}");
    }
}
