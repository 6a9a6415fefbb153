//! DEBUG OBJECT, which tells how a key is kept, and DEBUG SLEEP: a node that stands still, for test suites that want to see
//! what their clients do then.
//!
//! No thread sleeps for it. Requests of all clients wait as under CLIENT PAUSE, which CLIENT UNPAUSE ends for the others;
//! deadlines, syncs and an orderly stop go on.

use std::time::Duration;

use quorlock_engine::{Command, DEBUG_OBJECT, ErrorReply, Reply};

use crate::clock::saturated_nanos;
use crate::config::DebugCommand;
use crate::core::clients::Address;
use crate::core::pause::HeldUp;
use crate::core::wait::DurabilityWait;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::try_help;
use crate::session::{Condition, Pending, Session};

pub(super) fn debug(session: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    allowed(session, batch)?;
    let subcommand = arguments.get(1).copied().unwrap_or_default();
    match arguments {
        [_, _, seconds] if subcommand.eq_ignore_ascii_case(b"sleep") => sleep(batch, seconds),
        [_, _, _] if subcommand.eq_ignore_ascii_case(b"object") => {
            object(session, batch, arguments)
        }
        [_, _] if subcommand.eq_ignore_ascii_case(b"help") => {
            Ok(Answer::Reply(Reply::help("DEBUG", HELP)))
        }
        // Redis has no rows for the subcommands of DEBUG.
        _ => Err(try_help("DEBUG", subcommand).into()),
    }
}

/// Refuses the command where `enable-debug-command` does; in a transaction it then spoils that.
pub(super) fn allowed(session: &Session, batch: &Batch<'_>) -> Result<(), ErrorReply> {
    match batch.node.config.enable_debug_command {
        DebugCommand::Yes => Ok(()),
        DebugCommand::Local if is_local(&session.client.address) => Ok(()),
        DebugCommand::Local | DebugCommand::No => Err(NOT_ALLOWED),
    }
}

/// The reply reveals a key, so it waits for what has made it.
fn object(session: &Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let (executor, now) = batch.executor()?;
    let command = Command {
        spec: DEBUG_OBJECT,
        arguments,
    };
    let mut wait = DurabilityWait::default();
    let reply = executor.execute(now, &session.caller, &command, &mut wait);
    Ok(match reply {
        Some(reply) => Answer::After(reply, wait),
        None => batch.lacks_segment()?,
    })
}

fn sleep(batch: &mut Batch<'_>, seconds: &[u8]) -> Answered {
    let text = std::str::from_utf8(seconds).ok();
    let seconds = text.and_then(|text| text.trim().parse::<f64>().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| *time <= SLEEP_MAX).ok_or(NO_TIME)?;
    let now_raw = batch.raw();
    let until_raw = now_raw.plus_nanos(saturated_nanos(time));
    // As in Redis it is measured: this is how people try out what they watch a node with.
    batch.note_slept(time);
    batch.node.pause.begin(now_raw, until_raw, HeldUp::All);
    Ok(Answer::Wait(Pending {
        until_raw: Some(until_raw),
        ..Pending::on(Condition::Time)
    }))
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().is_loopback(),
        Address::Unix(_) | Address::InProcess => true,
    }
}

const SLEEP_MAX: Duration = Duration::from_secs(3600);
const NOT_ALLOWED: ErrorReply = ErrorReply::fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
const NO_TIME: ErrorReply =
    ErrorReply::fixed("ERR DEBUG SLEEP takes seconds, from 0 to 3600, such as 0.5");
const HELP: &[&str] = &[
    "OBJECT <key>",
    "    Show low level info about `key` and associated value.",
    "SLEEP <seconds>",
    "    Let all clients wait for so long. Decimals allowed.",
];
