//! The failure stories of the Redlock literature that a trial can show: what happens, which assumption breaks, what a
//! node does about it, and the cell that replays it.

use std::fmt::Write as _;
use std::process::ExitCode;

use quorlock_experiment::cell::Cell;
use serde_json::json;

use super::crash_recovery;
use super::tried::Product;
use crate::exit_code::Failure;
use crate::output::Format;

/// A story.
struct Story {
    name: &'static str,
    cell: &'static str,
    /// Whose nodes show it.
    product: Product,
    /// Its title, and below it what happens.
    told: &'static str,
}

fn stories() -> impl Iterator<Item = Story> {
    STORIES.split("\n\n\n").filter_map(|text| {
        let (heading, told) = text.split_once('\n')?;
        let mut words = heading.split(' ');
        Some(Story {
            name: words.next()?,
            cell: words.next()?,
            product: words
                .next()
                .map_or(Product::Quorlock, |_| Product::RedisServer),
            told,
        })
    })
}

/// Lists all stories.
pub(super) fn list(format: Format) -> ExitCode {
    let mut text = String::new();
    for story in stories() {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "  {:<20} {}", story.name, story.title());
    }
    text.push_str("\nTell and replay one, in under ten seconds: quorlock experiment show NAME");
    let names: Vec<_> = stories().map(|story| story.json()).collect();
    format.result(text, &names);
    ExitCode::SUCCESS
}

/// Tells a story, and replays it if that is wanted.
pub(super) fn show(name: &str, replays: bool, format: Format) -> Result<ExitCode, Failure> {
    let Some(story) = stories().find(|story| story.name == name) else {
        let names: Vec<&str> = stories().map(|story| story.name).collect();
        return Err(
            Failure::usage(format!("there is no story '{name}'; nothing was replayed"))
                .remedy(format!("choose one of: {}", names.join(", "))),
        );
    };
    format.result(story.text(), &story.json());
    match replays {
        true => crash_recovery::replay(story.product, story.cell()?, format),
        false => Ok(ExitCode::SUCCESS),
    }
}

impl Story {
    fn cell(&self) -> Result<Cell, Failure> {
        self.cell.parse().map_err(Failure::failed)
    }

    fn title(&self) -> &str {
        self.told.lines().next().unwrap_or_default()
    }

    fn text(&self) -> String {
        let server = match self.product {
            Product::Quorlock => "",
            Product::RedisServer => "--server redis-server ",
        };
        let (told, cell) = (self.told, self.cell);
        format!("{told}\n\nReplay: quorlock experiment crash-recovery {server}--cell {cell}\n")
    }

    fn json(&self) -> serde_json::Value {
        json!({"story": self.name, "title": self.title(), "cell": self.cell})
    }
}

/// Each story: its name, its cell and whose nodes show it, unless they are ours; its title; what happens. Two empty lines
/// stand between them.
const STORIES: &str = "\
no-persistence none/off/process-kill/5
A node without a log crashes and starts again at once

What happens: A holds a lock on nodes 1, 2 and 3 and is cut off from 4 and 5. Node 3 is killed
and starts again, empty. B takes 3, 4 and 5. Both have a majority.
What breaks: Redlock counts on a node that has granted a lock to remember it for its ttl.
What a node does: It keeps control records even without a log, knows that it did not stop in an orderly
way, and grants nothing until the longest ttl it has granted is over.


everysec-power-loss everysec/off/power-loss-one/5
The power goes within the second that fsync everysec may lose

What happens: As in no-persistence, with a log. The power goes before the second's sync, and the
lock's record with it. The node starts again and grants the lock once more.
What breaks: That a log makes locks durable: with everysec it does so a second later.
What a node does: With restart-delay auto it waits until everything it may have forgotten has expired;
see delayed-restart.


no-power-loss no/off/power-loss-one/5
The power goes while the kernel decides when to sync

What happens: As in everysec-power-loss, but everything since the start may be gone.
What breaks: That what was written is on the disk: it is in the page cache.
What a node does: It syncs what must survive in every mode (the bound of its ttls), and waits.


delayed-restart everysec/auto/power-loss-one/5
The same power cut, and the node waits before it grants locks

What happens: Node 3 has forgotten A's lock. It answers, but refuses locks with RESTARTDELAY until
every lock it may have granted has expired. B gets the lock after A.
What breaks: None: this is the remedy of the Redlock page, enforced by the node itself.
What a node does: The delay is part of the log. It is as long as needed, and skipped only where the log
proves that nothing was lost.


short-delay everysec/50%/power-loss-one/5
The node waits, but only half as long as needed

What happens: An operator has set the delay by hand, shorter than the longest ttl. For the rest of
A's ttl there are two holders.
What breaks: That somebody knows the longest ttl of all clients.
What a node does: With auto it bounds the ttl before it grants, and waits that long.


always-power-loss always/trust-fsync/power-loss-one/5
fsync always on a disk that keeps what it acknowledged

What happens: Every grant is on disk before A is told. Node 3 comes back with the lock and refuses B.
What breaks: That disk and hypervisor tell the truth about a sync (trust-fsync yes).
What a node does: It serves at once. Without trust-fsync it waits after a power cut all the same.


