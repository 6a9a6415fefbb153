//! `quorlock locks`, `who`, `wait` and `force-release`: locks of every library, seen and ended over the quorum.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};

use quorlock_testkit::{Connection, NodeProcess, Process, Wire, eventually};
use serde_json::Value;

use crate::shell::{Ended, Shell};

/// Five nodes in memory.
pub(crate) fn five() -> Shell {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "5", "--base-port", "0", "--ephemeral"]);
    shell
}

/// The addresses of the nodes, without the scheme.
pub(crate) fn addresses(shell: &Shell) -> Vec<String> {
    let status = shell.quorlock(&["cluster", "status", "--json"]).json();
    let nodes = status["nodes"].as_array().unwrap().iter();
    let urls = nodes.map(|node| node["url"].as_str().unwrap().replace("redis://", ""));
    urls.collect()
}

/// Sends a command to the first of the nodes.
fn send(shell: &Shell, count: usize, words: &[&[u8]]) {
    for address in addresses(shell).iter().take(count) {
        let reply = Connection::open(address.as_str())
            .unwrap()
            .ask(words)
            .unwrap()
            .to_string();
        assert!(!reply.starts_with("-"), "{reply}");
    }
}

fn say(shell: &Shell, count: usize, words: &str) {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    send(shell, count, &words);
}

/// The lines of `locks --json`: the locks, and the line about all of them.
fn rows(ended: &Ended) -> (Vec<Value>, Value) {
    let lines = ended.stdout.lines();
    let mut rows: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let all = rows.pop().unwrap();
    (rows, all)
}

