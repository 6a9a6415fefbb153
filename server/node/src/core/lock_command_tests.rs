//! Every LOCK command where it may be out of place: in a transaction, in a script, in the node's restart delay.

use super::lock_bench_tests::Bench;

/// A command, and whether a transaction and a script may have it. What takes a fence cannot be undone.
const COMMANDS: &[(&str, bool, bool)] = &[
    ("LOCK.ACQUIRE job t 1000", false, false),
    ("LOCK.ACQUIRE job t 1000 SHARED", false, false),
    ("LOCK.ACQUIRE job t 1000 GUESS 1", false, false),
    ("LOCK.ACQUIRE job t 1000 OWNER me", false, false),
    ("LOCK.EXTEND job t 1000", true, true),
    ("LOCK.RELEASE job t", true, true),
    ("LOCK.FENCE job t 1", false, false),
    ("LOCK.CEILING", true, false),
    ("LOCK.ADOPT 1", false, false),
    ("LOCK.WAIT job t", false, false),
    ("LOCK.UNWAIT job", false, false),
    ("LOCK.INFO job", true, false),
    ("LOCK.LIST", true, false),
    ("LOCK.FORCE-RELEASE job t", false, false),
    (SESSION, false, false),
];

/// It is an agent's: a node refuses it at any time.
const SESSION: &str = "LOCK.SESSION ON";

fn script(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    format!("EVAL return(redis.call({})) 0", words.join(","))
}

#[test]
fn each_lock_command_is_refused_where_it_is_out_of_place_and_nothing_happens() {
    let mut bench = Bench::new(&[("appendfsync", "no")]);
    let client = bench.client();
    let all = bench.run(client, "COMMAND LIST FILTERBY PATTERN lock.*");
    for name in all.split(' ').filter(|word| word.starts_with("lock.")) {
        let is_it = |line: &str| line.to_lowercase().split(' ').next() == Some(name);
        let has_row = COMMANDS.iter().any(|(line, ..)| is_it(line));
        assert!(has_row, "{name} needs a row");
    }
    assert!(all.contains("lock.acquire"), "{all}");
    for (line, in_transaction, in_script) in COMMANDS {
        assert_eq!(bench.run(client, "MULTI"), "+OK ");
        let queued = bench.run(client, line);
        let executed = bench.run(client, "EXEC");
        let (answer, result) = match in_transaction {
            true => ("+QUEUED ", "*1 "),
            false => (
                "-ERR Command not allowed inside a transaction ",
                "-EXECABORT ",
            ),
        };
        assert_eq!(queued, answer, "{line}");
        assert!(executed.starts_with(result), "{line}: {executed}");
        let reply = bench.run(client, &script(line));
        let is_refused = reply.starts_with("-ERR This Redis command is not allowed from script");
        assert_eq!(is_refused, !in_script, "{line}: {reply}");
        assert_eq!(bench.run(client, "EXISTS job"), ":0 ", "{line}");
        assert_eq!(bench.run(client, "LOCK.CEILING"), "*2 :0 :1 ", "{line}");
    }
    assert_eq!(bench.node.lock_report().unwrap().waiters, 0);
}

#[test]
fn each_lock_command_is_refused_in_a_restart_delay_alone_in_a_transaction_and_in_a_script() {
    let mut bench = Bench::new(&[("appendfsync", "no")]);
    let client = bench.client();
    let granted = bench.run(client, "LOCK.ACQUIRE job t 20000");
    assert!(granted.starts_with("*3 :1 "), "{granted}");
    let mut bench = bench.lose_power();
    let client = bench.client();
    for (line, ..) in COMMANDS.iter().filter(|(line, ..)| *line != SESSION) {
        for sent in [(*line).to_owned(), script(line)] {
            let reply = bench.run(client, &sent);
            assert!(reply.starts_with("-RESTARTDELAY "), "{sent}: {reply}");
        }
        assert_eq!(bench.run(client, "MULTI"), "+OK ");
        let queued = bench.run(client, line);
        assert!(queued.starts_with('-'), "{line}: {queued}");
        let executed = bench.run(client, "EXEC");
        assert!(executed.starts_with("-EXECABORT "), "{line}: {executed}");
    }
}
