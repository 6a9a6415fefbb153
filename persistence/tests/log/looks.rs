//! Segments before the one that is written: a running log notices when one of them is gone or has another length.

use crate::small_log::*;
use quorlock_persistence::{FrameKind, Log, WriteError};
use std::fs;
use std::path::Path;

fn set_length(path: &Path, length: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

/// The look that finds something, if one of the next few does.
fn look(log: &mut Log, times: usize) -> Result<(), WriteError> {
    (0..times).try_for_each(|_| log.writer.begin_look().run())
}

#[test]
fn an_older_segment_that_is_gone_or_cut_or_longer_ends_the_log() {
    type Deed = fn(&Path);
    let deeds: [(Deed, bool); 6] = [
        (|path| fs::remove_file(path).unwrap(), true),
        (
            |path| fs::rename(path, path.with_extension("old")).unwrap(),
            true,
        ),
        (
            |path| {
                fs::copy(path, path.with_extension("copy")).unwrap();
                fs::rename(path.with_extension("copy"), path).unwrap();
            },
            true,
        ),
        (|path| set_length(path, 0), false),
        (
            |path| set_length(path, fs::metadata(path).unwrap().len() - 1),
            false,
        ),
        (
            |path| set_length(path, fs::metadata(path).unwrap().len() + 1),
            false,
        ),
    ];
    for (deed, is_removed) in deeds {
        // The first one was there at this start, the second one is left while it runs.
        for name in [FIRST, SECOND, "segment-0000000003.segment"] {
            let directory = tempfile::tempdir().unwrap();
            drop(open_real(directory.path()));
            let mut log = open_real(directory.path());
            commit_many(&mut log, 20, 1000);
            look(&mut log, 3).unwrap();
            deed(&directory.path().join(name));
            let error = look(&mut log, 1).unwrap_err();
            match error {
                WriteError::Removed { ref file } if is_removed => assert!(file.ends_with(name)),
                WriteError::Resized { ref file, .. } if !is_removed => {
                    assert!(file.ends_with(name));
                }
                _ => panic!("{name}: {error}"),
            }
            append(&mut log, b"after");
            assert!(log.writer.sync().is_err(), "the failure is final");
        }
    }
}

/// A look takes a few of them, and the next one goes on from there.
#[test]
fn every_segment_of_a_long_log_is_looked_at_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    for _ in 0..140 {
        for _ in 0..4 {
            append(&mut log, &payload(1, 1900));
        }
        write(&mut log);
    }
    log.writer.sync().unwrap();
    assert!(log.writer.segment() > 130, "{}", log.writer.segment());
    for number in [1, 64, 65, 128, 129] {
        drop(log);
        log = open_real(directory.path());
        look(&mut log, 5).unwrap();
        let name = format!("segment-{number:010}.segment");
        let (path, aside) = (directory.path().join(name), directory.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        let error = look(&mut log, 4).unwrap_err();
        assert!(matches!(error, WriteError::Removed { .. }), "{error}");
        fs::rename(&aside, &path).unwrap();
    }
}

/// The log itself removes segments, also between the beginning of a look and its run.
#[test]
fn a_segment_that_a_checkpoint_has_replaced_is_not_missed() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    commit_many(&mut log, 20, 1000);
    let begun = log.writer.begin_look();
    log.appender.append(FrameKind::checkpoint_begin(2), 0, b"");
    log.appender.append(FrameKind::checkpoint_end(4), 0, b"");
    write(&mut log);
    log.writer.sync().unwrap();
    log.preparer.prepare().unwrap();
    assert!(!directory.path().join(FIRST).exists());
    begun.run().unwrap();
    look(&mut log, 2).unwrap();
}
