//! What a node says and holds when it is started again after a fault: the verdict on the run.
//!
//! It is started as configured first, because only that tells whether it waits. A waiting node
//! does not show its keys; it is then killed, inside its delay, and started with
//! `restart-delay off` to see them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, observed_now};

use crate::check_directory::CheckDirectory;
use crate::state::Sight;
use crate::stream::Stream;
use crate::subject::{CAP, Ended, Launch, Subject};

/// What must hold after this fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    /// Serving at once would be wrong.
    pub(crate) needs_delay: bool,
    /// The node may have put its clean stop on record.
    pub(crate) may_be_clean: bool,
    /// The files were damaged: the node may refuse to start, and may have lost something as long
    /// as it waits. Its delay is what the rest of the log asks for.
    pub(crate) is_damaged: bool,
    /// The promise may have sunk: what was granted before a checkpoint is in the log, so that the
    /// delay need not cover it.
    pub(crate) has_compacted: bool,
    /// The fault may hide from the node where it is.
    pub(crate) may_seem_moved: bool,
    /// The fault has hidden from the node which boot this is, and the node said so: its keys get the
    /// time back that passed while it was down.
    pub(crate) may_give_time_back: bool,
}

/// What the node did when it was started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Refused,
    Waits,
    Serves,
}

/// The verdict on one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    /// Acknowledged writes that were looked for.
    pub(crate) acknowledged: u64,
    pub(crate) losses: Vec<String>,
    pub(crate) panics: u64,
    /// What else is wrong, losses and panics not among it.
    pub(crate) flaws: Vec<String>,
    pub(crate) after: Option<After>,
}

impl Finding {
    pub(crate) fn is_fine(&self) -> bool {
        self.losses.is_empty() && self.flaws.is_empty() && self.panics == 0
    }

    pub(crate) fn flaw(&mut self, text: impl Into<String>) {
        self.flaws.push(text.into());
    }

    /// Without the keys below this prefix, which the caller wrote beside the streams.
    pub(crate) fn tolerating(mut self, prefix: &str) -> Self {
        self.flaws.retain(|flaw| !flaw.starts_with(prefix));
        self
    }

    /// Adds what was found while the fault struck.
    pub(crate) fn join(&mut self, earlier: Self) {
        self.panics += earlier.panics;
        self.losses.extend(earlier.losses);
        self.flaws.extend(earlier.flaws);
    }

    /// Takes note of what a process said before it went away.
    pub(crate) fn heard(&mut self, subject: &Subject) {
        let panics = subject.panics();
        if panics > 0 {
            self.panics += panics;
            self.flaw(format!("panicked:\n    {}", subject.last_words()));
        }
    }
}

/// Starts the node in `directory` again, without faults, and judges what it says and holds.
pub(crate) fn examine(
    launch: &Launch,
    directory: &CheckDirectory,
    streams: &[Stream],
    rule: Rule,
) -> Finding {
    let mut finding = Finding {
        acknowledged: streams.iter().map(Stream::acknowledged).sum(),
        ..Finding::default()
    };
    if let Err(error) = judge(launch, directory, streams, rule, &mut finding) {
        finding.flaw(format!("the restarted node went away: {error}"));
    }
    finding
}

fn judge(
    launch: &Launch,
    directory: &CheckDirectory,
    streams: &[Stream],
    rule: Rule,
    finding: &mut Finding,
) -> io::Result<()> {
    let mut node = launch.start(directory)?;
    let address = match node.listening() {
        Ok(address) => address,
        Err(ended) => {
            refused(&node, ended, rule, finding);
            return Ok(());
        }
    };
    let mut connection = Connection::open(address)?;
    let standing = Standing::ask(&mut connection)?;
    standing.check(streams, rule, finding);
    let mut sight = if standing.waits {
        finding.after = Some(After::Waits);
        if standing.remaining > A_WHILE {
            check_refusal(&mut connection, finding)?;
        }
        node.kill();
        finding.heard(&node);
        let (sight, open) = look_inside(launch, directory)?;
        finding.heard(&open);
        sight
    } else {
        finding.after = Some(After::Serves);
        let sight = Sight::of(address)?;
        node.kill();
        finding.heard(&node);
        sight
    };
    sight.may_give_time_back = rule.may_give_time_back;
    compare(streams, &sight, rule, finding);
    Ok(())
}

fn refused(node: &Subject, ended: Ended, rule: Rule, finding: &mut Finding) {
    finding.heard(node);
    finding.after = Some(After::Refused);
    let says_why = ended == Ended::Exited(1) && !node.said().is_empty();
    if !(rule.is_damaged && says_why) {
        finding.flaw(format!(
            "does not start again ({ended:?}):\n    {}",
            node.last_words()
        ));
    }
}

