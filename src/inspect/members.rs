//! `quorlock members`: adds a node to the list of all clients, or removes one, while clients take locks.
//!
//! Invariant: nothing is changed on any node before all of them have answered, and what they say allows it.

use std::process::ExitCode;

use quorlock_client_rules::inspection::members::{self, Intent};
use quorlock_client_rules::inspection::node_facts::NodeFacts;
use serde_json::{Value, json};

use super::nodes::{ListedNode, Nodes};
use super::{shown, table};
use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock members`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    change: Option<Change>,
    #[command(flatten)]
    nodes: NodeOptions,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Let clients list one node more or less; the nodes listed here are those that clients have
    Begin {
        /// How many nodes clients list from now on
        size: usize,
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// End the change: clients list the nodes that are listed here, and no others
    End {
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// Give the change up: clients list the nodes that they have listed before
    GiveUp {
        #[command(flatten)]
        nodes: NodeOptions,
    },
}

/// Shows what nodes go by, or changes it.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let (intent, options) = match &arguments.change {
        None => return show(&arguments.nodes, format),
        Some(Change::Begin { size, nodes }) => (Intent::Begin(*size), nodes),
        Some(Change::End { nodes }) => (Intent::End, nodes),
        Some(Change::GiveUp { nodes }) => (Intent::GiveUp, nodes),
    };
    runtime::block_on(async {
        let mut nodes = Nodes::connect_to_some(options).await?;
        let size = {
            let labels = nodes.all.iter().map(|node| (&*node.label, facts(node)));
            members::size_for(intent, &labels.collect::<Vec<_>>())
        };
        let size = size.map_err(|refusal| {
            let what = format!("{}. Nothing was changed", shown::words(&refusal.what));
            Failure::failed(what).remedy(refusal.remedy)
        })?;
        let changed = nodes.set_cluster_size(&size).await;
        report(&size, &nodes, &changed, format)
    })
}

fn facts(node: &ListedNode) -> Result<&NodeFacts, &str> {
    match &node.asked {
        Ok(asked) => Ok(&asked.facts),
        Err(why) => Err(why),
    }
}

fn show(options: &NodeOptions, format: Format) -> Result<ExitCode, Failure> {
    runtime::block_on(async {
        let nodes = Nodes::connect_to_some(options).await?;
        let row = |node: &ListedNode| {
            let size = match facts(node) {
                Ok(facts) => match facts.cluster_size {
                    Some(size) => members::shown(size, facts.next_size),
                    None => "no number".to_owned(),
                },
                Err(why) => shown::words(why),
            };
            [node.label.clone(), size]
        };
        let rows: Vec<_> = nodes.all.iter().map(row).collect();
        let described: Vec<Value> = nodes.all.iter().map(value).collect();
        format.answer(
            &table::aligned(&HEADINGS, &rows),
            &json!({ "listed": nodes.all.len(), "nodes": described }),
        )?;
        Ok(ExitCode::SUCCESS)
    })
}

fn value(node: &ListedNode) -> Value {
    let facts = facts(node);
    json!({
        "node": node.label,
        "cluster_size": facts.ok().and_then(|facts| facts.cluster_size),
        "cluster_size_next": facts.ok().and_then(|facts| facts.next_size),
        "why": facts.err(),
    })
}

/// What became of it: on which nodes it is so, and where it has to be written into a configuration by hand.
fn report(
    size: &str,
    nodes: &Nodes,
    changed: &[Result<Option<String>, String>],
    format: Format,
) -> Result<ExitCode, Failure> {
    let all = || nodes.all.iter().zip(changed);
    let failed = all().filter_map(|(node, changed)| Some((&node.label, changed.as_ref().err()?)));
    let failed: Vec<String> = failed
        .map(|(label, why)| format!("\n  {label}: {}", shown::words(why)))
        .collect();
    let unwritten = all().filter_map(|(node, changed)| match changed {
        Ok(Some(why)) => Some(format!("\n  {}: {}", node.label, shown::words(why))),
        _ => None,
    });
    let unwritten: Vec<String> = unwritten.collect();
    let to_write = match unwritten.is_empty() {
        true => String::new(),
        false => format!(
            "\nbefore their next start, write 'cluster-size {size}' into the configuration or the flags of:{}",
            unwritten.concat()
        ),
    };
    if !failed.is_empty() {
        let done = changed.len() - failed.len();
        return Err(Failure::new(
            NO_QUORUM,
            format!(
                "{done} of {} nodes go by cluster-size {size}, and these do not:{}{to_write}",
                changed.len(),
                failed.concat()
            ),
        )
        .remedy("do it again: nodes that go by it already stay as they are"));
    }
    let value = json!({ "outcome": "changed", "cluster_size": size, "to_write": unwritten.len() });
    let value = value.as_object().cloned().unwrap_or_default();
    let next = match size.split_once(' ') {
        Some((old, new)) => format!(
            "clients may list {old} or {new} nodes. Give every client the list of {new}, and then: quorlock members end"
        ),
        None => format!("clients list {size} nodes, and others get no vote"),
    };
    format.result(format_args!("{next}{to_write}"), &value);
    Ok(ExitCode::SUCCESS)
}

const HEADINGS: [&str; 2] = ["NODE", "CLUSTER-SIZE"];
const EXAMPLES: &str = "\
Examples:
  quorlock members                                     what each node goes by
  quorlock members begin 6 --nodes a,b,c,d,e           a sixth node will be listed; f runs already
  quorlock members end --nodes a,b,c,d,e,f             when all clients list six
  quorlock members begin 5 --nodes a,b,c,d,e,f         one will be listed no more
  quorlock members end --nodes b,c,d,e,f               when no client lists a; then stop it

One member at a time. Clients with the list before and with the list behind exclude each other meanwhile.
The next change begins restart-delay-max after the last one has ended, when the locks of clients with the
list before have.";
