//! The examples: each runs against nodes of its own, says what it should, and ends.

use std::process::Command;

use quorlock_testkit::{NodeProcess, binary};

/// What an example says; it must end well.
fn said_by(name: &str) -> Vec<String> {
    let mut command = Command::new(binary::example(name));
    said_by_command(name, command.env_remove("QUORLOCK_NODES"))
}

fn said_by_command(name: &str, command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name}: {said}{errors}");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn leaders_resign_lose_the_lead_and_follow_each_other() {
    let said = said_by("leader_election");
    let lost = "ben has lost the leadership: fewer than a majority of the nodes hold it under this \
                token";
    // Who leads next may say so before the one who has lost the lead has noticed.
    for line in [
        "anna leads",
        "observed: anna leads",
        "anna resigns",
        "ben leads",
        lost,
        "observed: cleo leads",
        "cleo resigns",
    ] {
        assert!(said.iter().any(|other| other == line), "{line}: {said:?}");
    }
    assert_eq!(said.last().unwrap(), "everybody has led once");
}

#[test]
fn a_nightly_job_is_done_by_one_machine() {
    let said = said_by("nightly_job");
    assert_eq!(
        said,
        [
            "second: another machine does it",
            "first: the report has 12 pages",
        ]
    );
}

#[test]
fn an_order_is_paid_once() {
    let mut said = said_by("web_orders");
    said.sort();
    assert_eq!(
        said,
        [
            "order 17: paid",
            "order 17: was paid before",
            "order 18: paid",
            "order 19: paid",
        ]
    );
}

#[test]
fn a_late_write_is_refused_with_a_fence_and_loses_an_update_without() {
    let said = said_by("fenced_account");
    for line in [
        "without fences: 100 less 30 is 50, after a late write of 100 less 50",
        "first has the lock with the fence 1, and reads 100",
        "second writes 70",
        "first is refused: somebody has come with a larger fence",
        "with fences: 100 less 30 is 70, after a late write of 100 less 50",
    ] {
        assert!(said.iter().any(|other| other == line), "{line}: {said:?}");
    }
    // An attempt that comes too late on a busy machine has taken a fence as well.
    let fences = said.iter().filter_map(|line| {
        let rest = line.strip_prefix("second has the lock with the fence ")?;
        rest.strip_suffix(", and reads 100")?.parse::<u64>().ok()
    });
    assert!(fences.max() > Some(1), "{said:?}");
}

/// On other systems it is run by `tests/interop/engines` and `tests/interop/sentinel`.
#[test]
fn a_guard_on_one_server_excludes_rises_in_fences_wakes_and_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(folder.path(), "node", &[]);
    let mut command = Command::new(binary::example("other_system"));
    let said = said_by_command("other_system", command.env("QUORLOCK_NODES", node.url()));
    let [turns, fences, woken, lost] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(turns, "one holder at a time, of 8 callers");
    assert_eq!(fences, "fences rise");
    assert_eq!(woken, "who waits is woken");
    assert!(lost.starts_with("a loss is told: "), "{lost}");
}
