//! Two commands that change members at once, step by step, in all orders, on nodes that keep the rules of `cluster-size`.
//!
//! Invariant: of two lists that clients were ever given, no two majorities without a node in common get votes within the time that a lock
//! lasts. And from each state that two commands leave, others lead to a list whose nodes all go by its length alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::OnceLock;

use super::*;
use crate::inspection::node_reply::NodeReply;
use crate::votes::majority;

/// A list of nodes, by bits.
type List = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FakeNode {
    size: usize,
    next: Option<usize>,
    about: Option<usize>,
    /// The lengths of other lists that had its vote so shortly before that their locks may last, by bits.
    recent: u8,
}

impl FakeNode {
    fn of(size: usize) -> FakeNode {
        FakeNode {
            size,
            next: None,
            about: None,
            recent: 0,
        }
    }

    /// What a step has it go by.
    fn wanted(size: &str) -> FakeNode {
        let mut words = size.split(' ');
        FakeNode {
            size: words.next().unwrap().parse().unwrap(),
            next: words.next().map(|next| next.parse().unwrap()),
            about: words.next().map(number),
            recent: 0,
        }
    }

    /// The lengths of the lists that get its vote.
    fn lengths(self) -> u8 {
        let sizes = [Some(self.size), self.next].into_iter().flatten();
        sizes
            .filter(|size| *size < 8)
            .fold(0, |lengths, size| lengths | (1 << size))
    }

    /// Itself after `CONFIG SET cluster-size`, as `ClusterSize::change` has it; none where it refuses that.
    fn set(self, to: FakeNode) -> Option<FakeNode> {
        if to == (FakeNode { recent: 0, ..self }) {
            return Some(self);
        }
        let recent = (self.recent | self.lengths()) & !to.lengths();
        match (self.next, to.next) {
            _ if to.size == REMOVED => Some(FakeNode { recent, ..to }),
            _ if self.size == REMOVED => None,
            (None, Some(_)) if to.size == self.size && self.recent == 0 => Some(to),
            (Some(next), None) if [self.size, next].contains(&to.size) => {
                Some(FakeNode { recent, ..to })
            }
            _ => None,
        }
    }

    fn facts(self) -> NodeFacts {
        static BASE: OnceLock<NodeFacts> = OnceLock::new();
        let base = BASE
            .get_or_init(|| NodeFacts::read(&NodeReply::Text(b"run_id:a\r\n".to_vec())).unwrap());
        NodeFacts {
            cluster_size: Some(self.size),
            next_size: self.next,
            size_about: self.about.map(|about| LABELS[about].to_owned()),
            size_wait: Some(Duration::from_millis(self.recent.into())),
            ..base.clone()
        }
    }
}

/// What operators do, with the list that they name. A node that stops does not come back; one that is replaced has its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Add(List, usize),
    Remove(List, usize),
    End(List, Option<usize>),
    GiveUp(List),
    Stop(usize),
}

impl Command {
    /// All with one of these lists.
    fn all(lists: &BTreeSet<List>, nodes: usize) -> Vec<Command> {
        let of = |list: &List| {
            let list = *list;
            let changes = (0..nodes).flat_map(move |node| match (list >> node) & 1 {
                1 => vec![Command::Remove(list, node)],
                _ => vec![Command::Add(list, node), Command::End(list, Some(node))],
            });
            changes.chain([Command::End(list, None), Command::GiveUp(list)])
        };
        lists.iter().flat_map(of).collect()
    }

    /// The nodes that it asks, in this order.
    fn asks(self) -> Vec<usize> {
        let (list, more) = match self {
            Command::Add(list, node) => (list, Some(node)),
            Command::End(list, removed) => (list, removed),
            Command::Remove(list, _) | Command::GiveUp(list) => (list, None),
            Command::Stop(_) => (0, None),
        };
        members(list).chain(more).collect()
    }

