//! `quorlock run --shared`: readers beside each other, and no writer beside them.

use std::fs;

use crate::run::cluster;

#[test]
fn readers_run_beside_each_other_and_a_writer_alone() {
    let shell = cluster();
    let program = quorlock_testkit::binary::quorlock();
    let program = program.display();
    let inner = format!(
        "{program} run a --shared -n -- echo reads; {program} run a -n -- echo writes || echo $?"
    );
    fs::write(shell.file("inner.sh"), inner).unwrap();
    let read = shell.quorlock(&["run", "a", "--shared", "--", "sh", "inner.sh"]);
    assert_eq!(read.code, Some(0), "{}", read.stderr);
    assert_eq!(read.stdout, "reads\n75\n", "{}", read.stderr);
    fs::write(
        shell.file("inner.sh"),
        format!("{program} run a --shared -n -- echo reads || echo $?"),
    )
    .unwrap();
    let write = shell.quorlock(&["run", "a", "--", "sh", "inner.sh"]);
    assert_eq!(write.code, Some(0), "{}", write.stderr);
    assert_eq!(write.stdout, "75\n", "{}", write.stderr);
}
