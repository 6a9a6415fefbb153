//! `quorlock force-release`: ends a lock that somebody else holds, on all nodes.
//!
//! Invariant: nothing is sent before what will be done was shown and agreed to, and then only with the token that was shown.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, stderr, stdin};
use std::process::ExitCode;

use quorlock_client_rules::inspection::forced::{self, Forced, NoChoice};
use quorlock_client_rules::inspection::lock_view::LockView;
use quorlock_client_rules::inspection::sight::LockKind;
use serde_json::json;

use super::nodes::Nodes;
use super::shown;
use super::who::{checked_name, describe, look};
use crate::exit_code::{Failure, LOST, NO_QUORUM};
use crate::lock_options::{self, NodeOptions};
use crate::output::{Format, remark};
use crate::runtime;

/// Arguments of `quorlock force-release`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// End it only where it is held under this token, or one of several: give it again for each; - reads it from standard input
    #[arg(long = "token", value_name = "TOKEN")]
    tokens: Vec<OsString>,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Ends the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let name = checked_name(&arguments.name)?;
    let named = arguments.tokens.iter().map(|argument| {
        let token = lock_options::token(argument);
        token.map(|token| token.as_bytes().to_vec())
    });
    let named: Vec<Vec<u8>> = named.collect::<Result<_, Failure>>()?;
    let list = arguments.nodes.clusters()?.having(name);
    runtime::block_on(async {
        let mut nodes = Nodes::connect_to_some(&arguments.nodes, &list).await?;
        let before = look(&mut nodes, name).await;
        let token = forced::choose(&before, &named, !arguments.yes)
            .map_err(|why| no_choice(name, &before, &nodes, &why))?;
        let tokens = forced::tokens(&before, token, &named);
        if !arguments.yes {
            agree(name, &before, &tokens, &nodes)?;
        }
        let replies = nodes.force_release(name, &tokens).await;
        let after = look(&mut nodes, name).await;
        let outcome = forced::outcome(&tokens, &replies, &before, &after);
        let others = forced::others(&tokens, &after);
        report(name, &nodes, &replies, (outcome, &after, others), format)
    })
}

/// Says what will be done, and asks.
fn agree(name: &[u8], view: &LockView, tokens: &[&[u8]], nodes: &Nodes) -> Result<(), Failure> {
    let whole = match view.kind {
        LockKind::Hash => "the whole hash, with all of its fields",
        LockKind::Shared => "this reader; others stay",
        LockKind::String => "the lock",
    };
    let labels = nodes.labels();
    let differ = tokens.iter().any(|token| *token != tokens[0]);
    let on_each = labels.iter().zip(tokens);
    let on_each = on_each.map(|(node, token)| format!("\n  {node}: {}", shown::token(token)));
    let under = match differ {
        true => format!(
            "the node's token of these at that moment. They may be those of several programs:{}\n",
            on_each.collect::<String>()
        ),
        false => format!("the token {} at that moment. ", shown::token(tokens[0])),
    };
    remark(format_args!(
        "{}\nThis deletes {whole}, on every node where it is held under {under}The holder is not stopped: it works on until its next \
         extension fails, and the next holder may work beside it.",
        describe(name, view, &labels)
    ));
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        let remedy = match differ {
            true => "add --yes, and --token TOKEN for each token that is meant",
            false => "add --yes",
        };
        let what = "nobody can be asked here; nothing was released";
        return Err(Failure::usage(what).remedy(remedy));
    }
    remark("End it? Type yes:");
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    match read.is_ok() && answer.trim() == "yes" {
        true => Ok(()),
        false => Err(Failure::failed("nothing was released")),
    }
}

fn no_choice(name: &[u8], view: &LockView, nodes: &Nodes, why: &NoChoice) -> Failure {
    let shown = describe(name, view, &nodes.labels());
    match why {
        NoChoice::Free => Failure::new(LOST, format!("{shown}; nothing was released")).called("not-held"),
        NoChoice::OtherToken => Failure::new(
            LOST,
            format!("it is not held under this token; nothing was released. {shown}"),
        )
        .remedy("if another holder has it now, look at it with quorlock who, and decide again")
        .called("not-held"),
        NoChoice::Unknown => Failure::new(
            NO_QUORUM,
            format!("{shown}\nnothing was released"),
        )
        .remedy("do it again when the nodes answer"),
        NoChoice::Several => Failure::usage(format!("{shown}\nnothing was released"))
            .remedy("say which one is meant with --token TOKEN, once for each of Redisson's tokens; quorlock who NAME --json shows them whole"),
    }
}

fn report(
    name: &[u8],
    nodes: &Nodes,
    replies: &[Result<bool, String>],
    (outcome, after, others): (Forced, &LockView, usize),
    format: Format,
) -> Result<ExitCode, Failure> {
    let freed = replies.iter().filter(|reply| **reply == Ok(true)).count();
    let all = nodes.all.len();
    let zipped = || nodes.all.iter().zip(replies);
    let left: Vec<String> = zipped()
        .filter_map(|(node, reply)| {
            let why = shown::words(reply.as_ref().err()?);
            Some(format!("{}: {why}", node.label))
        })
        .collect();
    let left_lines: String = left.iter().map(|line| format!("\n  {line}")).collect();
    let shown = shown::name(name);
    // A string has one holder, and a hash ends with all of its fields.
    let (stay, others) = match after.kind {
        LockKind::Shared => (after.holder_count(), 0),
        LockKind::Hash | LockKind::String => (0, others),
    };
    let mut value = json!({
        "outcome": "released", "freed": freed, "nodes": all, "unanswered": left, "stay": stay, "under_another_token": others,
    });
    shown::add_bytes(&mut value, "name", name);
    match outcome {
        Forced::Ended => {
            let mut rest = match stay {
                0 if others > 0 => {
                    format!("; under another token it is on {others} of {all} nodes")
                }
                0 => String::new(),
                1 => "; 1 other reader holds it still".to_owned(),
                _ => format!("; {stay} other readers hold it still"),
            };
            if !left.is_empty() {
                let _ = write!(rest, "; where it is left it ends by its ttl:{left_lines}");
            }
            format.result(
                format_args!("'{shown}' was released on {freed} of {all} nodes{rest}"),
                &value,
            );
            Ok(ExitCode::SUCCESS)
        }
        Forced::Gone => Err(Failure::new(
            LOST,
            format!(
                "it was not held under that token any more; nothing was released. {}",
                describe(name, after, &nodes.labels())
            ),
        )
        .remedy("if another holder has it now, look at it with quorlock who, and decide again")
        .called("not-held")),
        Forced::MayBeHeld => Err(Failure::new(
            NO_QUORUM,
            format!(
                "'{shown}' was released on {freed} of {all} nodes, and may still be held: too few have answered{left_lines}"
            ),
        )
        .remedy("where it is left it ends by its ttl; do it again when the nodes answer")),
    }
}

const EXAMPLES: &str = "\
Examples:
  quorlock force-release nightly                   shows who holds it, and asks
  quorlock force-release nightly --yes             in a script
  quorlock force-release nightly --yes --token \"$token\"    only if it has not changed hands
  quorlock force-release nightly --yes --token \"$one\" --token \"$two\"    Redisson's lock, with a token on each node

The holder is not stopped: stop it first, or see that the resource checks fences.

Ends with 0 if the lock was released and no majority of the nodes can name its holder any more, with 69 if too
few nodes have answered, and with 70 if it is not held, or not under this token.";
