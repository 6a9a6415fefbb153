//! What must hold when a node is started again in another world.

use std::time::Duration;

use quorlock_testkit::{NodeProcess, eventually, observed_now, pause};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::Case;
use crate::world::{World, namespace};

pub(crate) const ALL: &[Case] = &[
    Case {
        name: "TIME is the machine's wall clock",
        is_plain: true,
        check: time_is_the_wall_clock,
    },
    Case {
        name: "same boot: time while down counts",
        is_plain: true,
        check: the_same_boot,
    },
    Case {
        name: "another boot id: time resumes",
        is_plain: false,
        check: another_boot_id,
    },
    Case {
        name: "a boot id that is none: time resumes, and the log says so",
        is_plain: false,
        check: no_boot_id,
    },
    Case {
        name: "a namespace a day ahead: time resumes",
        is_plain: false,
        check: a_day_ahead,
    },
    Case {
        name: "back in the machine's own namespace: time resumes",
        is_plain: false,
        check: back_again,
    },
    Case {
        name: "a namespace with the number of one that ended: time resumes",
        is_plain: false,
        check: the_same_number,
    },
    Case {
        name: "a namespace whose boot time went back: time resumes",
        is_plain: false,
        check: boot_time_back,
    },
    Case {
        name: "killed, another boot id: the whole delay",
        is_plain: false,
        check: killed_in_another_boot,
    },
    Case {
        name: "killed, another namespace: the whole delay",
        is_plain: false,
        check: killed_in_another_namespace,
    },
    Case {
        name: "always, killed: serves in the same boot, waits in another",
        is_plain: false,
        check: always,
    },
    Case {
        name: "a delay is carried in the same boot, and anew in another namespace and back",
        is_plain: false,
        check: carried,
    },
];

const LOW_CAP: &[&str] = &["--restart-delay-max", "5s"];
/// The delay of that cap, with 2 % and 10 ms.
const CAP_DELAY_MS: i64 = 5_110;

const OWN: World = World {
    boot_id: None,
    shift: None,
};
const BOOT_ID: &str = "11111111-2222-4333-8444-555555555555\n";
const DAY: u32 = 86_400;
/// How long a node stays down.
const DOWN: Duration = Duration::from_millis(2_000);
/// What a test may lose to a slow machine between asking twice: less than a node is down.
const SLACK_MS: i64 = 1_700;

/// A node and the folder of its world.
struct Stage {
    scratch: TempDir,
    node: NodeProcess,
}

impl Stage {
    /// A node that was started and stopped once in the machine's own world.
    fn new(directives: &[&str]) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary folder can be made");
        let mut node = NodeProcess::start(scratch.path(), "node", directives);
        node.stop();
        Self { scratch, node }
    }

    fn start(&mut self, world: World) {
        let words = world.words(self.scratch.path());
        self.node.start_again_by(&words);
    }

    fn ask(&self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        self.node.ask(&words).expect("the node answers")
    }

    fn pttl(&self, key: &str) -> i64 {
        let reply = self.ask(&format!("PTTL {key}"));
        let digits = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}"));
        digits.parse().expect("an integer reply")
    }

    /// What the node says is left of its restart delay; 0 if it serves locks.
    fn delay_ms(&self) -> i64 {
        let reply = self.ask("EXISTS a");
        let Some(fields) = reply.strip_prefix("-RESTARTDELAY ") else {
            assert!(reply.starts_with(':'), "{reply}");
            return 0;
        };
        let digits = fields.split(' ').next().unwrap_or_default();
        digits.parse().expect("a number of milliseconds")
    }

    /// Sets a lock in one world, stops the node, and says what is left of it in the next: less
    /// what was left before.
    fn change_of_ttl(&mut self, first: World, second: World) -> i64 {
        self.start(first);
        assert_eq!(self.ask("SET a token NX PX 60000"), "+OK");
        pause(Duration::from_millis(300));
        let before = self.pttl("a");
        self.node.stop();
        pause(DOWN);
        self.start(second);
        assert_eq!(self.delay_ms(), 0, "a clean stop is clean in any world");
        let after = self.pttl("a");
        assert!(after <= before, "{after} ms left of {before}");
        assert_eq!(self.ask("SET a other NX PX 1"), "nil");
        after - before
    }

    fn assert_resumes(&mut self, first: World, second: World) {
        let change = self.change_of_ttl(first, second);
        assert!(change > -SLACK_MS, "{} ms were taken away", -change);
    }

    /// Kills the node of one world after a grant, and waits out the delay in the next.
    fn assert_waits(&mut self, first: World, second: World) {
        self.start(first);
        assert_eq!(self.ask("SET a token NX PX 3000"), "+OK");
        self.node.kill();
        pause(DOWN);
        let started = observed_now();
        self.start(second);
        let left = self.delay_ms();
        // The machine went down: the cap counts, not the lock's 3 s.
        assert!((1..=CAP_DELAY_MS).contains(&left), "{left} ms");
        eventually("the delay ends", || self.delay_ms() == 0);
        let waited = observed_now() - started;
        assert!(waited >= Duration::from_millis(5_110), "{waited:?}");
    }
}

