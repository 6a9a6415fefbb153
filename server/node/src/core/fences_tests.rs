//! Fences of a whole node: what it has told of is not taken again, whatever it went through.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_persistence::{Disk, MemoryDisk};

use crate::clock::SettableClock;
use crate::config::Config;
use crate::simulation::{Node, Setup};

/// A node on a disk that can lose power.
struct Machine {
    disk: MemoryDisk,
    clock: Arc<SettableClock>,
    setup: Setup,
    node: Option<Node>,
}

impl Machine {
    /// One that has served from its first start on.
    fn new(directives: &[(&str, &str)]) -> Self {
        let mut config = Config::default();
        for (name, value) in [&[("first-start", "serve")], directives].concat() {
            config.set(name, &[value]).unwrap();
        }
        let mut machine = Self {
            disk: MemoryDisk::with_power_loss(),
            clock: Arc::new(SettableClock::new()),
            setup: Setup::new(config),
            node: None,
        };
        machine.start();
        machine
    }

    /// Starts, and waits out the delay.
    fn start(&mut self) {
        self.begin_start();
        self.wait_out_delay();
    }

    /// Starts, perhaps into a restart delay.
    fn begin_start(&mut self) {
        let disk = Arc::new(self.disk.clone());
        let node = Node::start(disk, self.clock.clone(), &self.setup).unwrap();
        self.node = Some(node);
    }

    fn wait_out_delay(&mut self) {
        let node = self.node.as_mut().unwrap();
        if let Some(left) = node.delay_left().unwrap() {
            self.clock.advance(left);
            assert!(node.serve_if_due().unwrap());
        }
    }

    /// The log is removed, and the rest of the directory stays.
    fn lose_log(&mut self) {
        self.node = None;
        for entry in self.disk.list().unwrap() {
            if entry.name.ends_with(".segment") {
                self.disk.remove(&entry.name).unwrap();
            }
        }
    }

    /// Everything that was not synced is lost.
    fn lose_power(&mut self) {
        self.node = None;
        self.disk = self.disk.after_power_loss(false, |_, _| false);
        self.clock.reboot(Duration::from_secs(1));
        self.start();
    }

    fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = self.node.as_mut().unwrap().execute(&words);
        String::from_utf8(reply).unwrap().replace("\r\n", " ")
    }

    /// The fence of a name. Whoever asks takes it where it is free.
    fn fence_of(&mut self, name: &str) -> u64 {
        let reply = self.run(&format!("LOCK.ACQUIRE {name} other 1000"));
        let numbers: Vec<&str> = reply.split(' ').collect();
        let fence = numbers[2].strip_prefix(':').and_then(|it| it.parse().ok());
        fence.unwrap_or_else(|| panic!("{reply}"))
    }
}

/// On disks that keep what they acknowledge.
const MODES: [&[(&str, &str)]; 4] = [
    &[("trust-fsync", "yes"), ("appendonly", "no")],
    &[("trust-fsync", "yes"), ("appendfsync", "no")],
    &[("trust-fsync", "yes"), ("appendfsync", "everysec")],
    &[("trust-fsync", "yes"), ("appendfsync", "always")],
];

#[test]
fn a_fence_that_a_reply_told_of_is_not_taken_again_after_a_power_loss() {
    for mode in MODES {
        let mut machine = Machine::new(mode);
        for fence in [1, 2, 70_000] {
            assert_eq!(
                machine.run("LOCK.ACQUIRE job mine 1000").get(..6),
                Some("*3 :1 ")
            );
            assert_eq!(
                machine.run(&format!("LOCK.FENCE job mine {fence}")),
                format!("*2 :1 :{fence} ")
            );
            assert_eq!(machine.run("LOCK.RELEASE job mine"), ":1 ");
        }
        machine.lose_power();
        let fence = machine.fence_of("job");
        assert!(fence >= 70_000, "{mode:?}: {fence}");
        assert!(
            fence < 1 << 18,
            "{mode:?}: no more than it has to leave out: {fence}"
        );
    }
}

/// The guess of an acquisition is a fence as any other.
#[test]
fn a_guess_that_was_taken_survives_a_power_loss() {
    for mode in MODES {
        let mut machine = Machine::new(mode);
        assert_eq!(
            machine.run("LOCK.ACQUIRE job mine 1000 GUESS 9"),
            "*3 :1 :9 :1 "
        );
        machine.lose_power();
        let fence = machine.fence_of("job");
        assert!(fence >= 9, "{mode:?}: {fence}");
    }
}

