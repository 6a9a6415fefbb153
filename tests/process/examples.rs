//! The examples: each runs against nodes of its own, says what it should, and ends.

use std::process::Command;

use quorlock_testkit::binary;

/// What an example says; it must end well.
fn said_by(name: &str) -> Vec<String> {
    let mut command = Command::new(binary::example(name));
    let output = command.env_remove("QUORLOCK_NODES").output().unwrap();
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