fn time_is_the_wall_clock() {
    let mut stage = Stage::new(&[]);
    for world in [OWN, OWN] {
        stage.start(world);
        let script = "local t = redis.call('TIME'); return t[1] * 1000 + math.floor(t[2] / 1000)";
        let reply = stage.node.ask(&["EVAL", script, "0"]);
        let reply = reply.expect("the node answers");
        let shown: i64 = reply[1..].parse().expect("an integer reply");
        let time = clock_gettime(ClockId::Realtime);
        let real = time.tv_sec * 1_000 + time.tv_nsec / 1_000_000;
        assert!((real - shown).abs() < SLACK_MS, "{shown} at {real}");
        stage.node.stop();
    }
}

fn the_same_boot() {
    let mut stage = Stage::new(&[]);
    let change = stage.change_of_ttl(OWN, OWN);
    let down_ms = i64::try_from(DOWN.as_millis()).expect("a short time");
    assert!(change <= -down_ms, "{change} ms, though it was down longer");
}

fn another_boot_id() {
    Stage::new(&[]).assert_resumes(OWN, World::booted(BOOT_ID));
}

fn no_boot_id() {
    let mut stage = Stage::new(&[]);
    stage.assert_resumes(World::booted("none\n"), World::booted("none\n"));
    let log = stage.node.log();
    assert!(log.contains("counts as one after a reboot"), "{log}");
}

fn a_day_ahead() {
    Stage::new(&[]).assert_resumes(OWN, World::shifted(DAY, DAY));
}

fn back_again() {
    Stage::new(&[]).assert_resumes(World::shifted(DAY, DAY), OWN);
}

fn the_same_number() {
    let mut stage = Stage::new(&[]);
    let worlds = [World::shifted(DAY, DAY), World::shifted(2 * DAY, 2 * DAY)];
    let numbers = worlds.map(|world| namespace(world, stage.scratch.path()));
    if numbers[0] != numbers[1] {
        eprintln!("note: this kernel gave two numbers, {numbers:?}");
    }
    stage.assert_resumes(worlds[0], worlds[1]);
}

fn boot_time_back() {
    let mut stage = Stage::new(&[]);
    stage.assert_resumes(World::shifted(DAY, 2 * DAY), World::shifted(DAY, DAY));
}

fn killed_in_another_boot() {
    Stage::new(LOW_CAP).assert_waits(OWN, World::booted(BOOT_ID));
}

fn killed_in_another_namespace() {
    let worlds = [World::shifted(DAY, DAY), World::shifted(2 * DAY, DAY)];
    Stage::new(LOW_CAP).assert_waits(worlds[0], worlds[1]);
    Stage::new(LOW_CAP).assert_waits(worlds[1], worlds[0]);
}

fn always() {
    let mut stage = Stage::new(&["--appendfsync", "always"]);
    stage.start(World::shifted(DAY, DAY));
    assert_eq!(stage.ask("SET a token NX PX 60000"), "+OK");
    let before = stage.pttl("a");
    stage.node.kill();
    pause(DOWN);
    stage.start(OWN);
    let left = stage.delay_ms();
    assert!(left > 60_000 - SLACK_MS, "{left} ms");
    stage.node.stop();

    let mut stage = Stage::new(&["--appendfsync", "always"]);
    stage.start(OWN);
    assert_eq!(stage.ask("SET a token NX PX 60000"), "+OK");
    stage.node.kill();
    pause(DOWN);
    stage.start(OWN);
    assert_eq!(stage.delay_ms(), 0);
    assert!(stage.pttl("a") < before - 1_000, "time went on");
}

fn carried() {
    let mut stage = Stage::new(&[]);
    stage.start(OWN);
    assert_eq!(stage.ask("SET a token NX PX 20000"), "+OK");
    stage.node.kill();
    stage.start(OWN);
    stage.node.kill();
    pause(DOWN);
    stage.start(OWN);
    let left = stage.delay_ms();
    assert!(
        left < 20_410 - 1_500,
        "the same end in the same boot: {left}"
    );
    for world in [World::shifted(DAY, DAY), OWN, World::booted(BOOT_ID)] {
        stage.node.stop();
        pause(DOWN);
        stage.start(world);
        let left = stage.delay_ms();
        assert!(left > 20_410 - SLACK_MS, "in full: {left} ms in {world:?}");
    }
}
