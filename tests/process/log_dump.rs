//! `quorlock log dump` and `stats`: every frame on a line, in words and as JSON.

use std::process::Stdio;

use serde_json::Value;

use crate::log::Logged;

fn lines(logged: &Logged, words: &[&str]) -> Vec<Value> {
    let mut all = vec!["--json"];
    all.extend(words);
    let ended = logged.log("dump", &all);
    let refused = ended.stdout.contains("\"refused\"");
    let code = if refused { 2 } else { 0 };
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_frame_is_a_line_in_order() {
    let mut logged = Logged::running(&[]);
    logged
        .node
        .ask(&["HSET", "hash", "field", "value"])
        .unwrap();
    logged.node.ask(&["HDEL", "hash", "field"]).unwrap();
    logged.node.ask(&["DEL", "lock:1"]).unwrap();
    logged.node.stop();
    let all = lines(&logged, &[]);
    for (line, position) in all.iter().zip(1_u64..) {
        assert_eq!(line["position"].as_u64(), Some(position), "{line}");
    }
    let kinds: Vec<&str> = all
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..3], ["START", "PROMISE", "SERVING"]);
    assert_eq!(kinds.last(), Some(&"SHUTDOWN"));
    let grant = all
        .iter()
        .find(|line| line["changes"][0]["key"] == "lock:3")
        .unwrap();
    let change = &grant["changes"][0];
    assert_eq!(
        (&change["change"], &change["value"]),
        (&"replace".into(), &"token".into())
    );
    let ttl_ns = change["deadline_ns"].as_u64().unwrap() - grant["node_time_ns"].as_u64().unwrap();
    assert_eq!(ttl_ns, 30_000_000_000);

    let text = logged.log("dump", &[]).stdout;
    assert_eq!(text.lines().count(), all.len());
    for part in [
        "replace 0 \"lock:3\" string \"token\" ttl 30000 ms",
        "replace 0 \"hash\" hash of 1 fields no ttl",
        "delete 0 \"lock:1\"",
        "incarnation 1",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

/// Changes of elements, each with what it is about; of two of one key the second shows the key as well.
#[test]
fn changes_of_collections_are_told_in_words_and_as_json() {
    let mut logged = Logged::running(&[]);
    for line in [
        "RPUSH list a b",
        "RPUSH list c d",
        "LPOP list 2",
        "LSET list 0 x",
        "SADD set m",
        "SADD set n o",
        "ZADD scores 1 m",
        "ZADD scores -inf n",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        logged.node.ask(&words).unwrap();
    }
    logged.node.stop();
    let text = logged.log("dump", &[]).stdout;
    for part in [
        "replace 0 \"list\" list of 2 elements no ttl",
        "list-push-right 0 \"list\" \"c\"  list-push-right 0 \"list\" \"d\"",
        "list-pop-left 0 \"list\" count 2",
        "list-set 0 \"list\" index 0 \"x\"",
        "replace 0 \"set\" set of 1 members no ttl",
        "set-add 0 \"set\" member \"n\"  set-add 0 \"set\" member \"o\"",
        "replace 0 \"scores\" zset of 1 members no ttl",
        "score-set 0 \"scores\" member \"n\" score -inf",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let all = lines(&logged, &[]);
    let changes: Vec<&Value> = all
        .iter()
        .filter_map(|line| line["changes"].as_array())
        .flatten()
        .collect();
    let of = |word: &str| {
        let found = changes.iter().find(|change| change["change"] == word);
        found.unwrap_or_else(|| panic!("{word} in {changes:?}"))
    };
    assert_eq!(of("list-pop-left")["count"], 2);
    assert_eq!(of("list-set")["index"], 0);
    assert_eq!(of("list-set")["value"], "x");
    assert_eq!(of("set-add")["member"], "n");
    assert_eq!(of("score-set")["score"], "-inf");
}

#[test]
fn a_range_and_a_limit_choose_frames() {
    let logged = Logged::stopped();
    let positions = |words: &[&str]| -> Vec<u64> {
        let lines = lines(&logged, words);
        lines
            .iter()
            .map(|line| line["position"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(positions(&["--from", "3", "--to", "5"]), [3, 4, 5]);
    assert_eq!(positions(&["--limit", "2"]), [1, 2]);
    assert_eq!(positions(&["--from", "4", "--limit", "1"]), [4]);
    assert!(positions(&["--from", "100000"]).is_empty());
    let ended = logged.log("dump", &["--from", "5", "--to", "3"]);
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
}

#[test]
fn names_cannot_speak_to_the_terminal_and_tokens_are_cut() {
    let mut logged = Logged::running(&[]);
    let token = "0123456789abcdef0123456789abcdef";
    logged.node.ask(&["SET", "a\x1b[2Jb\n", token]).unwrap();
    logged.node.stop();
    for words in [&[][..], &["--json"]] {
        let ended = logged.log("dump", words);
        let is_safe = |c: char| c == '\n' || !c.is_control();
        assert!(ended.stdout.chars().all(is_safe), "{}", ended.stdout);
        assert!(ended.stdout.contains("[2Jb"), "{}", ended.stdout);
        assert!(!ended.stdout.contains(token), "{}", ended.stdout);
    }
}

#[test]
fn a_damaged_log_is_printed_as_far_as_it_goes() {
    let logged = Logged::killed();
    let (begin, end) = logged.frames(1)[5];
    logged.edit(1, |bytes| bytes[begin..end].fill(0));
    let all = lines(&logged, &[]);
    assert_eq!(
        all.len(),
        7,
        "five frames, where it breaks off, and what a start does"
    );
    let broken = &all[5]["broken"];
    assert_eq!(broken["offset"].as_u64(), Some(begin as u64), "{broken}");
    let refused = &all[6]["refused"];
    assert_eq!(refused["kind"], "durable-data-lost", "{refused}");
    assert_eq!(refused["offset"].as_u64(), Some(begin as u64), "{refused}");
    let ended = logged.log("dump", &[]);
    assert_eq!(ended.code, Some(2));
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.starts_with("-- a start refuses this log: "), "{last}");
}

#[test]
fn stats_of_a_log_that_a_start_refuses_say_so() {
    let logged = Logged::killed();
    let (begin, end) = logged.frames(1)[5];
    logged.edit(1, |bytes| bytes[begin..end].fill(0));
    let ended = logged.log("stats", &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    let said = format!("segment-0000000001.segment at offset {begin}");
    for part in ["a start refuses this log", &said, "frames by kind"] {
        assert!(ended.stdout.contains(part), "{part} in\n{}", ended.stdout);
    }
    assert!(
        !ended.stdout.contains("a start replays"),
        "{}",
        ended.stdout
    );
    let ended = logged.log("stats", &["--json"]);
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.json()["refused"]["kind"], "durable-data-lost");
}

#[test]
fn whoever_stops_reading_ends_the_dump() {
    let logged = Logged::stopped();
    let directory = logged.directory.to_str().unwrap();
    let mut command = logged.shell.command(&["log", "dump", directory]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(crate::shell::await_end(&mut child).success());
}

#[test]
fn stats_count_what_is_there() {
    let logged = Logged::stopped();
    let value = logged.log("stats", &["--json"]).json();
    let frames: u64 = value["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["frames"].as_u64().unwrap())
        .sum();
    assert_eq!(frames, lines(&logged, &[]).len() as u64, "{value}");
    assert_eq!(value["last_position"].as_u64(), Some(frames));
    assert_eq!(value["replayed_frames"].as_u64(), Some(frames));
    let group = &value["kinds"].as_array().unwrap()[0];
    assert_eq!(
        (&group["kind"], group["frames"].as_u64()),
        (&"GROUP".into(), Some(10))
    );
    assert!(value["live_bytes"].as_u64() < value["replayed_bytes"].as_u64());
    assert_eq!(value["ttl_bound_ns"].as_u64(), Some(30_000_000_000));
    assert_eq!(value["next_start"]["last_stop"], "clean stop");
    assert!(value["refused"].is_null(), "{value}");
    let text = logged.log("stats", &[]).stdout;
    for part in ["GROUP", "incarnation 1", "clean stop", "serves at once"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
