//! `quorlock run`: a command that runs only while its lock is held, or several locks together.
//!
//! The lock is renewed while the command runs. If it is lost, the command is asked to end and is
//! killed before the lease is over, so before anybody else can hold the lock. Nothing is taken
//! when the command could not be started anyway. There is no shell in between.

mod descendants;
mod end;
mod hold;
mod job;
mod on_lost;
mod program;
mod stop;
mod terminal;
mod textfile;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use quorlock_client::{Clock, Guard, LockRequest, Loss, Redlock, SystemClock};

use crate::clusters::NodeList;
use crate::exit_code::{BUSY, Failure, LOST};
use crate::holder_options::HolderOptions;
use crate::lock_options::{NodeOptions, SpeechOptions, TtlOptions, VoteOptions, WaitOptions};
use crate::output::{Format, remark};
use crate::signals::CaughtSignals;
use crate::waiting::{self, Wanted};
use crate::{lock_variables, outer_runs, runtime};
use descendants::Process;
use end::{EndOptions, LockEnd};
use hold::{CommandEnd, Hold, Outcome};
use job::Job;
use on_lost::{LossOptions, StopRules};
use program::Program;
use terminal::Terminal;
use textfile::Record;

/// Arguments of `quorlock run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock, or of several locks that are taken together, all or none
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    #[command(flatten)]
    ttl: TtlOptions,
    /// Have a fence taken with the lock, for the command's QUORLOCK_FENCE
    ///
    /// A number that grows with each acquisition of the name: a resource that refuses what comes
    /// with a smaller one than the largest it has seen is safe from a command that was paused
    /// beyond its lease. All nodes must be Quorlock nodes.
    #[arg(long)]
    fence: bool,
    /// Hold the lock beside others who also run with --shared, and not beside a command that runs without it
    ///
    /// A command that changes nothing is a reader. All nodes must be Quorlock nodes.
    #[arg(long, conflicts_with_all = ["fence", "permits", "lock_delay", "hold_at_least"])]
    shared: bool,
    /// Run as many commands at once as there are permits of this name, each with one of them
    ///
    /// All callers should say the same number. The command sees the index of its permit, from 0, in
    /// QUORLOCK_PERMIT.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    permits: Option<u32>,
    /// Run the command at once where a `quorlock run` around it holds these locks already
    ///
    /// For a script that other scripts start as well, under the same lock. That run renews the lock, frees it, and ends the
    /// command if it is lost: its options count. Elsewhere the locks are taken as usual. Metrics are of the run around it.
    #[arg(long, requires = "command", conflicts_with_all = ["fence", "shared", "permits", "lock_delay", "textfile"])]
    reentrant: bool,
    /// Callers that wait stand in line in any case
    #[arg(long = "fair", hide = true)]
    _fair: bool,
    #[command(flatten)]
    wait: WaitOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    votes: VoteOptions,
    #[command(flatten)]
    loss: LossOptions,
    #[command(flatten)]
    end: EndOptions,
    /// End with this code instead of 75 if the lock is busy
    #[arg(short = 'E', long, value_name = "CODE", conflicts_with = "busy_ok")]
    busy_exit_code: Option<u8>,
    /// End with 0, and without a word, if the lock is busy: for jobs that one of many does
    #[arg(long)]
    busy_ok: bool,
    #[command(flatten)]
    speech: SpeechOptions,
    #[command(flatten)]
    holder: HolderOptions,
    /// Write what the run came to into this file, for the textfile collector of node_exporter; one for each job
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// The command and its arguments; without one, the lock is held until a signal
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command under the lock. The exit code is the command's.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    arguments.check_names()?;
    let names = arguments.names.iter().map(|name| name.as_bytes());
    let list = arguments.nodes.clusters()?.taking(names)?;
    let name = format!("{}{}", list.prefix, arguments.shown().display());
    let textfile = arguments.textfile.as_ref();
    let record = textfile.map(|path| Record::begin(path, &name));
    let mut record = record.transpose()?;
    let code = lock_and_run(arguments, list, format, record.as_mut());
    if let Some(record) = record {
        record.end(&code);
    }
    code.map(ExitCode::from)
}

