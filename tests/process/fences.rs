//! Fences by the commands: `run --fence`, `acquire --fence` and `node sync`.

use std::fs;

use quorlock_testkit::{Wire, binary};

use crate::run::{addresses, cluster};
use crate::shell::await_end;

#[test]
fn of_twenty_at_once_each_has_a_fence_above_that_of_the_one_before() {
    let shell = cluster();
    let script = "echo $QUORLOCK_FENCE >> fences";
    let run = ["run", "a", "--fence", "--", "sh", "-c", script];
    let children: Vec<_> = (0..20)
        .map(|_| shell.command(&run).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(await_end(&mut child).success());
    }
    let fences = fs::read_to_string(shell.file("fences")).unwrap();
    let fences: Vec<u64> = fences.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(fences.len(), 20);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let text = shell.succeed(&["acquire", "a", "--fence"]);
    let (token, fence) = text.trim().split_once(' ').unwrap();
    assert!(fence.parse::<u64>().unwrap() > fences[19], "{text}");
    shell.succeed(&["release", "a", token]);
    let json = shell
        .quorlock(&["acquire", "a", "--fence", "--json"])
        .json();
    assert!(json["fence"].as_u64() > Some(fences[19]), "{json}");
    let export = shell.succeed(&["acquire", "b", "--fence", "--export"]);
    assert!(export.contains("export QUORLOCK_FENCE='1'"), "{export}");
    let plain = shell.succeed(&["run", "c", "--", "sh", "-c", "echo \"[$QUORLOCK_FENCE]\""]);
    assert_eq!(plain, "[]\n");
}

/// A resource would take it for the fence of the inner lock.
#[test]
fn a_lock_within_a_lock_that_has_a_fence_does_not_get_that_one() {
    let shell = cluster();
    let shows = "echo $QUORLOCK_NAME [$QUORLOCK_FENCE] [$QUORLOCK_PERMIT]";
    let script = format!(
        "{shows}; $q run b -- sh -c '{shows}'; $q run p --permits 1 -- $q run c -- sh -c '{shows}'
         eval \"$($q acquire d --export)\"; {shows}; eval \"$($q acquire e --fence --export)\"; {shows}"
    );
    fs::write(shell.file("inner.sh"), script).unwrap();
    let mut command = shell.command(&["run", "a", "--fence", "--", "sh", "inner.sh"]);
    let ended = command.env("q", binary::quorlock()).output().unwrap();
    let shown = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    let all = ["a [1] []", "b [] []", "c [] []", "d [] []", "e [1] []"];
    assert_eq!(lines, all, "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn nodes_are_told_what_the_others_took() {
    let shell = cluster();
    let synced = shell.succeed(&["node", "sync"]);
    let taking = synced
        .lines()
        .filter(|line| line.contains("takes fences; none above 0"));
    assert_eq!(taking.count(), 3, "{synced}");
    let away = "redis://127.0.0.1:1";
    let nodes = format!("{},{},{away}", addresses(&shell)[0], addresses(&shell)[1]);
    let ended = shell.quorlock(&["node", "sync", "--nodes", &nodes]);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stdout.contains("unreachable"), "{}", ended.stdout);
    let meaning = "2 of 3 nodes take fences; locks can have fences meanwhile";
    assert!(ended.stderr.contains(meaning), "{}", ended.stderr);
    // A node is one, under however many names.
    let address = &addresses(&shell)[0];
    let twin = address.replace("127.0.0.1", "localhost");
    let nodes = format!("{address},{},{twin}", addresses(&shell)[1]);
    let ended = shell.quorlock(&["node", "sync", "--json", "--nodes", &nodes]);
    assert_eq!(ended.code, Some(69), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("the same node as"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("\"taking\":2"), "{}", ended.stdout);
    let json = shell.quorlock(&["node", "sync", "--json"]).json();
    assert_eq!(json["taking"], 3, "{json}");
    assert_eq!(json["nodes"][0]["state"], "certain", "{json}");
    // What a node was told once is what it goes on above.
    for address in addresses(&shell) {
        assert_eq!(Wire::connect(&address).ask("LOCK.ADOPT 500"), ":500");
    }
    let text = shell.succeed(&["acquire", "a", "--fence"]);
    assert!(text.trim().ends_with(" 501"), "{text}");
}
