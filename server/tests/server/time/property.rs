//! Random clocks, commands and restarts, judged by true time.
//!
//! `PROPTEST_CASES=2000 cargo test -p quorlock-server --test server time::property` runs longer. A failure
//! prints the shortest sequence that shows it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quorlock_engine::control::Boot;
use quorlock_server::Node;
use quorlock_server::clock::Clock;
use quorlock_testkit::Wire;

use super::machine::{End, Machine, delay_left_ms, number, run, wire};
use super::oracle::{DRIFT_PPM, Grant, Oracle};

#[derive(Clone, Debug)]
enum Step {
    Advance { ms: u64 },
    Acquire { key: u8, ttl_ms: u64 },
    AcquireUntil { key: u8, ttl_ms: u64 },
    Extend { key: u8, ttl_ms: u64 },
    Release { key: u8 },
    WaitOutDelay,
    Suspend { ms: u64 },
    Steer { ppm: i32 },
    Detune { ppm: i32 },
    WallStepped { us: i64 },
    Strobe { us: i64 },
    RawWentBack { ms: u32 },
    BoottimeWentBack { ms: u32 },
    Restart(Restart),
}

#[derive(Clone, Debug)]
struct Restart {
    end: Ending,
    down_ms: u64,
    clocks: Clocks,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Process(End),
    PowerLoss { seed: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Clocks {
    Same,
    Reboot { uptime_ms: u64 },
    Namespace { by_ms: i32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS;
    let ttl = prop_oneof![1..100_u64, 1_000..60_001_u64];
    let drift = i32::try_from(DRIFT_PPM).unwrap();
    let wall_us = prop_oneof![
        Just(1_000_000_i64),
        Just(-3_600_000_000),
        Just(315_576_000_000_000),
        Just(-315_576_000_000_000),
        any::<i32>().prop_map(i64::from),
    ];
    let step = prop_oneof![
        6 => prop_oneof![1..50_u64, 500..30_000_u64].prop_map(|ms| Step::Advance { ms }),
        6 => (key.clone(), ttl.clone()).prop_map(|(key, ttl_ms)| Step::Acquire { key, ttl_ms }),
        1 => (key.clone(), ttl.clone()).prop_map(|(key, ttl_ms)| Step::AcquireUntil { key, ttl_ms }),
        3 => (key.clone(), ttl).prop_map(|(key, ttl_ms)| Step::Extend { key, ttl_ms }),
        1 => key.prop_map(|key| Step::Release { key }),
        2 => Just(Step::WaitOutDelay),
        1 => (1..20_000_u64).prop_map(|ms| Step::Suspend { ms }),
        1 => prop_oneof![Just(83_333), Just(-83_333), Just(0)].prop_map(|ppm| Step::Steer { ppm }),
        1 => (-drift..=drift).prop_map(|ppm| Step::Detune { ppm }),
        2 => wall_us.clone().prop_map(|us| Step::WallStepped { us }),
        1 => prop_oneof![Just(0), wall_us].prop_map(|us| Step::Strobe { us }),
        1 => (1..20_000_u32).prop_map(|ms| Step::RawWentBack { ms }),
        1 => (1..20_000_u32).prop_map(|ms| Step::BoottimeWentBack { ms }),
        3 => restart().prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..30)
}

fn restart() -> impl Strategy<Value = Restart> {
    let end = prop_oneof![
        Just(Ending::Process(End::Stopped)),
        Just(Ending::Process(End::Killed)),
        any::<u64>().prop_map(|seed| Ending::PowerLoss { seed }),
    ];
    let reboot = prop_oneof![0..10_000_u64, 900_000..2_000_000_u64]
        .prop_map(|uptime_ms| Clocks::Reboot { uptime_ms });
    let namespace = (-2_000_000..2_000_000_i32).prop_map(|by_ms| Clocks::Namespace { by_ms });
    let clocks = prop_oneof![3 => Just(Clocks::Same), 2 => reboot, 1 => namespace];
    (end, 0..10_000_u64, clocks).prop_map(|(end, down_ms, clocks)| Restart {
        end,
        down_ms,
        clocks,
    })
}

/// A machine, its node, and what it has promised.
struct Run {
    mode: &'static str,
    machine: Machine,
    node: Option<Node>,
    oracle: Oracle,
    tokens: u32,
    boots: u8,
    /// A clock was set within this boot: the raw clock does not say exactly when a lock ends.
    is_odd: bool,
}

impl Run {
    async fn new(mode: &'static str, steps: &[Step]) -> Self {
        let loses_power = |step: &Step| matches!(step, Step::Restart(restart) if matches!(restart.end, Ending::PowerLoss { .. }));
        let machine = if steps.iter().any(loses_power) {
            Machine::with_power_loss()
        } else {
            Machine::new()
        };
        let node = machine.start_mode(mode).await;
        Self {
            mode,
            machine,
            node: Some(node),
            oracle: Oracle::default(),
            tokens: 0,
            boots: 0,
            is_odd: false,
        }
    }

    fn client(&self) -> Wire {
        wire(self.node.as_ref().unwrap())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let clock = self.machine.clock.clone();
        match *step {
            Step::Advance { ms } => self.machine.advance_ms(ms),
            Step::Acquire { key, ttl_ms } => self.acquire(key, ttl_ms, false)?,
            Step::AcquireUntil { key, ttl_ms } => {
                self.acquire(key, ttl_ms, true)?;
            }
            Step::Extend { key, ttl_ms } => self.extend(key, ttl_ms),
            Step::Release { key } => self.release(key),
            Step::WaitOutDelay => self.wait_out_delay().await?,
            Step::Suspend { ms } => clock.suspend(Duration::from_millis(ms)),
            Step::Steer { ppm } => clock.steer(ppm),
            Step::Detune { ppm } => clock.detune_raw(ppm),
            Step::WallStepped { us } => clock.step_wall(us),
            Step::Strobe { us } => clock.strobe_wall(us),
            Step::RawWentBack { ms } => {
                clock.step_raw(-i64::from(ms) * 1_000_000);
                self.clocks_are_odd();
            }
            Step::BoottimeWentBack { ms } => {
                // The next start takes it for another boot, and gives back the time between.
                clock.step_boottime(-i64::from(ms) * 1_000_000);
                self.clocks_are_odd();
            }
            Step::Restart(ref restart) => self.restart(restart).await,
        }
        Ok(())
    }

    /// For so long, or until so long after what TIME shows at that moment.
    fn acquire(&mut self, key: u8, ttl_ms: u64, is_until: bool) -> Result<(), String> {
        self.tokens += 1;
        let token = self.tokens;
        let (key_word, token_word) = (key.to_string(), token.to_string());
        let ttl_word = ttl_ms.to_string();
        let words = match is_until {
            true => vec!["EVAL", SET_UNTIL, "1", &key_word, &token_word, &ttl_word],
            false => vec!["SET", &key_word, &token_word, "NX", "PX", &ttl_word],
        };
        let reply = self.client().ask_words(&words);
        let now = self.machine.clock.true_time();
        if reply.starts_with("-ERR") {
            return Err(reply);
        }
        if reply != "+OK" {
            return Ok(());
        }
        if self.oracle.is_held(key, now) {
            let oracle = &self.oracle;
            return Err(format!("granted twice: {key} at {now:?}: {oracle:?}"));
        }
        let mut grant = self.grant(token, ttl_ms);
        if is_until {
            // The wall clock was read in whole milliseconds.
            grant.at_least = Duration::from_millis(ttl_ms - 1);
            grant.raw = None;
        }
        self.oracle.granted(key, grant);
        Ok(())
    }

    fn grant(&self, token: u32, ttl_ms: u64) -> Grant {
        let clock = &self.machine.clock;
        Grant {
            token,
            at_least: Duration::from_millis(ttl_ms),
            at_most: Duration::from_millis(ttl_ms),
            from: clock.true_time(),
            raw: (!self.is_odd).then(|| clock.raw()),
        }
    }

    fn extend(&mut self, key: u8, ttl_ms: u64) {
        let Some(token) = self.oracle.token(key) else {
            return;
        };
        let mut client = self.client();
        let is_holder = client.ask(&format!("GET {key}")) == token.to_string();
        if is_holder && client.ask(&format!("PEXPIRE {key} {ttl_ms}")) == ":1" {
            self.oracle.granted(key, self.grant(token, ttl_ms));
        }
    }

    fn release(&mut self, key: u8) {
        if self.client().ask(&format!("DEL {key}")) == ":1" {
            self.oracle.released(key);
        }
    }

    /// What the node says of every key, if it serves locks.
    fn look(&mut self) -> Result<(), String> {
        let mut client = self.client();
        let clock = &self.machine.clock;
        let (now, raw) = (clock.true_time(), clock.raw());
        for key in 0..KEYS {
            let pttl = client.ask(&format!("PTTL {key}"));
            if pttl.starts_with("-RESTARTDELAY") {
                return Ok(());
            }
            let token = client.ask(&format!("GET {key}")).parse().ok();
            let said = (token, number(&pttl));
            self.oracle.judge(key, said, now, raw)?;
        }
        Ok(())
    }

    fn clocks_are_odd(&mut self) {
        self.is_odd = true;
        self.oracle.raw_clock_changed();
    }

    /// A delay ends, and not long after it was due.
    async fn wait_out_delay(&mut self) -> Result<(), String> {
        let mut client = self.client();
        for _ in 0..100 {
            let left_ms = delay_left_ms(&mut client);
            if left_ms == 0 {
                let serving = self.node.as_ref().unwrap().serving();
                let outcome = tokio::time::timeout(Duration::from_secs(20), serving).await;
                let outcome =
                    outcome.map_err(|_| "a delay that is over does not end".to_owned())?;
                return outcome.map_err(|ended| ended.to_string());
            }
            // A raw clock that was set back has to catch up first.
            self.machine.advance_ms(left_ms + 1_000);
        }
        Err("a delay does not end".to_owned())
    }

    async fn restart(&mut self, restart: &Restart) {
        let node = self.node.take().unwrap();
        match restart.end {
            Ending::Process(end) => self.machine.end(node, end).await,
            Ending::PowerLoss { seed } => {
                let mut random = seed | 1;
                let survives = |_: &str, _: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random % 2 == 0
                };
                node.crash().await;
                self.machine.lose_power_except(true, survives);
            }
        }
        self.machine.advance_ms(restart.down_ms);
        self.change_clocks(restart);
        if self.is_odd || self.mode == "off" {
            self.oracle.raw_clock_changed();
        }
        self.node = Some(self.machine.start_mode(self.mode).await);
    }

    fn change_clocks(&mut self, restart: &Restart) {
        let clock = &self.machine.clock;
        match (restart.clocks, restart.end) {
            (Clocks::Same, Ending::Process(_)) => return,
            (Clocks::Same, Ending::PowerLoss { .. }) => {
                clock.reboot(Duration::from_millis(restart.down_ms));
            }
            (Clocks::Reboot { uptime_ms }, _) => clock.reboot(Duration::from_millis(uptime_ms)),
            (Clocks::Namespace { by_ms }, _) => {
                self.boots += 1;
                let by_ns = i64::from(by_ms) * 1_000_000;
                clock.enter_namespace(Boot([100 + self.boots; 16]), by_ns, by_ns);
            }
        }
        self.oracle.raw_clock_changed();
        self.is_odd = false;
    }
}

async fn live(mode: &'static str, steps: &[Step]) -> Result<u32, String> {
    let mut run = Run::new(mode, steps).await;
    for (number, step) in steps.iter().enumerate() {
        let outcome = run.step(step).await;
        let outcome = outcome.and_then(|()| run.look());
        outcome.map_err(|what| format!("step {number}, {step:?}: {what}"))?;
    }
    run.wait_out_delay().await?;
    run.look()?;
    Ok(run.oracle.checked)
}

#[test]
fn no_lock_ends_early_and_no_delay_is_too_short() {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let cases = config.cases;
    let checked = AtomicU32::new(0);
    let modes = prop::sample::select(vec!["always", "everysec", "no", "off"]);
    let outcome = TestRunner::new(config).run(&(modes, steps()), |(mode, steps)| {
        run(async {
            let outcome = live(mode, &steps).await;
            outcome.map(|count| checked.fetch_add(count, Ordering::Relaxed))
        })
        .map_err(TestCaseError::fail)?;
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let checked = checked.into_inner();
    assert!(checked > cases, "a test that looks at nothing: {checked}");
}

/// In one script, so that nothing comes between: after a suspend TIME may still show, for a millisecond, the time before it.
const SET_UNTIL: &str = "\
local now = redis.call('TIME')
local until_ms = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2]
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PXAT', string.format('%.0f', until_ms))";
/// Sequences in an ordinary run of the tests: a few seconds.
const CASES: u32 = 40;
const KEYS: u8 = 3;