#[test]
fn locks_of_every_library_are_shown_with_their_votes_also_while_a_node_is_down() {
    let shell = five();
    say(&shell, 3, "SET lock:py tok123456789 NX PX 60000");
    say(&shell, 1, "SET lock:left gone NX PX 60000");
    say(&shell, 2, "SET lock:open gone NX PX 60000");
    say(&shell, 5, "HSET lock:redisson uuid:1 1");
    say(&shell, 5, "PEXPIRE lock:redisson 60000");
    say(
        &shell,
        5,
        "LOCK.ACQUIRE lock:shared reader-1 60000 SHARED OWNER rack-4",
    );
    say(&shell, 5, "LOCK.ACQUIRE lock:shared reader-2 60000 SHARED");
    let token = shell.succeed(&["acquire", "lock:ours", "--ttl", "1m"]);
    shell.succeed(&["cluster", "kill", "5"]);

    let ended = shell.quorlock(&["locks", "lock:*", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (locks, all) = rows(&ended);
    let row = |name: &str| {
        let row = locks.iter().find(|lock| lock["name"] == name);
        row.unwrap_or_else(|| panic!("{name}: {}", ended.stdout))
            .clone()
    };
    assert_eq!(
        (&all["locks"], &all["held"]),
        (&6.into(), &4.into()),
        "{all}"
    );
    assert_eq!(all["answered"], 4, "{all}");
    for (name, state, kind, votes) in [
        ("lock:py", "held", "string", 3),
        ("lock:left", "minority", "string", 1),
        // The node that is down may have the third vote.
        ("lock:open", "unknown", "string", 2),
        ("lock:redisson", "held", "hash", 4),
        ("lock:shared", "held", "shared", 4),
        ("lock:ours", "held", "string", 4),
    ] {
        let row = row(name);
        assert_eq!(
            (&row["state"], &row["kind"]),
            (&state.into(), &kind.into()),
            "{row}"
        );
        assert_eq!(row["votes"], votes, "{row}");
    }
    assert_eq!(row("lock:ours")["holders"][0]["token"], token.trim());
    assert_eq!(row("lock:redisson")["holders"][0]["token"], "uuid:1");
    assert_eq!(row("lock:shared")["holders"][0]["owner"], "rack-4");
    assert_eq!(row("lock:shared")["holders"].as_array().unwrap().len(), 2);
}

#[test]
fn the_table_shows_no_whole_token_and_names_a_node_that_is_down() {
    let shell = five();
    say(&shell, 3, "SET lock:py tok123456789 NX PX 60000");
    say(&shell, 1, "SET lock:left gone NX PX 60000");
    say(&shell, 5, "SET lock:stuck forever");
    shell.succeed(&["cluster", "kill", "5"]);
    let table = shell.quorlock(&["locks", "lock:*"]);
    assert_eq!(
        (table.code, &*table.stderr),
        (Some(0), ""),
        "cron has nothing to send"
    );
    let table = table.stdout;
    assert!(table.contains("  no answer: redis://"), "{table}");
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(
        line("lock:py ").contains("3/5") && line("lock:py ").contains("tok123..."),
        "{table}"
    );
    assert!(line("lock:left").contains("not held"), "{table}");
    assert!(
        !table.contains("tok123456789"),
        "a table shows no whole token: {table}"
    );
    let table = shell.succeed(&["locks", "lock:s*", "--all"]);
    assert!(
        table.contains("lock:stuck") && table.contains("no-ttl"),
        "{table}"
    );
    assert!(!table.contains("not shown"), "{table}");
    let hidden = shell.succeed(&["locks", "lock:s*"]);
    assert!(
        !hidden.contains("lock:stuck") && hidden.contains("not shown: 1 key without a ttl"),
        "{hidden}"
    );
}

#[test]
fn who_says_who_holds_a_lock_and_ends_with_a_code_for_scripts() {
    let shell = five();
    say(&shell, 3, "SET job t NX PX 60000");
    say(&shell, 2, "SET left t NX PX 60000");
    let who = shell.quorlock(&["who", "job"]);
    assert_eq!(who.code, Some(0), "{}", who.stderr);
    assert!(
        who.stdout.starts_with("'job' is held: 3 of 5 nodes say so"),
        "{}",
        who.stdout
    );
    let left = shell.quorlock(&["who", "left"]);
    assert_eq!(left.code, Some(1));
    assert!(
        left.stdout.starts_with("'left' is not held: 2 of 5"),
        "{}",
        left.stdout
    );
    assert_eq!(shell.quorlock(&["who", "nothing"]).code, Some(1));
    say(&shell, 5, "RPUSH list a");
    let no_lock = shell.quorlock(&["who", "list"]);
    assert_eq!(no_lock.code, Some(1));
    assert!(
        no_lock.stdout.starts_with("'list' is no lock:"),
        "{}",
        no_lock.stdout
    );
    let no_lock = shell.quorlock(&["who", "list", "--json"]);
    assert_eq!(no_lock.json()["state"], "not-a-lock");
    for node in ["1", "2", "3"] {
        shell.succeed(&["cluster", "kill", node]);
    }
    let unknown = shell.quorlock(&["who", "left", "--json"]);
    assert_eq!(unknown.code, Some(69), "{}", unknown.stdout);
    assert_eq!(unknown.json()["silent"].as_array().unwrap().len(), 3);
    let refused = shell.quorlock(&["who", ""]);
    assert_eq!(refused.code, Some(64));
}

#[test]
fn a_list_that_is_wrong_or_a_cluster_that_is_down_ends_at_once_with_the_remedy() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0", "--in-process"]);
    let first = addresses(&shell)[0].clone();
    for words in [
        &["locks"][..],
        &["who", "a"],
        &["wait", "a"],
        &["force-release", "a", "--yes"],
    ] {
        let wrong = shell.quorlock(&[words, &["--nodes", &first]].concat());
        assert_eq!(wrong.code, Some(69), "{words:?}");
        assert!(
            wrong.stderr.contains("its cluster has 3 nodes"),
            "{}",
            wrong.stderr
        );
    }
    shell.succeed(&["cluster", "down"]);
    for words in [
        &["locks"][..],
        &["who", "a"],
        &["wait", "a"],
        &["force-release", "a", "--yes"],
    ] {
        let down = shell.quorlock(words);
        assert_eq!(down.code, Some(69), "{words:?}");
        assert!(
            down.stderr.contains("quorlock cluster up"),
            "{}",
            down.stderr
        );
    }
}

#[test]
fn a_node_that_is_listed_twice_is_a_failure_of_locks_although_a_majority_answers() {
    let shell = five();
    say(&shell, 5, "SET job t NX PX 60000");
    let mut nodes = addresses(&shell);
    nodes[4] = nodes[0].clone();
    let ended = shell.quorlock(&["locks", "--nodes", &nodes.join(",")]);
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the same node as"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.contains("job"), "{}", ended.stdout);
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let shell = five();
    say(&shell, 5, "SET job t NX PX 60000");
    for words in [
        &["locks"][..],
        &["who", "job"],
        &["status"],
        &["doctor"],
        &["who", "job", "--json"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Ended::of(shell.command(words).stdout(full).output().unwrap());
        assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("cannot be written"),
            "{}",
            ended.stderr
        );
        // Who has read enough is no failure.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Ended::of(shell.command(words).stdout(writer).output().unwrap());
        assert!(!ended.stderr.contains("written"), "{}", ended.stderr);
    }
}

#[test]
fn names_with_control_characters_and_of_a_megabyte_reach_no_terminal_as_they_are() {
    let shell = five();
    let long = vec![b'\x07'; 1_000_000];
    for name in [&b"a\x1b[2J\r\n"[..], b"b\xff", &long] {
        send(&shell, 5, &[b"SET", name, b"t", b"PX", b"60000"]);
    }
    let table = shell.succeed(&["locks"]);
    assert!(table.len() < 2_000, "{} bytes", table.len());
    assert!(
        table.chars().all(|one| one == '\n' || !one.is_control()),
        "{table}"
    );
    assert!(
        table.contains("a\\u{1b}[2J\\r\\n ") && table.contains("(1000000 bytes)"),
        "{table}"
    );
    let (locks, _) = rows(&shell.quorlock(&["locks", "--json"]));
    assert_eq!(locks.len(), 3);
    assert!(locks.iter().any(|lock| lock["name"] == "a\u{1b}[2J\r\n"));
    assert!(locks.iter().any(|lock| lock["name_hex"] == "62ff"));
}

#[test]
fn more_locks_than_the_limit_are_said_to_be_there() {
    let shell = five();
    for address in addresses(&shell) {
        let mut wire = Wire::connect(address.as_str());
        for number in 0..300 {
            assert_eq!(wire.ask(&format!("SET lock:{number} t PX 60000")), "+OK");
        }
    }
    let all = shell.quorlock(&["locks"]);
    assert!(
        all.stdout.contains("300 locks, 300 held; 5 of 5"),
        "{}",
        all.stdout
    );
    assert!(all.stderr.is_empty(), "{}", all.stderr);
    let cut = shell.quorlock(&["locks", "--limit", "100", "--json"]);
    let (locks, about) = rows(&cut);
    assert_eq!((locks.len(), &about["complete"]), (100, &false.into()));
    assert!(
        locks.iter().all(|lock| lock["votes"] == 5),
        "each is looked at on all nodes"
    );
    assert!(
        cut.stderr.contains("there are more locks"),
        "{}",
        cut.stderr
    );
}

#[test]
fn a_lock_that_changed_hands_is_not_ended_by_force() {
    let shell = five();
    say(&shell, 5, "SET job new PX 60000");
    let late = shell.quorlock(&["force-release", "job", "--token", "old", "--yes"]);
    assert_eq!(late.code, Some(70), "{}", late.stderr);
    assert!(
        late.stderr.contains("not held under this token"),
        "{}",
        late.stderr
    );
    assert!(late.stderr.contains("token new"), "{}", late.stderr);
    assert_eq!(
        shell.quorlock(&["who", "job"]).code,
        Some(0),
        "the new holder keeps it"
    );

    let unasked = shell.quorlock(&["force-release", "job"]);
    assert_eq!(unasked.code, Some(64));
    assert!(
        unasked.stderr.contains("The holder is not stopped"),
        "{}",
        unasked.stderr
    );
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    assert_eq!(
        shell.quorlock(&["who", "job"]).code,
        Some(0),
        "nothing was released"
    );

    shell.succeed(&["cluster", "kill", "5"]);
    let ended = shell.quorlock(&["force-release", "job", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("released on 4 of 5 nodes"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("it ends by its ttl"),
        "{}",
        ended.stdout
    );
    let again = shell.quorlock(&["force-release", "job", "--yes", "--json"]);
    assert_eq!(again.json()["error"]["kind"], "not-held");
}

#[test]
fn of_several_readers_the_one_that_is_named_is_ended() {
    let shell = five();
    say(&shell, 5, "LOCK.ACQUIRE doc reader-1 60000 SHARED");
    say(&shell, 5, "LOCK.ACQUIRE doc reader-2 60000 SHARED");
    let which = shell.quorlock(&["force-release", "doc", "--yes"]);
    assert_eq!(which.code, Some(64), "{}", which.stderr);
    let said = which.stderr.contains("nothing was released") && which.stderr.contains("--token");
    assert!(said, "{}", which.stderr);
    shell.succeed(&["force-release", "doc", "--yes", "--token", "reader-2"]);
    let who = shell.quorlock(&["who", "doc", "--json"]).json();
    assert_eq!(who["holders"].as_array().unwrap().len(), 1, "{who}");
    assert_eq!(who["holders"][0]["token"], "reader-1");
    // All of them end one by one, and then a writer gets the lock.
    say(&shell, 5, "LOCK.ACQUIRE doc reader-3 60000 SHARED");
    let who = shell.quorlock(&["who", "doc", "--json"]).json();
    for holder in who["holders"].as_array().unwrap() {
        let token = holder["token"].as_str().unwrap();
        shell.succeed(&["force-release", "doc", "--yes", "--token", token]);
    }
    shell.succeed(&["acquire", "doc", "--ttl", "1m", "--no-wait"]);
}

#[test]
fn wait_ends_when_the_lock_is_free_and_takes_nothing() {
    let shell = five();
    say(&shell, 5, "SET job t PX 60000");
    let busy = shell.quorlock(&["wait", "job", "--wait", "100ms"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    let mut command = shell.command(&["wait", "job"]);
    let mut waiting = Process::start(&mut command, &shell.file("wait.out")).unwrap();
    waiting.await_line("'job' is held");
    say(&shell, 5, "DEL job");
    waiting.await_line("'job' is free");
    assert!(waiting.await_end().success());
    eventually("nobody took it", || {
        shell.quorlock(&["who", "job"]).code == Some(1)
    });
}

#[test]
fn a_wait_goes_on_when_the_node_that_it_asks_was_away() {
    let shell = Shell::new();
    let mut node = NodeProcess::start(shell.path(), "n1", &["--appendfsync", "always"]);
    eventually("the lock is taken", || {
        let taken = node.ask(&["SET", "job", "t", "PX", "600000"]);
        taken.is_ok_and(|reply| reply == "+OK")
    });
    let url = node.url();
    let mut command = shell.command(&["wait", "job", "--nodes", &url]);
    let mut waiting = Process::start(&mut command, &shell.file("wait.out")).unwrap();
    waiting.await_line("'job' is held");
    node.kill();
    node.start_again();
    eventually("the lock is released", || {
        let released = node.ask(&["DEL", "job"]);
        released.is_ok_and(|reply| reply == ":1")
    });
    waiting.await_line("'job' is free");
    assert!(waiting.await_end().success());
}

#[test]
fn words_of_other_tools_mean_what_they_mean_there() {
    let shell = five();
    let urls = addresses(&shell).join(",");
    let inner = shell.quorlock(&[
        "run",
        "job",
        "--endpoints",
        &urls,
        "sh",
        "-c",
        "echo $0 -n",
        "x",
    ]);
    assert_eq!(
        (inner.code, &*inner.stdout),
        (Some(0), "x -n\n"),
        "{}",
        inner.stderr
    );
    say(&shell, 5, "SET job t PX 60000");
    for words in [
        &["run", "--nonblock", "job", "true"][..],
        &["run", "--try", "job", "true"],
        &["run", "--fair", "--no-wait", "job", "true"],
        &["run", "--timeout", "50ms", "job", "true"],
    ] {
        let busy = shell.quorlock(words);
        assert_eq!(busy.code, Some(75), "{words:?}: {}", busy.stderr);
    }
    let fair = shell.quorlock(&["run", "--fair", "free", "true"]);
    assert_eq!((fair.code, &*fair.stderr), (Some(0), ""));
    for word in ["ls", "list"] {
        assert!(shell.succeed(&[word]).contains("1 lock, 1 held"), "{word}");
    }
    // A command with a -- of its own is not the one behind it.
    for command in [&["sh", "x", "--", "true"][..], &["env", "x", "--", "true"]] {
        let ended = shell.quorlock(&[&["run", "free"], command].concat());
        assert_eq!(ended.code, Some(64), "{command:?}: {}", ended.stderr);
        let remedy = format!("quorlock run free -- {} ...", command[0]);
        assert!(ended.stderr.contains(&remedy), "{}", ended.stderr);
    }
    let missing = shell.quorlock(&["run", "other", "second-name"]);
    assert_eq!(missing.code, Some(127), "{}", missing.stderr);
    assert_eq!(
        shell.quorlock(&["who", "other"]).code,
        Some(1),
        "nothing was taken"
    );
}

#[test]
fn watching_ends_with_its_reader() {
    let shell = five();
    say(&shell, 5, "SET job t PX 60000");
    let mut command = shell.command(&["locks", "--watch", "--json"]);
    let mut watching = command.spawn().unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(watching.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert!(first.contains("job"), "{first}");
    drop(output);
    eventually("it ends", || watching.try_wait().unwrap().is_some());
    assert!(watching.wait().unwrap().success());
}
