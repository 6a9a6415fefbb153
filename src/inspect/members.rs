//! `quorlock members`: adds a node to the list of all clients, or removes one, while clients take locks.
//!
//! Invariant: nothing is changed on any node before all that have to agree have answered, and what they say allows it.

use std::process::ExitCode;

use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::members::{self, Asked, MembersRefusal, SizeStep};
use quorlock_client_rules::inspection::node_facts::NodeFacts;
use serde_json::{Value, json};

use super::nodes::{ListedNode, Nodes};
use super::{shown, table};
use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::output::Format;
use crate::runtime::{self, all_of};

/// Arguments of `quorlock members`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    change: Option<MemberChange>,
    #[command(flatten)]
    nodes: NodeOptions,
}

#[derive(Debug, clap::Subcommand)]
enum MemberChange {
    /// Let clients list this node as well; the other nodes are those that clients list
    Add {
        /// Address of a node that runs and that no client lists
        node: String,
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// Let clients list all nodes but this one; the nodes are those that clients list. It may be down
    Remove {
        /// Its address, as in the list
        node: String,
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// End the change: clients list the nodes that are listed here, and no others
    End {
        /// The node that clients list no more, which then gives its vote to nobody
        #[arg(long, value_name = "NODE")]
        removed: Option<String>,
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// Have the nodes of all listed clusters take no fence up to the largest that any of them was given
    ///
    /// Before names of locks move to another cluster, where their fences would begin anew.
    RaiseFences {
        #[command(flatten)]
        nodes: NodeOptions,
    },
    /// Give a removal up, or two changes that were begun at once: clients list the nodes that they have listed before
    GiveUp {
        #[command(flatten)]
        nodes: NodeOptions,
    },
}

/// Shows what nodes go by, or changes it.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    runtime::block_on(async {
        match &arguments.change {
            None => show(&connect_any(&arguments.nodes).await?, format),
            Some(MemberChange::RaiseFences { nodes }) => raise_all(nodes, format).await,
            Some(change) => change_members(change, format).await,
        }
    })
}

/// Looks at all nodes and changes them. Where some do not answer or do not take it, it looks again, at what another command has done
/// meanwhile: one that ends the same change disconnects this one.
async fn change_members(change: &MemberChange, format: Format) -> Result<ExitCode, Failure> {
    let mut before: Option<Failure> = None;
    let mut left_over = Vec::new();
    let mut first: Option<SizeStep> = None;
    for number in 1..=LOOKS {
        let (mut nodes, step) = match look(change, first.as_ref()).await {
            Ok(seen) => seen,
            Err(now) if now.code == NO_QUORUM && number < LOOKS => continue,
            Err(now) => return Err(behind(before, now)),
        };
        // Once a change is over no node names those that are in no list any more.
        if left_over.is_empty() {
            left_over.clone_from(&step.left_over);
        }
        first.get_or_insert_with(|| step.clone());
        match carry_out(change, &mut nodes, &step).await {
            Ok(unwritten) => {
                let value = json!({ "outcome": "changed", "cluster_size": step.size, "to_write": unwritten.len() });
                let again = match number {
                    1 => "",
                    _ => {
                        "\nsome nodes did not answer at first, as where another command changes them at the same time"
                    }
                };
                let text = words(change, &step.size, &left_over);
                format.result(
                    format_args!("{text}{}{again}", to_write(&step, &unwritten)),
                    &value,
                );
                return Ok(ExitCode::SUCCESS);
            }
            Err(failure) => before = Some(behind(before, failure)),
        }
    }
    Err(before.expect("it has looked"))
}

/// A failure behind another one, which has changed some nodes or none. What it comes to is that of the last look.
fn behind(before: Option<Failure>, now: Failure) -> Failure {
    let Some(before) = before else { return now };
    let what = without_ending(&now.what);
    let what = match without_ending(&before.what).ends_with(what) {
        true => before.what,
        false => format!("{}\nlooked at again, {what}", before.what),
    };
    Failure::new(now.code, what).remedy(now.remedy)
}

fn without_ending(what: &str) -> &str {
    let mut endings = [NOTHING, NO_LIST].into_iter();
    let without = endings.find_map(|ending| what.strip_suffix(ending));
    without.unwrap_or(what)
}

