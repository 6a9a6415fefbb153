//! `quorlock run NAME NAME -- COMMAND`: several locks together, all or none.

use std::fs;

use crate::run::cluster;

#[test]
fn a_command_runs_with_all_of_its_locks_or_not_at_all() {
    let shell = cluster();
    let program = quorlock_testkit::binary::quorlock();
    let program = program.display();
    // Within it each of the locks is busy, alone and with others, and the others are free.
    let inner = format!(
        "printf %s \"$QUORLOCK_NAME\" | tr '\\n' '+'; echo
         for names in a b 'c b' c; do {program} run $names -n -- echo $names || echo $?; done"
    );
    fs::write(shell.file("inner.sh"), inner).unwrap();
    let ended = shell.quorlock(&["run", "b", "a", "b", "--", "sh", "inner.sh"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines, ["a+b", "75", "75", "75", "c"], "{}", ended.stdout);
    assert!(
        ended.stderr.contains("'b, c' is held by"),
        "{}",
        ended.stderr
    );
    // All are free again, and kept where that is asked for.
    let keep = ["run", "a", "b", "-n", "--hold-at-least", "1h", "--", "true"];
    assert_eq!(shell.quorlock(&keep).code, Some(0));
    for name in ["a", "b"] {
        let busy = shell.quorlock(&["run", name, "-n", "--", "true"]);
        assert_eq!(busy.code, Some(75), "{name}: {}", busy.stderr);
    }
}

#[test]
fn commands_that_name_their_locks_in_different_orders_all_run() {
    let shell = cluster();
    let mut running: Vec<_> = ["a b", "b a", "b c", "c a", "c b a"]
        .map(|names| {
            let words: Vec<&str> = ["run"].into_iter().chain(names.split(' ')).collect();
            let mut command = shell.command(&words);
            command.args(["--wait", "30s", "--", "true"]);
            command.spawn().unwrap()
        })
        .into();
    for child in &mut running {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn several_names_need_a_command_and_have_no_permits_and_no_fence() {
    let shell = cluster();
    let all: [(&[&str], &str); 4] = [
        (
            &["run", "a", "./job.sh", "--"],
            "the command to run stands after --",
        ),
        (
            &["run", "a", "b", "--permits", "2", "--", "true"],
            "--permits is of one name",
        ),
        (
            &["run", "a", "b", "--fence", "--", "true"],
            "no fence in common",
        ),
        (&["run", "a", "", "--", "true"], "a lock needs a name"),
    ];
    for (words, said) in all {
        let ended = shell.quorlock(words);
        assert_eq!(ended.code, Some(64), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
}
