//! TICK: node time stays on record while a key with a TTL lives, and is put there once more after
//! the last has gone. Otherwise an idle hour would be given back to keys that had ended.

use std::time::Duration;

use quorlock_engine::control::kind::TICK;

use super::machine::{End, MODES, Machine, delay_left_ms, run, wire};

const START_NS: u64 = 1_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

fn ticks(frames: &[(u8, u64)]) -> Vec<u64> {
    let ticks = frames.iter().filter(|(kind, _)| *kind == TICK);
    ticks.map(|&(_, time)| time - START_NS).collect()
}

#[test]
fn time_is_on_record_while_a_key_lives_and_once_after_the_last() {
    run(async {
        for mode in MODES {
            let machine = Machine::new();
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET kept token"), "+OK", "no ttl, no tick");
            assert_eq!(client.ask("SET a token NX PX 2500"), "+OK");
            for seconds in [1, 2] {
                machine.advance_ms(1_000);
                machine.await_frames("a tick each second", |frames| {
                    ticks(frames).last() >= Some(&(seconds * SECOND_NS))
                });
            }
            machine.advance_ms(600);
            machine.await_frames("a tick after the last key", |frames| {
                ticks(frames).last() >= Some(&(2_600 * SECOND_NS / 1_000))
            });
            let count = ticks(&machine.frames()).len();
            assert!((3..=5).contains(&count), "{mode}: {count}");
            machine.advance_ms(3_600_000);
            assert_eq!(client.ask("GET a"), "nil");
            machine.end(node, End::Killed).await;
            assert_eq!(ticks(&machine.frames()).len(), count, "{mode}: and no more");
        }
    });
}

#[test]
fn an_idle_hour_is_not_given_back() {
    run(async {
        for mode in MODES {
            let machine = Machine::new();
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a token NX PX 90000"), "+OK");
            machine.advance_ms(90_001);
            machine.await_frames("a tick after the last key", |frames| {
                ticks(frames).last() >= Some(&(90 * SECOND_NS))
            });
            machine.advance_ms(3_600_000);
            machine.end(node, End::Killed).await;
            machine.clock.reboot(Duration::from_secs(3));
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            machine.advance_ms(delay_left_ms(&mut client));
            node.serving().await.unwrap();
            assert_eq!(client.ask("PTTL a"), ":-2", "{mode}");
        }
    });
}