/// All nodes, and what may be changed by what they say, and by what they have said at first. A node that is named and not listed is the
/// last one.
async fn look(
    change: &MemberChange,
    first: Option<&SizeStep>,
) -> Result<(Nodes, SizeStep), Failure> {
    let nodes = match change {
        MemberChange::Add { node, nodes } => connect_with(nodes, node).await?,
        MemberChange::End {
            removed: Some(node),
            nodes,
        } => connect_with(nodes, node).await?,
        MemberChange::Remove { nodes, .. }
        | MemberChange::End { nodes, .. }
        | MemberChange::RaiseFences { nodes }
        | MemberChange::GiveUp { nodes } => connect(nodes).await?,
    };
    let step = {
        let asked = asked(&nodes.all);
        let step = match (change, asked.split_last()) {
            (MemberChange::Add { .. }, Some((joining, listed))) => {
                members::size_to_add(listed, joining)
            }
            (MemberChange::Remove { node, .. }, _) => {
                members::size_to_remove(&asked, place(&nodes, node)?)
            }
            (
                MemberChange::End {
                    removed: Some(_), ..
                },
                Some((gone, listed)),
            ) => members::size_to_end(listed, Some(gone.0)),
            (MemberChange::End { .. }, _) => members::size_to_end(&asked, None),
            _ => members::size_to_give_up(&asked),
        };
        step.map_err(refused)?
    };
    step.follows(first.unwrap_or(&step)).map_err(refused)?;
    Ok((nodes, step))
}

/// Has nodes go by what the step says. Returns those whose configuration has to be written by hand.
async fn carry_out(
    change: &MemberChange,
    nodes: &mut Nodes,
    step: &SizeStep,
) -> Result<Vec<String>, Failure> {
    match change {
        MemberChange::Add { .. } => {
            let joining = nodes.all.len() - 1;
            raise_fences(&mut nodes.all, Some(joining)).await?;
        }
        MemberChange::Remove { node, .. } => {
            let leaving = place(nodes, node)?;
            let gone = nodes.all.remove(leaving);
            let raised = raise_fences(&mut nodes.all, None).await;
            nodes.all.insert(leaving, gone);
            raised?;
        }
        // Before others may be listed in its place.
        MemberChange::End {
            removed: Some(_), ..
        } if !step.left_over.is_empty() => {
            let gone = nodes.all.last_mut().expect("it was named");
            let done = gone.set_cluster_size(Some("removed")).await;
            done.map_err(|why| not_removed(&gone.label, &why))?;
        }
        _ => {}
    }
    let asked = nodes.all.iter_mut().enumerate().filter_map(|(at, node)| {
        let size = step.nodes.contains(&at).then_some(&*step.size);
        if size.is_none() && !step.unchanged.contains(&at) {
            return None;
        }
        Some((at, node.set_cluster_size(size)))
    });
    let (places, asked): (Vec<usize>, Vec<_>) = asked.unzip();
    let changed = all_of(asked.into_iter()).await;
    let (mut failed, mut unwritten) = (Vec::new(), Vec::new());
    for (at, changed) in places.iter().zip(&changed) {
        let line = |why: &str| {
            let label = &nodes.all[*at].label;
            format!("\n  {label}: {}", shown::words(why))
        };
        match changed {
            Ok(None) => {}
            Ok(Some(why)) => unwritten.push(line(why)),
            Err(why) => failed.push(line(why)),
        }
    }
    if failed.is_empty() {
        return Ok(unwritten);
    }
    let what = format!(
        "cluster-size {} was set on {} of {} nodes, and these did not take it:{}{}",
        step.size,
        step.nodes.len().saturating_sub(failed.len()),
        step.nodes.len(),
        failed.concat(),
        to_write(step, &unwritten)
    );
    Err(match failed.iter().all(|line| is_forbidden(line)) {
        true => Failure::failed(what)
            .remedy("give this user the right to run CONFIG SET, and do it again"),
        false => Failure::new(NO_QUORUM, what)
            .remedy("do it again when they answer: nodes that go by it stay as they are"),
    })
}

/// Whether a node has refused a command to the user of this one. It is not away, and refuses it again.
fn is_forbidden(why: &str) -> bool {
    why.contains("NOPERM")
}