    /// What it does after these answers.
    fn judge(self, seen: &[Option<FakeNode>]) -> Result<SizeStep, MembersRefusal> {
        let order = self.asks();
        let facts: Vec<Option<NodeFacts>> =
            seen.iter().map(|node| node.map(FakeNode::facts)).collect();
        let asked = order.iter().zip(&facts);
        let asked: Vec<Asked<'_>> = asked
            .map(|(node, facts)| (LABELS[*node], facts.as_ref().ok_or("away")))
            .collect();
        let (last, others) = asked.split_last().unwrap();
        match self {
            Command::Add(..) => size_to_add(others, last),
            Command::Remove(_, node) => {
                let leaving = order.iter().position(|other| *other == node);
                size_to_remove(&asked, leaving.unwrap())
            }
            Command::End(_, Some(_)) => size_to_end(others, Some(last.0)),
            Command::End(_, None) => size_to_end(&asked, None),
            Command::GiveUp(_) | Command::Stop(_) => size_to_give_up(&asked),
        }
    }
}

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// It asks the nodes one after the other, the second time because some have not done what it said.
    Asks(Vec<Option<FakeNode>>, bool),
    Sets(Sets),
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sets {
    /// The node that is removed, which it has say so before all others,
    removed: Option<usize>,
    /// the others, which it reaches in any order,
    left: List,
    to: FakeNode,
    has_failed: bool,
    is_second: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cluster {
    nodes: Vec<Option<FakeNode>>,
    /// The lists that clients were ever given, and may still have.
    given: BTreeSet<List>,
    /// Those that operators name.
    named: BTreeSet<List>,
}

impl Cluster {
    fn new(listed: usize, joining: usize) -> Cluster {
        let nodes = vec![listed; listed].into_iter();
        let nodes = nodes.chain(vec![listed + 1; joining]);
        let list: List = (1 << listed) - 1;
        let lists = BTreeSet::from([list]);
        Cluster {
            nodes: nodes.map(|size| Some(FakeNode::of(size))).collect(),
            given: lists.clone(),
            named: lists,
        }
    }

    fn with(&self, node: usize, now: Option<FakeNode>) -> Cluster {
        let mut cluster = self.clone();
        cluster.nodes[node] = now;
        cluster
    }

    /// All that one step of a command may come to.
    fn steps(
        &self,
        command: Command,
        progress: &Progress,
        at_once: bool,
    ) -> Vec<(Cluster, Progress)> {
        match progress {
            Progress::Ended => Vec::new(),
            Progress::Asks(seen, is_second) => {
                if let Command::Stop(node) = command {
                    return vec![(self.with(node, None), Progress::Ended)];
                }
                let order = command.asks();
                let last = if at_once { order.len() } else { seen.len() + 1 };
                let more = order[seen.len()..last].iter().map(|node| self.nodes[*node]);
                let seen: Vec<_> = seen.iter().copied().chain(more).collect();
                let next = match seen.len() == order.len() {
                    true => self.judged(command, &seen, *is_second),
                    false => Progress::Asks(seen, *is_second),
                };
                vec![(self.clone(), next)]
            }
            Progress::Sets(sets) => self.sets(command, *sets),
        }
    }

    fn judged(&self, command: Command, seen: &[Option<FakeNode>], is_second: bool) -> Progress {
        let Ok(step) = command.judge(seen) else {
            return Progress::Ended;
        };
        let removed = match command {
            Command::End(_, removed) => removed.filter(|_| !step.left_over.is_empty()),
            _ => None,
        };
        // An operator who does not name the node has stopped it.
        let runs =
            |label: &String| self.nodes[number(label)].is_some_and(|node| node.size != REMOVED);
        if matches!(command, Command::End(_, None)) && step.left_over.iter().any(runs) {
            return Progress::Ended;
        }
        let order = command.asks();
        Progress::Sets(Sets {
            removed,
            left: step
                .nodes
                .iter()
                .fold(0, |left, at| left | (1 << order[*at])),
            to: FakeNode::wanted(&step.size),
            has_failed: false,
            is_second,
        })
    }

    fn sets(&self, command: Command, sets: Sets) -> Vec<(Cluster, Progress)> {
        let again = match sets.is_second {
            true => Progress::Ended,
            false => Progress::Asks(Vec::new(), true),
        };
        let set = |node: usize, to| self.nodes[node].and_then(|now| now.set(to));
        if let Some(gone) = sets.removed {
            let removed = None;
            return match set(gone, FakeNode::of(REMOVED)) {
                None => vec![(self.clone(), again)],
                now => vec![(
                    self.with(gone, now),
                    Progress::Sets(Sets { removed, ..sets }),
                )],
            };
        }
        let each = members(sets.left).map(|node| {
            let now = set(node, sets.to);
            let mut cluster = self.with(node, now.or(self.nodes[node]));
            let has_failed = sets.has_failed || now.is_none();
            let left = sets.left & !(1 << node);
            let next = match (left, has_failed) {
                (0, true) => again.clone(),
                (0, false) => {
                    cluster.give(command);
                    Progress::Ended
                }
                _ => Progress::Sets(Sets {
                    left,
                    has_failed,
                    ..sets
                }),
            };
            (cluster, next)
        });
        each.collect()
    }

    /// Clients are given the list that a command has made good, and operators name it, and the one before while it may be gone back to.
    fn give(&mut self, command: Command) {
        let (before, now) = match command {
            Command::Add(list, node) => (list, list | (1 << node)),
            Command::Remove(list, node) => (list, list & !(1 << node)),
            Command::End(list, _) | Command::GiveUp(list) => (list, list),
            Command::Stop(_) => return,
        };
        self.given.insert(now);
        self.named = BTreeSet::from([before, now]);
    }

    /// The nodes after the time of a lock, of each of which the locks have ended by itself.
    fn later(&self) -> impl Iterator<Item = Cluster> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(at, node)| {
            let node = node.filter(|node| node.recent > 0)?;
            Some(self.with(at, Some(FakeNode { recent: 0, ..node })))
        })
    }

    fn check(&self) {
        let votes = |list: List| {
            let voting = members(list).filter(|node| {
                self.nodes[*node].is_some_and(|node| {
                    ((node.lengths() | node.recent) >> list.count_ones()) & 1 == 1
                })
            });
            voting.fold(0, |votes: List, node| votes | (1 << node))
        };
        let needs = |list: List| majority(count(list));
        for first in &self.given {
            for second in self.given.iter().filter(|second| *second > first) {
                let (one, other) = (votes(*first), votes(*second));
                let is_apart = count(one) >= needs(*first)
                    && count(other) >= needs(*second)
                    && count(one | other) >= needs(*first) + needs(*second);
                assert!(!is_apart, "{first:b} and {second:b}: {self:?}");
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.named.iter().any(|list| {
            let is_right = |node: usize| {
                self.nodes[node].is_some_and(|node| (node.size, node.next) == (count(*list), None))
            };
            members(*list).all(is_right)
        })
    }

    /// The states that one command leads to, and what its words name where it is refused, once all locks have ended.
    fn ways(&self) -> Vec<Cluster> {
        let mut quiet = self.clone();
        for node in quiet.nodes.iter_mut().flatten() {
            node.recent = 0;
        }
        let mut ways = Vec::new();
        for command in Command::all(&quiet.named, quiet.nodes.len()) {
            let seen: Vec<_> = command
                .asks()
                .iter()
                .map(|node| quiet.nodes[*node])
                .collect();
            match (command.judge(&seen), command) {
                (Ok(_), _) => {
                    let mut now = (quiet.clone(), Progress::Asks(Vec::new(), true));
                    while now.1 != Progress::Ended {
                        now = now.0.steps(command, &now.1, true).remove(0);
                    }
                    ways.push(now.0);
                }
                (Err(why), Command::Remove(_, node))
                    if why.remedy.contains("CONFIG SET cluster-size removed") =>
                {
                    ways.push(quiet.with(node, Some(FakeNode::of(REMOVED))));
                }
                (
                    Err(why),
                    Command::Add(list, _) | Command::Remove(list, _) | Command::GiveUp(list),
                ) if why.is_for_silence => {
                    // Each node that is away is replaced, as the remedy says.
                    let asks = command.asks().into_iter();
                    let away = asks.filter(|node| quiet.nodes[*node].is_none());
                    ways.extend(away.map(|node| {
                        let is_listed = (list >> node) & 1 == 1;
                        let size = count(list) + usize::from(!is_listed);
                        quiet.with(node, Some(FakeNode::of(size)))
                    }));
                }
                _ => {}
            }
        }
        ways
    }
}

/// Tries all pairs of commands from this state on, and pairs again from each state that they leave.
fn explore(start: Cluster, rounds: usize, (at_once, with_stop): (bool, bool)) -> usize {
    let mut known = HashSet::from([start.clone()]);
    let mut from = vec![start];
    for _ in 0..rounds {
        let mut left = Vec::new();
        for cluster in from {
            let mut commands = Command::all(&cluster.named, cluster.nodes.len());
            if with_stop && cluster.nodes.iter().all(Option::is_some) {
                commands.extend((0..cluster.nodes.len()).map(Command::Stop));
            }
            for (at, first) in commands.iter().enumerate() {
                for second in &commands[at..] {
                    if !matches!((first, second), (Command::Stop(_), Command::Stop(_))) {
                        left.extend(interleave(&cluster, [*first, *second], at_once));
                    }
                }
            }
        }
        from = left
            .into_iter()
            .filter(|left| known.insert(left.clone()))
            .collect();
    }
    let mut leads: HashMap<Cluster, bool> = HashMap::new();
    for cluster in &known {
        assert!(
            is_left(cluster, &mut leads),
            "no command leaves it: {cluster:?}"
        );
    }
    known.len()
}

/// All states that two commands leave.
fn interleave(start: &Cluster, commands: [Command; 2], at_once: bool) -> HashSet<Cluster> {
    let begins = Progress::Asks(Vec::new(), false);
    let mut open = vec![(start.clone(), [begins.clone(), begins])];
    let mut known: HashSet<_> = open.iter().cloned().collect();
    let mut left = HashSet::new();
    while let Some((cluster, progress)) = open.pop() {
        cluster.check();
        if progress.iter().all(|progress| *progress == Progress::Ended) {
            left.insert(cluster.clone());
        }
        let mut next = Vec::new();
        for (at, command) in commands.into_iter().enumerate() {
            for (after, step) in cluster.steps(command, &progress[at], at_once) {
                let mut progress = progress.clone();
                progress[at] = step;
                next.push((after, progress));
            }
        }
        // Nodes answer one look within the time of a lock.
        let looks =
            |progress: &Progress| matches!(progress, Progress::Asks(seen, _) if !seen.is_empty());
        if !progress.iter().any(looks) {
            next.extend(cluster.later().map(|later| (later, progress.clone())));
        }
        open.extend(next.into_iter().filter(|state| known.insert(state.clone())));
    }
    left
}

/// Whether commands lead from this state to a settled list.
fn is_left(start: &Cluster, leads: &mut HashMap<Cluster, bool>) -> bool {
    if let Some(leads) = leads.get(start) {
        return *leads;
    }
    let mut open = VecDeque::from([start.clone()]);
    let mut known = HashSet::from([start.clone()]);
    let mut is_left = false;
    while let Some(cluster) = open.pop_front() {
        if cluster.is_settled() || leads.get(&cluster) == Some(&true) {
            is_left = true;
            break;
        }
        open.extend(
            cluster
                .ways()
                .into_iter()
                .filter(|way| known.insert(way.clone())),
        );
    }
    leads.insert(start.clone(), is_left);
    is_left
}

fn members(list: List) -> impl Iterator<Item = usize> {
    (0..LABELS.len()).filter(move |node| (list >> node) & 1 == 1)
}

fn count(list: List) -> usize {
    members(list).count()
}

fn number(label: &str) -> usize {
    LABELS.iter().position(|other| *other == label).unwrap()
}

const LABELS: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const REMOVED: usize = 255;

#[test]
fn what_two_commands_at_once_leave_is_left_by_commands_and_majorities_always_meet() {
    let states = [
        explore(Cluster::new(3, 0), 2, (true, true)),
        explore(Cluster::new(3, 1), 2, (true, false)),
        explore(Cluster::new(2, 1), 2, (false, true)),
        explore(Cluster::new(3, 2), 1, (false, false)),
        explore(Cluster::new(4, 1), 1, (false, false)),
    ];
    assert!(states.iter().sum::<usize>() > 1_000, "{states:?}");
}