process-kill no/off/process-kill/5
kill -9 loses nothing, in any fsync mode

What happens: The process is killed. What it has written is in the kernel's page cache and is read
back. Tests that only kill processes show no difference between fsync modes.
What breaks: That kill -9 is a crash like any other.
What a node does: It writes before it replies, so a killed process loses nothing that was acknowledged.


lost-extension everysec/off/extension-lost/5
The power goes right after a lock was extended

What happens: A's grant is on disk, its extension not yet. Node 3 comes back with the lock as it was
before, which ends sooner. B takes it while A counts on the longer time.
What breaks: That a grant on disk is enough: an extension is a promise of its own.
What a node does: It logs extensions like grants, and waits for the longest ttl after a power cut.


lost-release everysec/off/release-lost/5
The power goes right after a lock was released

What happens: Three nodes come back with a lock that nobody holds any more. B waits until its ttl
is over.
What breaks: None: a lost release costs time, never the lock.
What a node does: What is left of the ttl is counted on from the last record; nobody has to clean up.


lowered-cap everysec/auto/cap-lowered/5
A node crashes, and starts with a lower restart-delay-max

What happens: Locks of 1.5 s are out when the power goes. The operator starts the node with
restart-delay-max 300ms.
What breaks: That the configuration of today bounds the promises of yesterday.
What a node does: The bound of its ttls is in the log, synced before the first lock that needs it; the
node waits for that one.


changed-mode everysec/auto/mode-changed/5
A node crashes, and starts with fsync always and trust-fsync

What happens: The node lost power in everysec. It is started with always and trust-fsync yes, which
would let it serve at once.
What breaks: That the mode of this start says how the last one ended.
What a node does: The log says in which mode each of its records was written: it waits.


majority-crash everysec/auto/power-loss-majority/5
A majority of the nodes loses power at once

What happens: Three of five nodes come back and wait. Until then no lock is to be had: that is the
price, and it is as long as the delay.
What breaks: That nodes fail one by one: one rack, one power supply, one kernel update.
What a node does: It says in INFO and in each refusal how long it still waits.


clean-restart everysec/auto/clean-restart/5
A node is stopped in an orderly way and starts again

What happens: SIGTERM. The node completes its log, says so in it, and starts again with every lock
and without any delay.
What breaks: None.
What a node does: The last record of the log proves that nothing is missing behind it.


client-pause always/auto/client-pause/5
The holder stands still for longer than its lease

What happens: A reads a row of a database (SQLite) and is stopped, by a garbage collector or a
scheduler. Its lease runs out, B takes the lock, reads and writes. A wakes up and
writes over it: B's update is lost, and the database does not have it.
What breaks: That a client notices in time that its lock is over. No lock service can see to that.
What a node does: Nothing helps but a resource that refuses old holders; see fenced-pause.


fenced-pause always/auto/client-pause/5/fences
The holder stands still for longer than its lease, and the database knows its fence

What happens: As in client-pause, but each lock comes with a fence, a number that grows from holder to
holder. B reads with fence 2. When A wakes up and writes with fence 1, the database refuses it,
and no update is missing.
What breaks: None: the database does not rely on what a client believes.
What a node does: It takes fences for a lock and never gives one twice, whatever it may have forgotten.


wall-clock-step everysec/auto/wall-clock-step/5
The wall clock of a node jumps by an hour

What happens: An administrator or a time daemon sets the clock. Redis expires keys by that clock,
and would drop A's lock at once.
What breaks: That wall clocks do not jump.
What a node does: Deadlines are kept on the raw monotonic clock, which nobody can set.


failover everysec/auto/failover/1 redis-server
A primary fails, and its asynchronous replica is promoted (redis-server)

What happens: A's lock is on the primary. Replication lags, the primary fails, the replica is
promoted by hand without the lock. B takes it there.
What breaks: That a replica has what its primary has acknowledged.
What a node does: It has no replicas: five independent nodes and a majority take their place.


redis-wall-clock everysec/auto/wall-clock-step/5 redis-server
The wall clock of one of five redis-servers jumps by an hour

What happens: A holds a lock on nodes 1, 2 and 3. The clock of node 3 is set, and its keys expire.
B takes 3, 4 and 5. (libfaketime shows redis-server the other time.)
What breaks: That wall clocks do not jump.
What a node does: See wall-clock-step: its deadlines are on a clock that nobody can set.


partition everysec/auto/partition/5
The holder is cut off from a minority of the nodes

What happens: A holds its lock on all five nodes and loses the way to two of them. B reaches all of
them and must wait: three still hold A's lock.
What breaks: None: that is what a majority is for.
What a node does: Nothing: two majorities of five nodes share one.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_can_be_replayed_and_told_in_ten_lines() {
        assert_eq!(stories().count(), 19);
        for story in stories() {
            let cell = story.cell().expect(story.name);
            assert_eq!(cell.refusal(), None, "{}", story.name);
            let lines = story.text().trim_end().lines().count();
            assert!(lines <= 12, "{}: {lines} lines", story.name);
        }
    }
}
