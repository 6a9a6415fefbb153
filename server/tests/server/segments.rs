//! Clients that write more quickly than segments of the log are made: they wait, and none hears of a full disk.

use quorlock_testkit::{Wire, request};

use crate::machine::{Machine, run, wire};

/// 50 clients that wrote 3 MB each were told of a full disk, with 71 GB of it free.
#[test]
fn clients_that_outrun_the_making_of_segments_wait_whatever_they_send() {
    for mode in ["always", "everysec", "no"] {
        run(async move {
            let machine = Machine::new();
            let node = machine.start_in(mode).await;
            let mut clients: Vec<Wire> = (0..18).map(|_| wire(&node)).collect();
            for _ in 0..3 {
                for (number, client) in clients.iter_mut().enumerate() {
                    client.send(&large(number));
                }
                for (number, client) in clients.iter_mut().enumerate() {
                    for _ in 0..replies(number) {
                        let reply = client.reply();
                        assert!(!reply.starts_with('-'), "{mode} {number}: {reply:.200}");
                        assert!(!reply.contains("MISCONF"), "{mode} {number}: {reply:.200}");
                    }
                }
            }
            assert_eq!(clients[0].ask("DBSIZE"), ":18", "{mode}");
        });
    }
}

/// Three million bytes to be logged: by SET, in MULTI, by a script, in a pipeline, by RENAME, by HSET.
fn large(number: usize) -> Vec<u8> {
    let key = format!("key{number}");
    let value = "x".repeat(3_000_000);
    match number % 6 {
        0 => request(&["SET", &key, &value]),
        1 => [
            request(&["MULTI"]),
            request(&["SET", &key, &value]),
            request(&["INCRBY", "none", "0"]),
            request(&["DEL", "none"]),
            request(&["EXEC"]),
        ]
        .concat(),
        2 => {
            let script = "return redis.call('set', KEYS[1], ('x'):rep(3000000))";
            request(&["EVAL", script, "1", &key])
        }
        3 => request(&["SET", &key, &value[..900_000]]).repeat(3),
        4 => [
            request(&["SET", &format!("old {number}"), &value]),
            request(&["RENAME", &format!("old {number}"), &key]),
        ]
        .concat(),
        _ => request(&["HSET", &key, "field", &value]),
    }
}

fn replies(number: usize) -> usize {
    [1, 5, 1, 3, 2, 1][number % 6]
}