/// Fences of a name are above those that it had on another of these clusters.
async fn raise_all(options: &NodeOptions, format: Format) -> Result<ExitCode, Failure> {
    let clusters = options.clusters()?;
    if let Some(cluster) = clusters.next_without_nodes() {
        let what = format!(
            "the list names no nodes of '{cluster}', which comes next; no fence was raised"
        );
        return Err(Failure::usage(what).remedy("list the nodes of all clusters, old and new"));
    }
    let mut all = Vec::new();
    for list in clusters.all() {
        all.extend(different(Nodes::connect(options, list).await?)?.all);
    }
    raise_fences(&mut all, None).await?;
    let (nodes, count) = (all.len(), clusters.all().len());
    format.result(
        format_args!(
            "on {nodes} nodes of {count} clusters each fence is above all that were given"
        ),
        &json!({ "outcome": "raised", "nodes": nodes, "clusters": count }),
    );
    Ok(ExitCode::SUCCESS)
}

async fn connect_any(options: &NodeOptions) -> Result<Nodes, Failure> {
    let list = options.clusters()?.only(MEMBERS)?;
    Nodes::connect(options, &list).await
}

/// The nodes of the list, each of which is another one.
async fn connect(options: &NodeOptions) -> Result<Nodes, Failure> {
    different(connect_any(options).await?)
}

async fn connect_with(options: &NodeOptions, more: &str) -> Result<Nodes, Failure> {
    let list = options.clusters()?.only(MEMBERS)?;
    different(Nodes::connect_with(options, list, more).await?)
}

/// One node under two addresses, and nodes of two clusters, are no list. How many there are is looked at by itself.
fn different(nodes: Nodes) -> Result<Nodes, Failure> {
    let mut known: Vec<(&str, &str)> = Vec::new();
    let mut cluster = None;
    for node in &nodes.all {
        let Ok(asked) = &node.asked else { continue };
        let wrong = |why: String| {
            let what = format!("{}: {why}{NOTHING}", node.label);
            Failure::failed(what).remedy("list each node of one cluster once")
        };
        if asked.facts.is_agent {
            return Err(wrong("it is an agent and no node".to_owned()));
        }
        let Some(identity) = &asked.facts.identity else {
            continue;
        };
        if let Some((other, _)) = known.iter().find(|(_, id)| *id == &*identity.id) {
            return Err(wrong(format!("it is the same node as {other}")));
        }
        known.push((&node.label, &identity.id));
        let own = asked.facts.cluster_id.as_ref();
        if cluster.is_some_and(|cluster| cluster != own) {
            return Err(wrong(
                "it is of another cluster than the nodes before it".to_owned(),
            ));
        }
        cluster = Some(own);
    }
    Ok(nodes)
}

fn asked(nodes: &[ListedNode]) -> Vec<Asked<'_>> {
    nodes
        .iter()
        .map(|node| (&*node.label, facts(node)))
        .collect()
}

fn facts(node: &ListedNode) -> Result<&NodeFacts, &str> {
    match &node.asked {
        Ok(asked) => Ok(&asked.facts),
        Err(why) => Err(why),
    }
}

/// Where in the list a node is.
fn place(nodes: &Nodes, node: &str) -> Result<usize, Failure> {
    let address = crate::node_address::complete(node.to_owned())?;
    let address = NodeAddress::parse(&address).map_err(Failure::usage)?;
    let place = nodes
        .all
        .iter()
        .position(|one| one.endpoint == address.endpoint);
    place.ok_or_else(|| {
        Failure::usage(format!("{address} is not in the list; nothing was changed"))
            .remedy("list the nodes that clients list, and name one of them")
    })
}

/// Fences that clients with the list of before were given are below those that clients with the next list are given. What the node with
/// this index, which is in no list yet, has forgotten is no fence of this cluster.
async fn raise_fences(nodes: &mut [ListedNode], joining: Option<usize>) -> Result<(), Failure> {
    let told = all_of(nodes.iter_mut().map(ListedNode::ceiling)).await;
    let mut ceilings = Vec::new();
    for (index, (node, told)) in nodes.iter().zip(told).enumerate() {
        let (ceiling, is_certain) = told.map_err(|why| unraised(&node.label, &why))?;
        ceilings.push((&*node.label, ceiling, is_certain || joining == Some(index)));
    }
    let Some(floor) = members::floor(&ceilings).map_err(refused)? else {
        return Ok(());
    };
    let raised = all_of(nodes.iter_mut().map(|node| node.raise_fences(floor))).await;
    for (node, raised) in nodes.iter().zip(raised) {
        raised.map_err(|why| unraised(&node.label, &why))?;
    }
    Ok(())
}