/// Asks a node that has started under a fault whether it says the truth about itself.
pub(crate) fn examine_running(
    address: SocketAddr,
    streams: &[Stream],
    rule: Rule,
    finding: &mut Finding,
) -> io::Result<()> {
    let mut connection = Connection::open(address)?;
    Standing::ask(&mut connection)?.check(streams, rule, finding);
    Ok(())
}

/// What INFO says about the start.
struct Standing {
    waits: bool,
    remaining: Duration,
    /// The delay has been waited out already.
    has_waited: bool,
    last_stop: String,
    asked: Duration,
}

impl Standing {
    fn ask(connection: &mut Connection) -> io::Result<Self> {
        let asked = observed_now();
        let text = match connection.ask(&["INFO", "server", "restart"])? {
            // A node whose log has failed answers every command so until it has ended.
            Reply::Error(error) => return Err(io::Error::other(error)),
            reply => reply.text(),
        };
        let field = |name: &str| {
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or_default().to_owned()
        };
        let remaining_ms = field("restart_delay_remaining_ms").parse().unwrap_or(0);
        let waits = field("restart_delay") == "1";
        let has_waited = field("restart_delay_length_ms")
            .parse()
            .is_ok_and(|length_ms: u64| length_ms > 0);
        if has_waited && !waits && field("restart_waited_ms").is_empty() {
            return Err(io::Error::other("it stops before it has ever served"));
        }
        Ok(Self {
            waits,
            remaining: Duration::from_millis(remaining_ms),
            has_waited,
            last_stop: field("last_stop"),
            asked,
        })
    }

    fn check(&self, streams: &[Stream], rule: Rule, finding: &mut Finding) {
        let last_stop = &self.last_stop;
        let is_clean = last_stop == "clean stop";
        if is_clean && !rule.may_be_clean {
            finding.flaw("calls the stop clean, which it was not");
        }
        if last_stop.contains("copied") && !rule.may_seem_moved {
            finding.flaw(format!("takes its own directory for another: {last_stop}"));
        }
        let covered = streams
            .iter()
            .filter_map(|stream| stream.covered_until(CAP));
        let covered = covered.max();
        // Where only short TTLs were granted, or none, the delay is over before anybody can ask.
        let has_long_lock = covered.is_some_and(|until| until > self.asked);
        let was_brief = self.has_waited && (rule.has_compacted || !has_long_lock);
        if rule.needs_delay && !self.waits && !is_clean && !was_brief {
            finding.flaw(format!("serves at once although {last_stop}"));
        }
        let is_all_there = !rule.has_compacted && !rule.is_damaged;
        let has_to_last = rule.needs_delay && self.waits && is_all_there;
        let must_wait_until = covered.filter(|_| has_to_last);
        if let Some(until) = must_wait_until
            && self.asked + self.remaining < until
        {
            let missing = until.saturating_sub(self.asked + self.remaining);
            finding.flaw(format!(
                "its delay ends {missing:?} before a lock it granted"
            ));
        }
    }
}

fn check_refusal(connection: &mut Connection, finding: &mut Finding) -> io::Result<()> {
    for words in [&["GET", "a:lock0"][..], &["SET", "z", "1", "PX", "1000"]] {
        match connection.ask(words)? {
            Reply::Error(text) if text.starts_with("RESTARTDELAY") => {}
            other => finding.flaw(format!("{words:?} in the restart delay answered {other:?}")),
        }
    }
    Ok(())
}

/// A delay that is shorter may be over before the next question.
const A_WHILE: Duration = Duration::from_secs(2);

/// Starts the node without its delay, for experiments only, and reads all keys.
fn look_inside(launch: &Launch, directory: &CheckDirectory) -> io::Result<(Sight, Subject)> {
    let open = launch.clone().with(&["--restart-delay", "off"]);
    let mut node = open.start(directory)?;
    let address = node
        .listening()
        .map_err(|ended| io::Error::other(format!("{ended:?}:\n    {}", node.last_words())))?;
    let sight = Sight::of(address)?;
    node.kill();
    Ok((sight, node))
}

fn compare(streams: &[Stream], sight: &Sight, rule: Rule, finding: &mut Finding) {
    let prefixes: Vec<&str> = streams.iter().map(Stream::prefix).collect();
    for other_user in sight.strangers(&prefixes) {
        finding.flaw(format!("{other_user} is there, and nobody wrote it"));
    }
    let waits = finding.after == Some(After::Waits);
    for stream in streams {
        let Some(loss) = stream.loss(sight) else {
            continue;
        };
        if !(rule.is_damaged && waits) {
            finding.losses.push(loss);
        } else if !stream.is_prefix(sight) {
            finding.flaw(format!("holds what never was: {loss}"));
        }
    }
}
