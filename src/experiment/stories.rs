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
    title: &'static str,
    cell: &'static str,
    /// Whose nodes show it.
    product: Product,
    happens: &'static str,
    assumption: &'static str,
    node: &'static str,
}

/// Lists all stories.
pub(super) fn list(format: Format) -> ExitCode {
    let mut text = String::new();
    for story in STORIES {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "  {:<20} {}", story.name, story.title);
    }
    text.push_str("\nTell and replay one, in under ten seconds: quorlock experiment show NAME");
    let names: Vec<_> = STORIES.iter().map(|story| story.json()).collect();
    format.result(text, &names);
    ExitCode::SUCCESS
}

/// Tells a story, and replays it if that is wanted.
pub(super) fn show(name: &str, replays: bool, format: Format) -> Result<ExitCode, Failure> {
    let Some(story) = STORIES.iter().find(|story| story.name == name) else {
        let names: Vec<&str> = STORIES.iter().map(|story| story.name).collect();
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

    fn text(&self) -> String {
        format!(
            "{}\n\nWhat happens: {}\nWhat breaks: {}\nWhat a node does: {}\n\n\
             Replay: quorlock experiment crash-recovery {}--cell {}\n",
            self.title,
            self.happens,
            self.assumption,
            self.node,
            match self.product {
                Product::Quorlock => "",
                Product::RedisServer => "--server redis-server ",
            },
            self.cell
        )
    }

    fn json(&self) -> serde_json::Value {
        json!({"story": self.name, "title": self.title, "cell": self.cell})
    }
}

const STORIES: &[Story] = &[
    Story {
        name: "no-persistence",
        title: "A node without a log crashes and starts again at once",
        cell: "none/off/process-kill/5",
        product: Product::Quorlock,
        happens: "A holds a lock on nodes 1, 2 and 3 and is cut off from 4 and 5. Node 3 is killed\n\
                  and starts again, empty. B takes 3, 4 and 5. Both have a majority.",
        assumption: "Redlock counts on a node that has granted a lock to remember it for its ttl.",
        node: "It keeps control records even without a log, knows that it did not stop in an orderly\n\
               way, and grants nothing until the longest ttl it has granted is over.",
    },
    Story {
        name: "everysec-power-loss",
        title: "The power goes within the second that fsync everysec may lose",
        cell: "everysec/off/power-loss-one/5",
        product: Product::Quorlock,
        happens: "As in no-persistence, with a log. The power goes before the second's sync, and the\n\
                  lock's record with it. The node starts again and grants the lock once more.",
        assumption: "That a log makes locks durable: with everysec it does so a second later.",
        node: "With restart-delay auto it waits until everything it may have forgotten has expired;\n\
               see delayed-restart.",
    },
    Story {
        name: "no-power-loss",
        title: "The power goes while the kernel decides when to sync",
        cell: "no/off/power-loss-one/5",
        product: Product::Quorlock,
        happens: "As in everysec-power-loss, but everything since the start may be gone.",
        assumption: "That what was written is on the disk: it is in the page cache.",
        node: "It syncs what must survive in every mode (the bound of its ttls), and waits.",
    },
    Story {
        name: "delayed-restart",
        title: "The same power cut, and the node waits before it grants locks",
        cell: "everysec/auto/power-loss-one/5",
        product: Product::Quorlock,
        happens: "Node 3 has forgotten A's lock. It answers, but refuses locks with RESTARTDELAY until\n\
                  every lock it may have granted has expired. B gets the lock after A.",
        assumption: "None: this is the remedy of the Redlock page, enforced by the node itself.",
        node: "The delay is part of the log. It is as long as needed, and skipped only where the log\n\
               proves that nothing was lost.",
    },
    Story {
        name: "short-delay",
        title: "The node waits, but only half as long as needed",
        cell: "everysec/50%/power-loss-one/5",
        product: Product::Quorlock,
        happens: "An operator has set the delay by hand, shorter than the longest ttl. For the rest of\n\
                  A's ttl there are two holders.",
        assumption: "That somebody knows the longest ttl of all clients.",
        node: "With auto it bounds the ttl before it grants, and waits that long.",
    },
    Story {
        name: "always-power-loss",
        title: "fsync always on a disk that keeps what it acknowledged",
        cell: "always/trust-fsync/power-loss-one/5",
        product: Product::Quorlock,
        happens: "Every grant is on disk before A is told. Node 3 comes back with the lock and refuses B.",
        assumption: "That disk and hypervisor tell the truth about a sync (trust-fsync yes).",
        node: "It serves at once. Without trust-fsync it waits after a power cut all the same.",
    },
    Story {
        name: "process-kill",
        title: "kill -9 loses nothing, in any fsync mode",
        cell: "no/off/process-kill/5",
        product: Product::Quorlock,
        happens: "The process is killed. What it has written is in the kernel's page cache and is read\n\
                  back. Tests that only kill processes show no difference between fsync modes.",
        assumption: "That kill -9 is a crash like any other.",
        node: "It writes before it replies, so a killed process loses nothing that was acknowledged.",
    },
    Story {
        name: "lost-extension",
        title: "The power goes right after a lock was extended",
        cell: "everysec/off/extension-lost/5",
        product: Product::Quorlock,
        happens: "A's grant is on disk, its extension not yet. Node 3 comes back with the lock as it was\n\
                  before, which ends sooner. B takes it while A counts on the longer time.",
        assumption: "That a grant on disk is enough: an extension is a promise of its own.",
        node: "It logs extensions like grants, and waits for the longest ttl after a power cut.",
    },
    Story {
        name: "lost-release",
        title: "The power goes right after a lock was released",
        cell: "everysec/off/release-lost/5",
        product: Product::Quorlock,
        happens: "Three nodes come back with a lock that nobody holds any more. B waits until its ttl\n\
                  is over.",
        assumption: "None: a lost release costs time, never the lock.",
        node: "What is left of the ttl is counted on from the last record; nobody has to clean up.",
    },
    Story {
        name: "lowered-cap",
        title: "A node crashes, and starts with a lower restart-delay-max",
        cell: "everysec/auto/cap-lowered/5",
        product: Product::Quorlock,
        happens: "Locks of 1.5 s are out when the power goes. The operator starts the node with\n\
                  restart-delay-max 300ms.",
        assumption: "That the configuration of today bounds the promises of yesterday.",
        node: "The bound of its ttls is in the log, synced before the first lock that needs it; the\n\
               node waits for that one.",
    },
    Story {
        name: "changed-mode",
        title: "A node crashes, and starts with fsync always and trust-fsync",
        cell: "everysec/auto/mode-changed/5",
        product: Product::Quorlock,
        happens: "The node lost power in everysec. It is started with always and trust-fsync yes, which\n\
                  would let it serve at once.",
        assumption: "That the mode of this start says how the last one ended.",
        node: "The log says in which mode each of its records was written: it waits.",
    },
    Story {
        name: "majority-crash",
        title: "A majority of the nodes loses power at once",
        cell: "everysec/auto/power-loss-majority/5",
        product: Product::Quorlock,
        happens: "Three of five nodes come back and wait. Until then no lock is to be had: that is the\n\
                  price, and it is as long as the delay.",
        assumption: "That nodes fail one by one: one rack, one power supply, one kernel update.",
        node: "It says in INFO and in each refusal how long it still waits.",
    },
    Story {
        name: "clean-restart",
        title: "A node is stopped in an orderly way and starts again",
        cell: "everysec/auto/clean-restart/5",
        product: Product::Quorlock,
        happens: "SIGTERM. The node completes its log, says so in it, and starts again with every lock\n\
                  and without any delay.",
        assumption: "None.",
        node: "The last record of the log proves that nothing is missing behind it.",
    },
    Story {
        name: "client-pause",
        title: "The holder stands still for longer than its lease",
        cell: "always/auto/client-pause/5",
        product: Product::Quorlock,
        happens: "A reads a row of a database (SQLite) and is stopped, by a garbage collector or a\n\
                  scheduler. Its lease runs out, B takes the lock, reads and writes. A wakes up and\n\
                  writes over it: B's update is lost, and the database does not have it.",
        assumption: "That a client notices in time that its lock is over. No lock service can see to that.",
        node: "Nothing helps but a resource that refuses old holders: fencing tokens.",
    },
    Story {
        name: "wall-clock-step",
        title: "The wall clock of a node jumps by an hour",
        cell: "everysec/auto/wall-clock-step/5",
        product: Product::Quorlock,
        happens: "An administrator or a time daemon sets the clock. Redis expires keys by that clock,\n\
                  and would drop A's lock at once.",
        assumption: "That wall clocks do not jump.",
        node: "Deadlines are kept on the raw monotonic clock, which nobody can set.",
    },
    Story {
        name: "failover",
        title: "A primary fails, and its asynchronous replica is promoted (redis-server)",
        cell: "everysec/auto/failover/1",
        product: Product::RedisServer,
        happens: "A's lock is on the primary. Replication lags, the primary fails, the replica is\n\
                  promoted by hand without the lock. B takes it there.",
        assumption: "That a replica has what its primary has acknowledged.",
        node: "It has no replicas: five independent nodes and a majority take their place.",
    },
    Story {
        name: "redis-wall-clock",
        title: "The wall clock of one of five redis-servers jumps by an hour",
        cell: "everysec/auto/wall-clock-step/5",
        product: Product::RedisServer,
        happens: "A holds a lock on nodes 1, 2 and 3. The clock of node 3 is set, and its keys expire.\n\
                  B takes 3, 4 and 5. (libfaketime shows redis-server the other time.)",
        assumption: "That wall clocks do not jump.",
        node: "See wall-clock-step: its deadlines are on a clock that nobody can set.",
    },
    Story {
        name: "partition",
        title: "The holder is cut off from a minority of the nodes",
        cell: "everysec/auto/partition/5",
        product: Product::Quorlock,
        happens: "A holds its lock on all five nodes and loses the way to two of them. B reaches all of\n\
                  them and must wait: three still hold A's lock.",
        assumption: "None: that is what a majority is for.",
        node: "Nothing: two majorities of five nodes share one.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_can_be_replayed_and_told_in_ten_lines() {
        for story in STORIES {
            let cell = story.cell().expect(story.name);
            assert_eq!(cell.refusal(), None, "{}", story.name);
            let lines = story.text().trim_end().lines().count();
            assert!(lines <= 12, "{}: {lines} lines", story.name);
        }
    }
}