fn lock_and_run(
    arguments: &Arguments,
    list: NodeList,
    format: Format,
    mut record: Option<&mut Record>,
) -> Result<u8, Failure> {
    let ttl = arguments.ttl.of(&list);
    let rules = arguments.loss.rules(ttl)?;
    let program = match arguments.command.as_slice() {
        [] => None,
        words => Some(Program::find(words)?),
    };
    let prefix = list.prefix.clone();
    let redlock = (arguments.nodes).lock_client(list, &arguments.votes, arguments.speech.quiet)?;
    if let Some(program) = program.as_ref().filter(|_| arguments.reentrant)
        && outer_runs::hold_all(&redlock, &arguments.names, ttl)?
    {
        return Err(program.replace_this_process());
    }
    runtime::block_on(async {
        let mut signals = CaughtSignals::before_the_lock()?;
        let guard = match acquire(arguments, &redlock, &mut signals, ttl, rules).await {
            Err(failure) if failure.code == BUSY && arguments.busy_ok => {
                record.iter_mut().for_each(|record| record.busy());
                return Ok(0);
            }
            Err(failure) if failure.code == BUSY => {
                return Err(failure.exit_with(arguments.busy_exit_code.unwrap_or(BUSY)));
            }
            acquired => acquired?,
        };
        record.iter_mut().for_each(|record| record.taken());
        let nodes = redlock.nodes().len();
        let name = arguments.shown();
        arguments
            .speech
            .remark_on_lock(&name, guard.remaining(), nodes);
        let end = LockEnd::of(arguments, &redlock, ttl, prefix);
        match &program {
            Some(program) => {
                hold_and_release(arguments, rules, program, guard, &mut signals, &end).await
            }
            None => hold_open(arguments, guard, &mut signals, format, &end).await,
        }
    })
}

/// Takes the lock, or waits for it as long as the caller wants.
async fn acquire(
    arguments: &Arguments,
    redlock: &Redlock,
    signals: &mut CaughtSignals,
    ttl: Duration,
    rules: StopRules,
) -> Result<Guard, Failure> {
    let mut lock = arguments
        .lock(redlock)
        .ttl(ttl)
        .lock_delay(arguments.end.lock_delay)
        .wait(arguments.wait.wait());
    if let Some(text) = arguments.holder.text(arguments.command.first()) {
        lock = lock.owner_text(text);
    }
    if arguments.fence {
        lock = lock.fenced();
    }
    if arguments.shared {
        lock = lock.shared();
    }
    if let Some(max_hold) = arguments.loss.max_hold {
        lock = lock.max_lifetime(max_hold);
    }
    if !arguments.command.is_empty() {
        // A command that would have to be ended before the first renewal is not started.
        lock = lock.reserve(rules.time_needed());
    }
    let wanted = Wanted {
        shown: &arguments.shown(),
        // A lock with the name of a permit's semaphore is another one.
        names: match arguments.permits {
            Some(_) => &[],
            None => &arguments.names,
        },
        nodes: &arguments.nodes,
        is_quiet: arguments.speech.quiet || arguments.busy_ok,
    };
    let acquire = |tell| lock.on_wait(tell).acquire();
    waiting::acquire(&wanted, redlock, signals, acquire).await
}

impl Arguments {
    fn check_names(&self) -> Result<(), Failure> {
        let [_, .., last] = self.names.as_slice() else {
            return Ok(());
        };
        if self.command.is_empty() {
            let last = last.display();
            return Err(Failure::usage(format!(
                "'{last}' is read as a second name, and several names are held for a command only; nothing was sent"
            ))
            .remedy("the command to run stands after --: quorlock run NAME... -- COMMAND..."));
        }
        // A command may have a -- of its own: what is behind that must not run here in its place.
        if Program::find(&self.names[1..2]).is_ok() {
            let (name, second) = (self.names[0].display(), self.names[1].display());
            return Err(Failure::usage(format!(
                "'{second}' stands before -- and is a program, so it may be the command or a second name; nothing was sent"
            ))
            .remedy(format!(
                "the command is: quorlock run {name} -- {second} ...; where it is a name, let it be the first one"
            )));
        }
        match self.permits {
            Some(_) => Err(Failure::usage("--permits is of one name; nothing was sent")),
            None => Ok(()),
        }
    }

