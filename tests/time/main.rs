//! The real `quorlock server` under other boot ids and in other time namespaces.
//!
//! Only what the kernel can do to the clocks of one process is here: it can shift the monotonic
//! clocks and show another boot id. It cannot step the wall clock for one process, and stepping
//! the machine's own would hit everybody on it; wall steps, steering and suspend are tested with
//! the settable clock (`server/tests/server/time/`).

mod cases;
mod world;

use std::panic::catch_unwind;
use std::process::ExitCode;

use crate::world::missing;

/// One check: what must hold, and whether the kernel's help is needed for it.
struct Case {
    name: &'static str,
    is_plain: bool,
    check: fn(),
}

#[allow(clippy::print_stdout, reason = "the report is what the program is for")]
fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let missing = missing();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in cases::ALL {
        let name = case.name;
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        match &missing {
            Some(why) if !case.is_plain => {
                println!("skipped: {name}: {why}");
                skipped += 1;
            }
            _ if catch_unwind(case.check).is_ok() => {
                println!("ok: {name}");
                passed += 1;
            }
            _ => {
                println!("FAILED: {name}; to see it alone: tests/time/run '{name}'");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
