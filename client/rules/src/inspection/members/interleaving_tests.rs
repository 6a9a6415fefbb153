//! Two commands that change members at once, and two additions beside a command that has looked before, step by step, in all orders, on
//! nodes that keep the rules of `cluster-size`.
//!
//! Invariant: of two lists that clients were ever given, no two majorities without a node in common get votes within the time that a lock
//! lasts. And from each state that two commands leave, others lead to a list whose nodes all go by its length alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use command::Command;
use fake_node::{FakeNode, List, REMOVED, count, members, number};

use crate::votes::majority;

mod command;
mod fake_node;

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// It asks the nodes one after the other, the second time because some have not done what it said. Other commands have set these
    /// since it asked them.
    Asks(Vec<Option<FakeNode>>, bool, List),
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
    /// those that other commands have set since it asked them,
    stale: List,
    has_failed: bool,
    is_second: bool,
}

impl Sets {
    /// The nodes that it has not reached.
    fn to_do(self) -> List {
        self.removed
            .map_or(self.left, |gone| self.left | (1 << gone))
    }

    /// The same, where nothing is to be known of these nodes any more.
    fn without(self, nodes: List) -> Sets {
        Sets {
            stale: self.stale & !nodes,
            ..self
        }
    }

    /// The nodes that have been set on the way from here.
    fn done(self, after: &Cluster, next: &Progress) -> List {
        let left = match next {
            Progress::Sets(next) => next.to_do(),
            _ => 0,
        };
        let reached = self.to_do() & !left;
        let (gone, to) = match self.removed {
            Some(gone) => (1 << gone, FakeNode::of(REMOVED)),
            None => (reached, self.to),
        };
        let is_set = |node: &usize| after.nodes[*node].is_some_and(|now| now.goes_by(to));
        let set = members(reached & gone).filter(is_set);
        set.fold(0, |set, node| set | (1 << node))
    }
}

impl Progress {
    fn begins() -> Progress {
        Progress::Asks(Vec::new(), false, 0)
    }

