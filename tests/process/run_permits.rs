//! `quorlock run --permits`: as many commands at once as there are permits.

use std::fs;

use crate::run::cluster;

#[test]
fn each_command_sees_a_permit_of_its_own_and_one_too_many_is_busy() {
    let shell = cluster();
    let program = quorlock_testkit::binary::quorlock();
    let program = program.display();
    let permit = "echo $QUORLOCK_PERMIT $QUORLOCK_NAME";
    // The lock of the same name is another one.
    let second = format!(
        "{permit}; {program} run a --permits 2 -n -- echo third || echo $?; {program} run a -n -- echo lock"
    );
    fs::write(shell.file("second.sh"), second).unwrap();
    let script = format!("{permit}; {program} run a --permits 2 -n -- sh second.sh");
    let ended = shell.quorlock(&["run", "a", "--permits", "2", "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let mut seen = [lines[0], lines[1]];
    seen.sort_unstable();
    assert_eq!(seen, ["0 a:permit:0", "1 a:permit:1"], "{}", ended.stdout);
    assert_eq!(lines[2..], ["75", "lock"], "{}", ended.stdout);
    assert!(ended.stderr.contains("'a' is held by"), "{}", ended.stderr);
    // All are free again, and what is printed for a shell has the permit.
    let held = shell.quorlock(&["run", "a", "--permits", "1", "-n", "--max-hold", "300ms"]);
    assert_eq!(held.code, Some(70), "{}", held.stderr);
    assert!(
        held.stdout.contains("export QUORLOCK_PERMIT='0'"),
        "{}",
        held.stdout
    );
    assert!(
        held.stdout.contains("export QUORLOCK_NAME='a:permit:0'"),
        "{}",
        held.stdout
    );
}

#[test]
fn numbers_of_permits_that_cannot_be_are_wrong_usage() {
    let shell = cluster();
    for count in ["0", "1025", "-1", "many"] {
        let permits = format!("--permits={count}");
        let ended = shell.quorlock(&["run", "a", &permits, "--", "true"]);
        assert_eq!(ended.code, Some(64), "{count}: {}", ended.stderr);
        assert!(ended.stderr.contains("--permits"), "{}", ended.stderr);
    }
}