    fn lock(&self, redlock: &Redlock) -> LockRequest {
        let names = self.names.iter().map(|name| name.as_bytes());
        match self.permits {
            Some(permits) => redlock.semaphore(self.names[0].as_bytes(), permits),
            None => redlock.locks(names),
        }
    }

    /// The names, for people.
    fn shown(&self) -> OsString {
        self.names.join(OsStr::new(", "))
    }
}

/// What the command sees as the name: of several each on a line of its own.
fn name_of(guard: &Guard) -> OsString {
    let names: Vec<&OsStr> = guard.names().map(OsStr::from_bytes).collect();
    names.join(OsStr::new("\n"))
}

/// Holds the lock without a command, until somebody sends a signal.
async fn hold_open(
    arguments: &Arguments,
    guard: Guard,
    signals: &mut CaughtSignals,
    format: Format,
    end: &LockEnd<'_>,
) -> Result<u8, Failure> {
    // Of a permit it is the permit's.
    let name = name_of(&guard);
    let variables = lock_variables::of(&name, &guard, end.prefix());
    let mut value = json!({
        "name": name.to_string_lossy(),
        "token": guard.token().to_string(),
        "deadline_ms": variables[2].1.to_string_lossy().parse::<u64>().unwrap_or_default(),
    });
    if let Some(fence) = guard.fence() {
        value["fence"] = fence.into();
    }
    if let Some(index) = guard.permit() {
        value["permit"] = index.into();
    }
    let printed = format.deliver(&lock_variables::as_exports(&variables), &value);
    let loss = match printed {
        Ok(()) => tokio::select! {
            loss = guard.lost() => Some(loss),
            _ended = signals.next() => guard.loss(),
        },
        Err(_) => None,
    };
    let shown = arguments.shown();
    let shown = shown.display();
    if let Err(error) = printed {
        let _not_used = guard.release_everywhere().await;
        return Err(Failure::failed(format!(
            "the token of '{shown}' could not be printed: {error}; the lock was released again"
        )));
    }
    if let Some(loss) = loss {
        end.lost(guard).await;
        return Err(
            Failure::new(LOST, format!("the lock '{shown}' was lost: {loss}"))
                .remedy("stop the work it protects"),
        );
    }
    end.done(guard).await?;
    Ok(0)
}

async fn hold_and_release(
    arguments: &Arguments,
    rules: StopRules,
    program: &Program,
    guard: Guard,
    signals: &mut CaughtSignals,
    end: &LockEnd<'_>,
) -> Result<u8, Failure> {
    let terminal = Terminal::held();
    let wants_terminal = terminal.as_ref().is_some_and(Terminal::is_interactive);
    let mut environment = lock_variables::of(&name_of(&guard), &guard, end.prefix());
    // What is read is not to be run under: others may read beside it.
    if !arguments.shared {
        let runs = outer_runs::with_this_one(guard.token(), end.ttl());
        environment.extend(runs.map(|runs| (outer_runs::RUNS, runs.into())));
    }
    let max_hold = arguments.loss.max_hold;
    let hold = Hold {
        guard: &guard,
        signals,
        terminal: terminal.as_ref(),
        rules,
        ends_at: max_hold.map(|max_hold| SystemClock.now().after(max_hold)),
    };
    let outcome = match Job::start(program, &environment, wants_terminal) {
        Ok(job) => hold.until_end(job, wants_terminal).await,
        Err(error) => Err(error),
    };
    let Outcome { ended, escaped } = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            let _not_used = guard.release_everywhere().await;
            let what = format!("cannot run {}: {error}", program.path().display());
            return Err(Failure::failed(what));
        }
    };
    match ended {
        Ok((ending, orphans)) => {
            let done = end.done(guard).await;
            tell_orphans(&orphans, &escaped);
            done?;
            Ok(ending.code())
        }
        Err((loss, fate)) => {
            end.lost(guard).await;
            Err(lost(arguments, &loss, &fate, &escaped))
        }
    }
}