fn unraised(label: &str, why: &str) -> Failure {
    // As one that is new and was not made with `node init`.
    if why.contains("RESTARTDELAY") {
        let what = format!("{label} is in its restart delay{NO_LIST}");
        let remedy = "do it again once it serves: quorlock status says when that is";
        return Failure::new(NO_QUORUM, what).remedy(remedy);
    }
    let why = shown::words(why);
    let what = format!("{label} cannot be told of the fences of the others: {why}{NO_LIST}");
    let failure = match is_forbidden(&why) {
        true => Failure::failed(what),
        false => Failure::new(NO_QUORUM, what),
    };
    failure.remedy("the user needs the commands LOCK.CEILING and LOCK.ADOPT; do it again")
}

fn not_removed(label: &str, why: &str) -> Failure {
    let why = shown::words(why);
    let what = format!("{label} cannot be told that it is removed: {why}{NOTHING}");
    Failure::new(NO_QUORUM, what)
        .remedy("stop it for good, remove its directory, and end the change without --removed")
}

fn refused(refusal: MembersRefusal) -> Failure {
    let what = format!("{}{NOTHING}", shown::words(&refusal.what));
    let is_for_silence = !refusal.silent.is_empty();
    // One that is away as well is started first.
    if is_for_silence && refusal.silent.iter().all(|why| is_forbidden(why)) {
        return Failure::failed(what)
            .remedy("give this user the right to run INFO and CONFIG SET, and do it again");
    }
    let failure = match is_for_silence {
        true => Failure::new(NO_QUORUM, what),
        false => Failure::failed(what),
    };
    failure.remedy(refusal.remedy)
}

fn show(nodes: &Nodes, format: Format) -> Result<ExitCode, Failure> {
    let row = |node: &ListedNode| {
        let size = match facts(node) {
            Ok(facts) => match facts.cluster_size {
                Some(size) => members::shown((size, facts.next_size)),
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

/// Where the number has to be written into a configuration by hand.
fn to_write(step: &SizeStep, unwritten: &[String]) -> String {
    match unwritten.is_empty() {
        true => String::new(),
        false => format!(
            "\nbefore their next start, write 'cluster-size {}' into the configuration or the flags of:{}",
            step.size,
            unwritten.concat()
        ),
    }
}

/// What is so now, and what the operator does next.
fn words(change: &MemberChange, size: &str, left_over: &[String]) -> String {
    let mut numbers = size.split(' ');
    let old = numbers.next().unwrap_or(size);
    let new = numbers.next().unwrap_or(size);
    let about = numbers.next().unwrap_or_default();
    let others = left_over.join(" and ");
    match change {
        MemberChange::Add { .. } => format!(
            "clients may list {old} or {new} nodes. Give every client the list of {new}, and then: quorlock members end"
        ),
        MemberChange::Remove { .. } => format!(
            "clients may list {old} or {new} nodes. Give every client the list without {about}, and then: quorlock members end --removed {about}"
        ),
        _ if others.is_empty() => format!("clients list {size} nodes, and others get no vote"),
        MemberChange::GiveUp { .. } => format!(
            "clients list {size} nodes, and others get no vote. Stop {others}: added later, each needs a new directory"
        ),
        _ => format!(
            "clients list {size} nodes, and others get no vote. Stop {others} for good, and remove its directory: with an old number it would \
             vote for old lists"
        ),
    }
}

/// How often a command looks at the nodes, where another one changes them: that disconnects it once for the node that is removed, and once
/// for the others, not all of them at the same moment.
const LOOKS: usize = 4;
/// Said of a look, and not where an earlier one has changed nodes.
const NOTHING: &str = ". Nothing was changed";
const NO_LIST: &str = ". No list was changed";
/// As it is called where it has too many clusters.
const MEMBERS: &str = "quorlock members";
const HEADINGS: [&str; 2] = ["NODE", "CLUSTER-SIZE"];
const EXAMPLES: &str = "\
Examples:
  quorlock members                                  what each node goes by
  quorlock members add f:7001 --nodes a,b,c,d,e     f runs, made for six nodes, and will be listed
  quorlock members end --nodes a,b,c,d,e,f          when all clients list six
  quorlock members remove a --nodes a,b,c,d,e,f     a will be listed no more
  quorlock members end --removed a --nodes b,c,d,e,f

One member at a time. Clients with the list before and with the list behind exclude each other meanwhile.
The next change begins restart-delay-max after the last one has ended, when the locks of clients with the
list before have.";