    /// Another command has set these nodes: what this one has seen of them is not to be relied on.
    fn note_set(&mut self, command: Command, nodes: List) {
        match self {
            Progress::Asks(seen, _, stale) => {
                let asked = command.asks().into_iter().take(seen.len());
                *stale |= nodes & asked.fold(0, |asked, node| asked | (1 << node));
            }
            Progress::Sets(sets) => sets.stale |= nodes & sets.to_do(),
            Progress::Ended => {}
        }
    }
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
            Progress::Asks(seen, is_second, stale) => {
                if let Command::Stop(node) = command {
                    return vec![(self.with(node, None), Progress::Ended)];
                }
                let order = command.asks();
                let last = if at_once { order.len() } else { seen.len() + 1 };
                let more = order[seen.len()..last].iter().map(|node| self.nodes[*node]);
                let seen: Vec<_> = seen.iter().copied().chain(more).collect();
                vec![match seen.len() == order.len() {
                    true => self.judged(command, &seen, (*is_second, *stale)),
                    false => (self.clone(), Progress::Asks(seen, *is_second, *stale)),
                }]
            }
            Progress::Sets(sets) => self.sets(command, *sets),
        }
    }

    fn judged(
        &self,
        command: Command,
        seen: &[Option<FakeNode>],
        (is_second, stale): (bool, List),
    ) -> (Cluster, Progress) {
        let mut cluster = self.clone();
        let Ok(step) = command.judge(seen) else {
            return (cluster, Progress::Ended);
        };
        let removed = match command {
            Command::End(_, removed) => removed.filter(|_| !step.left_over.is_empty()),
            _ => None,
        };
        // An operator who does not name the node has stopped it.
        let runs =
            |label: &String| self.nodes[number(label)].is_some_and(|node| node.size != REMOVED);
        if matches!(command, Command::End(_, None)) && step.left_over.iter().any(runs) {
            return (cluster, Progress::Ended);
        }
        let order = command.asks();
        let left = step
            .nodes
            .iter()
            .fold(0, |left, at| left | (1 << order[*at]));
        if left == 0 {
            cluster.give(command);
            return (cluster, Progress::Ended);
        }
        let sets = Sets {
            removed,
            left,
            to: FakeNode::wanted(&step.size),
            stale,
            has_failed: false,
            is_second,
        };
        (cluster, Progress::Sets(sets.without(!sets.to_do())))
    }

    fn sets(&self, command: Command, sets: Sets) -> Vec<(Cluster, Progress)> {
        let again = match sets.is_second {
            true => Progress::Ended,
            false => Progress::Asks(Vec::new(), true, 0),
        };
        let set = |node: usize, to| {
            let is_stale = (sets.stale >> node) & 1 == 1;
            let now = self.nodes[node].filter(|now| !is_stale || now.goes_by(to));
            now.and_then(|now| now.set(to))
        };
        if let Some(gone) = sets.removed {
            let removed = None;
            return match set(gone, FakeNode::of(REMOVED)) {
                None => vec![(self.clone(), again)],
                now => vec![(
                    self.with(gone, now),
                    Progress::Sets(Sets { removed, ..sets }.without(1 << gone)),
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
                _ => {
                    let sets = Sets {
                        left,
                        has_failed,
                        ..sets
                    };
                    Progress::Sets(sets.without(1 << node))
                }
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
                    let mut now = (quiet.clone(), Progress::Asks(Vec::new(), true, 0));
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
                ) if !why.silent.is_empty() => {
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
                        let both = [*first, *second];
                        let start = (cluster.clone(), [(); 2].map(|()| Progress::begins()));
                        left.extend(interleave(start, both, at_once));
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

type State<const N: usize> = (Cluster, [Progress; N]);

/// All that one step of one of these commands may come to.
fn steps_of<const N: usize>(
    (cluster, progress): &State<N>,
    commands: [Command; N],
    (at, at_once): (usize, bool),
) -> Vec<State<N>> {
    let steps = cluster
        .steps(commands[at], &progress[at], at_once)
        .into_iter();
    let state = |(after, step): (Cluster, Progress)| {
        let mut all = progress.clone();
        if let Progress::Sets(sets) = progress[at] {
            let set = sets.done(&after, &step);
            for (other, command) in all.iter_mut().zip(commands) {
                other.note_set(command, set);
            }
        }
        all[at] = step;
        (after, all)
    };
    steps.map(state).collect()
}

/// All states that these commands leave.
fn interleave<const N: usize>(
    start: State<N>,
    commands: [Command; N],
    at_once: bool,
) -> HashSet<Cluster> {
    let mut known = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let mut left = HashSet::new();
    while let Some(state) = open.pop() {
        let (cluster, progress) = &state;
        cluster.check();
        if progress.iter().all(|progress| *progress == Progress::Ended) {
            left.insert(cluster.clone());
        }
        let steps = (0..N).flat_map(|at| steps_of(&state, commands, (at, at_once)));
        let mut next: Vec<_> = steps.collect();
        // Nodes answer one look within the time of a lock.
        let looks =
            |progress: &Progress| matches!(progress, Progress::Asks(seen, ..) if !seen.is_empty());
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

#[test]
fn a_command_that_has_looked_before_two_additions_undoes_neither() {
    let list = 0b11;
    let additions = [Command::Add(list, 2), Command::Add(list, 3)];
    let start = Cluster::new(2, 2);
    let mut left = HashSet::new();
    for stale in Command::all(&start.named, 4) {
        let commands = [stale, additions[0], additions[1]];
        let begins = [(); 3].map(|()| Progress::begins());
        left.extend(interleave((start.clone(), begins), commands, true));
    }
    // Two changes were begun at once. Of two commands that give them up one may be held up until the additions.
    let mut both = start;
    for (node, about) in [(0, "n2"), (1, "n3")] {
        both.nodes[node] = Some(FakeNode::wanted(&format!("2 3 {about}")));
    }
    let give_up = Command::GiveUp(list);
    let commands = [give_up, give_up, additions[0], additions[1]];
    let begins = [(); 4].map(|()| Progress::begins());
    left.extend(interleave((both, begins), commands, true));
    assert!(left.iter().any(|cluster| cluster.given.len() > 1));
}
