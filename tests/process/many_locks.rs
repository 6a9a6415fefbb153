//! More locks, keys and readers than a table shows: what `locks`, `who` and `force-release` do with them.

use quorlock_testkit::{Connection, request};
use serde_json::Value;

use crate::locks::{addresses, five};
use crate::shell::{Ended, Shell};

/// Sends so many commands to each of the nodes, one behind the other without waiting for their replies.
fn send_all(shell: &Shell, count: usize, words: impl Fn(usize) -> Vec<String>) {
    for address in addresses(shell) {
        let mut connection = Connection::open(address.as_str()).unwrap();
        for first in (0..count).step_by(PIPELINE) {
            let numbers = first..count.min(first + PIPELINE);
            let requests: Vec<u8> = numbers
                .clone()
                .flat_map(|number| request(&words(number)))
                .collect();
            connection.send(&requests).unwrap();
            for number in numbers {
                let reply = connection.reply().unwrap().to_string();
                assert!(!reply.starts_with('-'), "{number}: {reply}");
            }
        }
    }
}

fn words(text: String) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

const PIPELINE: usize = 500;

/// Nodes name 1,000 readers, those with the least tokens.
#[test]
fn a_reader_whom_no_node_names_is_ended_by_force_all_the_same() {
    let shell = five();
    let acquire = |number| format!("LOCK.ACQUIRE doc reader-{number:04} 60000 SHARED");
    send_all(&shell, 1_100, |number| words(acquire(number)));
    let force = |token: &str| {
        let words = ["force-release", "doc", "--yes", "--token", token, "--json"];
        shell.quorlock(&words)
    };
    let ended = force("reader-1099");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = ended.json();
    assert_eq!(ended["freed"], 5);
    assert_eq!(ended["stay"], 1_099);
    let again = force("reader-1099");
    assert_eq!(again.code, Some(70), "{}", again.stderr);
    let who = shell.quorlock(&["who", "doc", "--json"]).json();
    assert_eq!(who["holder_count"], 1_099, "no other has gone");
    let shown = force("reader-0000").json();
    assert_eq!(shown["stay"], 1_098);
    let said = shell.quorlock(&["force-release", "doc", "--yes", "--token", "reader-1098"]);
    assert!(
        said.stdout.contains("1097 other readers hold it still"),
        "{}",
        said.stdout
    );
}

/// Both the pages of LOCK.LIST, where most keys are no locks, and the names of more locks than are shown by default.
#[test]
fn ten_thousand_locks_among_many_other_keys_are_all_counted() {
    let shell = five();
    send_all(&shell, 20_000, |number| {
        words(format!("SET cached:{number} value"))
    });
    send_all(&shell, 10_000, |number| {
        words(format!("SET lock:{number:05} token-{number} NX PX 600000"))
    });
    let last = |ended: &Ended| -> Value {
        let line = ended.stdout.lines().last().unwrap();
        serde_json::from_str(line).unwrap()
    };
    let all = shell.quorlock(&["locks", "--json"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    assert_eq!(all.stdout.lines().count(), 10_001);
    let counts = last(&all);
    assert_eq!(counts["locks"], 10_000);
    assert_eq!(counts["held"], 10_000);
    assert_eq!(counts["complete"], true);
    assert_eq!(counts["without_ttl"], 20_000);
    let some = shell.quorlock(&["locks", "lock:0000*", "--json"]);
    assert_eq!(last(&some)["locks"], 10);
    let cut = shell.quorlock(&["locks", "--all", "--limit", "50", "--json"]);
    assert_eq!(last(&cut)["complete"], false);
    assert!(
        cut.stderr.contains("there are more locks"),
        "{}",
        cut.stderr
    );
}
