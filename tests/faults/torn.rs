//! Writes that the kernel really cuts off: a limit on the file's size lets so many bytes through
//! and no more.
//!
//! The process then dies of SIGXFSZ, as of a kill in the middle of a write; or, with the signal
//! ignored, sees a short write and then an error.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::check::{Bench, Check, Need};
use crate::check_directory::CheckDirectory;
use crate::examine::{Finding, Rule, examine};
use crate::phase::{listening, make_segment_ahead};
use crate::segment;
use crate::stream::{SMALL, Shape, Stream};
use crate::subject::{Ended, Launch, Mode, Subject};
use crate::traffic::{Traffic, streams};

const KIND: &str = "write cut off after n bytes";

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for mode in Mode::ALL {
        for (name, is_survived) in [("dies", false), ("short", true)] {
            let name = format!("torn/{}/{name}", mode.name());
            checks.push(Check::new(
                KIND,
                name,
                Need::Nothing,
                move |bench, record| {
                    for bytes in lengths(bench) {
                        if record.wants(bytes) {
                            let finding = tear(bench, mode, is_survived, bytes)?;
                            record.add(Some(bytes), &finding);
                        }
                    }
                    Ok(())
                },
            ));
        }
    }
    checks
}

fn lengths(bench: &Bench) -> Vec<u64> {
    if bench.is_thorough {
        return (0..200).chain((200..5_200).step_by(37)).collect();
    }
    vec![0, 1, 7, 8, 39, 40, 41, 511, 512, 513, 4_095, 4_096, 4_097]
}

fn tear(bench: &Bench, mode: Mode, is_survived: bool, bytes: u64) -> io::Result<Finding> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let mut launch = Launch::new(bench, mode);
    let plain = launch.clone();
    if is_survived {
        // An ignored signal stays ignored in the program that is started.
        launch.wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]
            .map(str::to_owned)
            .to_vec();
    }
    let mut node = launch.start(&directory)?;
    let address = listening(&mut node, &directory)?;
    let mut streams = streams(9, SMALL);
    let mut traffic = Traffic::open(address, &streams)?;
    let mut came = traffic.run(&mut streams, 6, 3);
    make_segment_ahead(address)?;
    let end = segment::end_of_frames(&segment::newest(&directory)?)?;
    let cut_at = match bytes.is_multiple_of(segment::BLOCK_BYTES) && launch.is_direct {
        // Between two blocks: there a direct write is cut off by every file system.
        true => end.next_multiple_of(segment::BLOCK_BYTES) + bytes,
        false => end + bytes,
    };
    limit(&node, cut_at)?;
    streams.iter_mut().for_each(|stream| {
        stream.set_shape(Shape {
            large_bytes: 6_000,
            ..SMALL
        });
    });
    let mut finding = Finding::default();
    if came.is_fine() {
        came = traffic.run(&mut streams, 8, 2);
    }
    let ended = node.end(Duration::from_secs(10));
    let expected = if is_survived {
        Ended::Exited(1)
    } else {
        Ended::Signalled(SIGXFSZ)
    };
    // A direct write that is cut off within a block is refused by some file systems (EINVAL) before anything happens.
    let is_refused = launch.is_direct && ended == Some(Ended::Exited(1));
    if ended != Some(expected) && !is_refused {
        finding.flaw(format!("came to {ended:?}, not {expected:?}: {came:?}"));
    }
    for wrong in came.wrong {
        finding.flaw(wrong);
    }
    finding.heard(&node);
    let acknowledged: u64 = streams.iter().map(Stream::acknowledged).sum();
    let rule = Rule {
        needs_delay: mode != Mode::Always && acknowledged > 0,
        ..Rule::default()
    };
    let mut after = examine(&plain, &directory, &streams, rule);
    after.join(finding);
    Ok(after)
}

fn limit(node: &Subject, bytes: u64) -> io::Result<()> {
    let id = i32::try_from(node.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: Some(bytes),
        maximum: None,
    };
    prlimit(id, Resource::Fsize, limit)?;
    Ok(())
}

const SIGXFSZ: i32 = 25;