/// Says what became of what the command had left behind.
fn tell_orphans(orphans: &[Process], escaped: &[Process]) {
    let tell = |left: &[Process], became: &str, remedy: &str| {
        if !left.is_empty() {
            let (count, list) = (counted(left), descendants::list(left));
            remark(format_args!(
                "the command left {count} behind, which {became}: {list}{remedy}"
            ));
        }
    };
    let mut ended = orphans.to_vec();
    ended.retain(|process| !process.is_among(escaped));
    tell(
        &ended,
        "would have gone on without the lock and was ended",
        "",
    );
    let remedy = format!("\n  {ESCAPED}");
    tell(
        escaped,
        "could not be ended and goes on without the lock",
        &remedy,
    );
}

fn counted(processes: &[Process]) -> String {
    match processes.len() {
        1 => "a process".to_owned(),
        count => format!("{count} processes"),
    }
}

/// What the loss of the lock meant for the command.
fn lost(arguments: &Arguments, loss: &Loss, fate: &CommandEnd, escaped: &[Process]) -> Failure {
    let shown = arguments.shown();
    let shown = shown.display();
    let in_time = |in_time: &bool| {
        if *in_time {
            "before the lease was over"
        } else {
            "but only after the lease was over: somebody else may have worked at the same time"
        }
    };
    let (became, remedy) = match fate {
        CommandEnd::EndedByItself => ("had just ended by itself".to_owned(), OTHERS),
        CommandEnd::Ignored => (
            "went on without it (--on-lost ignore) and has ended now".to_owned(),
            OTHERS,
        ),
        CommandEnd::Asked { in_time: was } => (
            format!("was asked to end, which it did, {}", in_time(was)),
            HALF_DONE,
        ),
        CommandEnd::Killed { in_time: was } => (format!("was killed, {}", in_time(was)), HALF_DONE),
        CommandEnd::GoesOn => (
            "could not be stopped and goes on without the lock, which somebody else may take"
                .to_owned(),
            "",
        ),
    };
    let mut what =
        format!("the lock '{shown}' was lost while the command ran: {loss}. The command {became}");
    let mut remedies = vec![remedy];
    if !escaped.is_empty() {
        let list = descendants::list(escaped);
        what.push_str(&format!(". Still running without the lock: {list}"));
        remedies.push(ESCAPED);
    }
    remedies.retain(|remedy| !remedy.is_empty());
    Failure::new(LOST, what).remedy(remedies.join("\n"))
}

const HALF_DONE: &str = "its work may be half done: check it before running it again";
const OTHERS: &str = "somebody else may have worked at the same time: check what the command did";
const ESCAPED: &str = "it runs as another user or hangs in the kernel: stop it by its number, as that \
                       user or as root";

const EXAMPLES: &str = "\
Examples:
  quorlock run backup -- ./backup.sh --full        wait for the lock, then run
  quorlock run backup --no-wait -- ./backup.sh     or end with 75 if somebody else runs it
  quorlock run backup --wait 10s --ttl 1m -- sh -c 'dump | gzip > file'
  quorlock run nightly -n --busy-ok -- ./nightly.sh    a cron job that one of many machines does
  quorlock run nightly -n --busy-ok --hold-at-least 5m -- ./nightly.sh    also where their clocks differ
  quorlock run upload --permits 4 -- ./upload.sh   at most four at once, on all machines
  quorlock run account:1 account:2 -- ./transfer.sh    both locks or none, without a deadlock
  quorlock run backup --reentrant -- ./backup.sh   at once where a run around it holds the lock
  quorlock run backup                              hold the lock until Ctrl-C

The command sees QUORLOCK_NAME (of several names each on a line of its own), QUORLOCK_TOKEN and
QUORLOCK_DEADLINE (the end of the first lease, in ms since 1970; the lease is renewed), QUORLOCK_FENCE
with --fence and QUORLOCK_PERMIT with --permits. Without a command the same is printed for a shell. It runs
in a process group of its own and gets this command's input, output, terminal and signals. If the
lock is lost, it and all its descendants are ended before the lease is. What it leaves behind is
ended with it. If this process is killed, so is the command.
A command that becomes another user (sudo, su) can be stopped by neither: put it
outside, as in: sudo quorlock run backup -- ./backup.sh

Exit codes: the command's own, or 128 and its signal; 75 busy, 69 no majority of nodes answered,
70 the lock was lost and the command was stopped, 64 wrong usage, 127 the command does not exist,
126 it cannot be executed. Both are checked before the lock is taken; a file whose interpreter is
missing is only found out under the lock, and a command may end with these codes itself.";
