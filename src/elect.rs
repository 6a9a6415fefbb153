//! `quorlock elect`: a candidate of an election that leads until a signal, or an observer that says who leads.
//!
//! One line for each change. What is printed is for people and scripts that want to know; whoever acts as the leader holds the
//! lock: `quorlock run`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use quorlock_client::{Election, Observed, Redlock};
use serde_json::{Value, json};

use crate::exit_code::{Failure, LOST};
use crate::lock_options::{NodeOptions, TtlOptions, VoteOptions, WaitOptions};
use crate::output::Format;
use crate::runtime;
use crate::signals::CaughtSignals;
use crate::waiting::{self, Wanted};

/// Arguments of `quorlock elect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the election: that of the lock whose holder leads
    name: OsString,
    /// What the candidate says about itself, such as its address
    #[arg(conflicts_with = "listen")]
    proposal: Option<String>,
    /// Print who leads, and each change, without being a candidate
    #[arg(long, short = 'l', conflicts_with_all = ["ttl", "fence", "wait", "no_wait", "spare_votes"])]
    listen: bool,
    #[command(flatten)]
    ttl: TtlOptions,
    /// Have each leader take a fence; all candidates of an election should
    #[arg(long)]
    fence: bool,
    #[command(flatten)]
    wait: WaitOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    votes: VoteOptions,
}

/// Campaigns, or listens.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let clusters = arguments.nodes.clusters()?;
    let name = arguments.name.as_bytes();
    let list = match arguments.listen {
        true => clusters.having(name),
        false => clusters.taking([name])?,
    };
    let ttl = arguments.ttl.of(&list);
    let redlock = (arguments.nodes).lock_client(list, &arguments.votes, arguments.listen)?;
    let election = redlock.election(arguments.name.as_bytes()).ttl(ttl);
    runtime::block_on(async {
        let mut signals = CaughtSignals::before_the_lock()?;
        match arguments.listen {
            true => listen(arguments, &election, &mut signals, format).await,
            false => lead(arguments, election, &redlock, &mut signals, format).await,
        }
    })
}

async fn listen(
    arguments: &Arguments,
    election: &Election,
    signals: &mut CaughtSignals,
    format: Format,
) -> Result<ExitCode, Failure> {
    let mut observer = election.observe();
    loop {
        let observed = tokio::select! {
            observed = observer.next() => observed,
            _ended = signals.next() => return Ok(ExitCode::SUCCESS),
        };
        let Some(observed) = observed else {
            return Err(Failure::usage("this name cannot be that of an election"));
        };
        let mut value = state(arguments, "unknown");
        match &observed {
            Observed::Leader(leader) => {
                value = state(arguments, "leader");
                value["token"] = leader.token.to_string().into();
                value["proposal"] = leader.proposal.as_deref().into();
                value["fence"] = leader.fence.into();
            }
            Observed::Vacant => value = state(arguments, "vacant"),
            _ => {}
        }
        if format
            .deliver(observed.to_string().as_bytes(), &value)
            .is_err()
        {
            // Whoever has read wants no more.
            return Ok(ExitCode::SUCCESS);
        }
    }
}

async fn lead(
    arguments: &Arguments,
    election: Election,
    redlock: &Redlock,
    signals: &mut CaughtSignals,
    format: Format,
) -> Result<ExitCode, Failure> {
    let mut election = election.wait(arguments.wait.wait());
    if arguments.fence {
        election = election.fenced();
    }
    if let Some(proposal) = &arguments.proposal {
        election = election.proposal(proposal);
    }
    let campaign = |tell| election.on_wait(tell).campaign();
    let wanted = Wanted {
        shown: &arguments.name,
        names: std::slice::from_ref(&arguments.name),
        nodes: &arguments.nodes,
        is_quiet: false,
    };
    let leadership = waiting::acquire(&wanted, redlock, signals, campaign).await?;
    let mut value = state(arguments, "leader");
    value["token"] = leadership.token().to_string().into();
    value["proposal"] = arguments.proposal.as_deref().into();
    value["fence"] = leadership.fence().into();
    let fence = leadership
        .fence()
        .map(|fence| format!(" with fence {fence}"));
    let who = arguments.proposal.as_deref().unwrap_or("this candidate");
    let text = format!("{who} leads{}", fence.unwrap_or_default());
    let printed = format.deliver(text.as_bytes(), &value);
    let loss = match printed {
        Ok(()) => tokio::select! {
            loss = leadership.lost() => Some(loss),
            _ended = signals.next() => leadership.loss(),
        },
        // Nobody knows that it leads.
        Err(_) => None,
    };
    let release = leadership.into_guard().release_everywhere().await;
    let shown = arguments.name.display();
    match loss {
        Some(loss) => {
            let what = format!("the leadership of '{shown}' was lost: {loss}");
            Err(Failure::new(LOST, what).remedy("stop what only the leader may do"))
        }
        None if release.was_lost() => Err(Failure::new(
            LOST,
            format!("the leadership of '{shown}': {release}"),
        )),
        None => printed
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::failed(format!("cannot print who leads: {error}"))),
    }
}

fn state(arguments: &Arguments, state: &str) -> Value {
    json!({ "name": arguments.name.to_string_lossy(), "state": state })
}

const EXAMPLES: &str = "\
Examples:
  quorlock elect primary 10.0.0.7:8080   wait in line, say when this candidate leads, resign upon Ctrl-C
  quorlock elect --listen primary        say who leads now, and each time that changes

Lines of a listener:
  10.0.0.7:8080 leads
  nobody leads
  unknown: no majority of the nodes answers

Better where it fits: quorlock run primary -- ./serve.sh
runs the leader's work while it leads and stops it if the leadership is lost.";