#[test]
fn checkpoints_and_restarts_keep_the_ceiling() {
    for mode in MODES {
        let mut machine = Machine::new(mode);
        machine.run("LOCK.ACQUIRE job mine 1000");
        assert_eq!(machine.run("LOCK.FENCE job mine 5"), "*2 :1 :5 ");
        let node = machine.node.as_mut().unwrap();
        while node.compact().unwrap() {
            node.work_on_log().unwrap();
        }
        node.sync().unwrap();
        node.stop().unwrap();
        machine.start();
        let ceiling = machine.fence_of("job");
        assert!(ceiling >= 5, "{mode:?}: {ceiling}");
        machine.node.as_mut().unwrap().stop().unwrap();
        machine.start();
        let again = machine.fence_of("else");
        assert_eq!(
            again, ceiling,
            "{mode:?}: a restart without fences leaves none out"
        );
    }
}

#[test]
fn a_node_whose_log_is_gone_takes_no_fence_until_it_has_adopted_a_ceiling() {
    let mut machine = Machine::new(&[("trust-fsync", "yes")]);
    machine.run("LOCK.ACQUIRE job mine 1000");
    machine.run("LOCK.FENCE job mine 5");
    machine.lose_log();
    machine.start();
    for start_again in [false, true] {
        if start_again {
            machine.node.as_mut().unwrap().stop().unwrap();
            machine.start();
        }
        let reply = machine.run("LOCK.ACQUIRE job mine 1000");
        assert!(reply.starts_with("-FENCELOST "), "{reply}");
        assert_eq!(machine.run("SET plain mine NX PX 10"), "+OK ");
        machine.clock.advance(Duration::from_millis(10));
    }
    assert_eq!(machine.run("LOCK.ADOPT 80"), ":80 ");
    machine.lose_power();
    assert_eq!(machine.fence_of("job"), 80);
}

/// What it took before may still be on its way to the others: a ceiling that is asked for now is too early, here and there.
#[test]
fn in_its_restart_delay_a_node_tells_no_ceiling_adopts_none_and_takes_no_fence() {
    let mut machine = Machine::new(&[("trust-fsync", "yes")]);
    machine.run("LOCK.ACQUIRE job mine 1000");
    machine.run("LOCK.FENCE job mine 5");
    machine.lose_log();
    machine.begin_start();
    assert!(!machine.node.as_ref().unwrap().is_serving());
    for line in [
        "LOCK.CEILING",
        "LOCK.ADOPT 80",
        "LOCK.FENCE job mine 6",
        "LOCK.ACQUIRE job other 1000",
        "LOCK.ACQUIRE job other 1000 GUESS 7",
    ] {
        let reply = machine.run(line);
        assert!(reply.starts_with("-RESTARTDELAY "), "{line}: {reply}");
    }
    machine.wait_out_delay();
    // Nothing of that has had an effect.
    let ceiling = machine.run("LOCK.CEILING");
    assert!(ceiling.ends_with(" :0 "), "uncertain as before: {ceiling}");
    let reply = machine.run("LOCK.ACQUIRE job other 1000");
    assert!(reply.starts_with("-FENCELOST "), "{reply}");
    assert_eq!(machine.run("LOCK.ADOPT 80"), ":80 ");
    assert_eq!(machine.fence_of("job"), 80);
}

#[test]
fn a_node_whose_disk_is_not_trusted_says_after_a_power_loss_what_its_log_knows() {
    let mut machine = Machine::new(&[]);
    machine.run("LOCK.ACQUIRE job mine 1000");
    machine.run("LOCK.FENCE job mine 5");
    assert_eq!(machine.run("LOCK.CEILING"), "*2 :65541 :1 ");
    machine.lose_power();
    let reply = machine.run("LOCK.ACQUIRE job other 1000");
    assert!(reply.starts_with("-FENCELOST "), "{reply}");
    assert_eq!(machine.run("LOCK.CEILING"), "*2 :65541 :0 ");
    let info = machine.run("INFO restart");
    assert!(
        info.contains("fences_certain:0 fence_ceiling:65541"),
        "{info}"
    );
    assert_eq!(machine.run("LOCK.ADOPT 7"), ":65541 ");
    assert!(machine.run("INFO restart").contains("fences_certain:1"));
    assert_eq!(machine.fence_of("job"), 65_541);
}

/// Only what a reply told of has to be on record.
#[test]
fn a_reply_that_tells_of_a_fence_waits_for_the_sync_of_its_ceiling() {
    for mode in MODES {
        let mut machine = Machine::new(mode);
        machine.run("LOCK.ACQUIRE job mine 1000");
        let node = machine.node.as_mut().unwrap();
        node.sync().unwrap();
        let client = node.connect(usize::MAX, None);
        let request: [&[u8]; 4] = [b"LOCK.FENCE", b"job", b"mine", b"1"];
        node.send(client, &crate::simulation::request_bytes(&request));
        node.iterate(0);
        let is_synced = node.is_all_synced();
        let has_reply = !node.take_received(client).is_empty();
        assert!(
            is_synced || !has_reply,
            "{mode:?}: told before it is synced"
        );
    }
}
