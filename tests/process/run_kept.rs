//! A lock that stays on the nodes when the work under `quorlock run` has ended: for a lock delay, or for the rest of its hold.

use quorlock_testkit::binary;

use crate::run::cluster;
use crate::shell::Shell;

/// Whether somebody else has it.
fn is_busy(shell: &Shell) -> bool {
    let other = shell.quorlock(&["run", "a", "-n", "--", "true"]);
    assert!(matches!(other.code, Some(0 | 75)), "{}", other.stderr);
    other.code == Some(75)
}

#[test]
fn a_lock_delay_keeps_others_out_after_a_loss_and_not_after_a_release() {
    let shell = cluster();
    let run = |more: &[&str]| {
        let words = [&["run", "a", "--lock-delay", "1h"], more].concat();
        let ended = shell.quorlock(&words);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        ended.code
    };
    assert_eq!(run(&["--", "sh", "-c", "exit 3"]), Some(3));
    assert!(!is_busy(&shell));
    // Asked to end before its longest time is over, while the lock is still valid.
    assert_eq!(
        run(&["--max-hold", "300ms", "--", "sleep", "9999"]),
        Some(70)
    );
    assert!(is_busy(&shell));
}

#[test]
fn a_lock_is_kept_for_its_hold_and_the_exit_code_is_the_commands() {
    let shell = cluster();
    let hold = ["run", "a", "--hold-at-least", "1h", "-v", "--ttl", "2s"];
    let ended = shell.quorlock(&[&hold[..], &["--", "sh", "-c", "exit 5"]].concat());
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let said = "\nquorlock: 'a' stays on the nodes for another 60 min";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let other = shell.quorlock(&["run", "a", "-w", "100ms", "--", "true"]);
    assert_eq!(other.code, Some(75));
    assert!(
        other.stderr.contains("60 min"),
        "more than a ttl: {}",
        other.stderr
    );
}

#[test]
fn what_was_held_for_long_enough_is_released() {
    let shell = cluster();
    let words = ["run", "a", "--hold-at-least", "10ms", "--", "sleep", "0.1"];
    let ended = shell.quorlock(&words);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert!(!is_busy(&shell));
}

#[test]
fn a_hold_that_no_majority_confirms_is_said_and_one_of_a_lost_lock_is_a_loss() {
    let shell = cluster();
    let program = binary::quorlock();
    let release = format!(
        "{} release a $QUORLOCK_TOKEN >release.out",
        program.display()
    );
    let hold = ["run", "a", "--hold-at-least", "1h", "--", "sh", "-c"];
    let ended = shell.quorlock(&[&hold[..], &[&release]].concat());
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("noticed only at its end"),
        "{}",
        ended.stderr
    );
    assert!(!is_busy(&shell));

    let kill = |node| format!("{} cluster kill {node} >kill.out", program.display());
    let kills = format!("{}; {}; exit 4", kill(1), kill(2));
    let ended = shell.quorlock(&[&hold[..], &[&kills]].concat());
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let said = "'a' may be free before --hold-at-least is over: not extended";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn times_that_no_node_could_keep_are_refused() {
    let shell = cluster();
    for (flag, time, said) in [
        ("--lock-delay", "365d", "together at most 365 days"),
        ("--lock-delay", "-1s", "negative"),
        ("--lock-delay", "366d", "the longest is 365d"),
        ("--hold-at-least", "0", "at least 1ms"),
        ("--hold-at-least", "999999d", "the longest is 365d"),
    ] {
        let ended = shell.quorlock(&["run", "a", flag, time, "--", "true"]);
        assert_eq!(ended.code, Some(64), "{flag} {time}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(said),
            "{flag} {time}: {}",
            ended.stderr
        );
    }
}

#[test]
fn permits_locks_with_fences_and_several_locks_are_kept_as_a_lock_is() {
    let shell = cluster();
    let kinds: [(&[&str], &[&str]); 3] = [
        (&["p", "--permits", "1"], &["p", "--permits", "1"]),
        (&["f", "--fence"], &["f"]),
        (&["s", "t"], &["t"]),
    ];
    for (words, other) in kinds {
        let run = |words: &[&str], more: &[&str]| {
            let ended = shell.quorlock(&[&["run"], words, more].concat());
            (ended.code, ended.stderr)
        };
        let prefixed = |prefix: &'static str| ["--prefix", prefix];
        let [held, lost, free] = ["held", "lost", "free"].map(prefixed);
        let hold = [&held[..], &["--hold-at-least", "1h", "--", "true"]].concat();
        assert_eq!(run(words, &hold), (Some(0), String::new()), "{words:?}");
        let delay = [
            &lost[..],
            &[
                "--lock-delay",
                "20s",
                "--max-hold",
                "300ms",
                "--",
                "sleep",
                "9999",
            ],
        ];
        assert_eq!(run(words, &delay.concat()).0, Some(70), "{words:?}");
        let once = [&free[..], &["--max-hold", "300ms", "--", "sleep", "9999"]].concat();
        assert_eq!(run(words, &once).0, Some(70), "{words:?}");
        for (prefix, wait, code) in [(held, "0", 75), (lost, "0", 75), (free, "5s", 0)] {
            let attempt = [&prefix[..], &["-w", wait, "--", "true"]].concat();
            let (ended, said) = run(other, &attempt);
            assert_eq!(ended, Some(code), "{other:?} {prefix:?}: {said}");
        }
    }
}
