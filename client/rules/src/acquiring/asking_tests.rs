//! Verdicts over nodes of several clusters, in every order in which the nodes say who they are and grant the lock.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::register::Membership;
use crate::settings::Drift;
use crate::votes::majority;

const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
const CLUSTERS: [char; 3] = ['b', 'r', 'g'];

/// What has come from a node so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Entry {
    /// The cluster that it has named; `-` is none, and with `?` its INFO was not read yet.
    says: Option<char>,
    /// It was asked for the lock.
    is_asked: bool,
    has_answered: bool,
}

#[derive(Clone)]
struct State {
    register: Register,
    attempt: Acquisition,
    entries: Vec<Entry>,
    /// The nodes have the lock for another client.
    is_held: bool,
}

/// What was found in all orders of a list.
#[derive(Debug, Default)]
struct Found {
    acquired: usize,
    busy: usize,
    /// Grants that were no votes, where the lock is not held.
    without_vote: usize,
}

impl State {
    fn new(nodes: usize, is_held: bool) -> Self {
        let ttl = Duration::from_secs(10);
        let terms = Terms {
            nodes,
            spare_votes: 0,
            ttl,
            lock_delay: Duration::ZERO,
            drift: Drift::default(),
            min_validity: Duration::ZERO,
            reserve: None,
        };
        Self {
            register: Register::new(nodes, None),
            attempt: Acquisition::start(terms, START, |_| ttl, &mut Vec::new()),
            entries: vec![Entry::default(); nodes],
            is_held,
        }
    }

    /// The node says what its letter is: a capital one at its second login.
    fn log_in(&mut self, node: NodeIndex, letter: char) {
        let is_unread = letter.is_uppercase() && self.entries[node].says.is_none();
        if is_unread {
            self.register.admit_unread(node);
            self.entries[node].says = Some('?');
        } else {
            let letter = letter.to_ascii_lowercase();
            let said = Membership {
                cluster_id: cluster(letter),
                ..Membership::default()
            };
            self.register.admit_member(node, &said);
            self.entries[node].says = Some(letter);
        }
        for (node, entry) in self.entries.iter_mut().enumerate() {
            entry.is_asked |= entry.says.is_some() && self.register.outsider(node).is_none();
        }
    }

    fn answer(&mut self, node: NodeIndex) {
        let says = self.entries[node].says.unwrap();
        let by = Identity {
            cluster: cluster(says),
            ..Identity::new(node.to_string().into(), 1)
        };
        let answer = match self.is_held {
            true => Answer::Busy { by, holder: None },
            false => Answer::Granted(by),
        };
        let event = AttemptEvent::Answered {
            node,
            answer,
            fence: None,
        };
        self.entries[node].has_answered = true;
        let (register, attempt) = (&self.register, &mut self.attempt);
        take_in(attempt, register, START, event, &mut Vec::new());
    }

    /// All that may happen next.
    fn next(&self, letters: &[char]) -> Vec<Self> {
        let mut next = Vec::new();
        for (node, entry) in self.entries.iter().enumerate() {
            if entry.says.is_none() || entry.says == Some('?') {
                let mut state = self.clone();
                state.log_in(node, letters[node]);
                next.push(state);
            }
            if entry.is_asked && !entry.has_answered {
                let mut state = self.clone();
                state.answer(node);
                next.push(state);
            }
        }
        next
    }

    fn has_vote(&self, node: NodeIndex) -> bool {
        self.attempt.ballot().of(node).is_some()
    }

    /// A lock is reported. Where several clusters are known it rests on nodes of one of them, with such that name none where it
    /// has a majority.
    fn check(&self, letters: &[char]) {
        let named = |letter: char| {
            let entries = self.entries.iter();
            entries.filter(|entry| entry.says == Some(letter)).count()
        };
        let votes = |letter: char| {
            let entries = self.entries.iter().enumerate();
            let is_one = |(node, entry): &(NodeIndex, &Entry)| {
                entry.says == Some(letter) && self.has_vote(*node)
            };
            entries.filter(is_one).count()
        };
        let quorum = majority(self.entries.len());
        let of_one = |letter: char| match named(letter) >= quorum {
            true => votes(letter) + votes('-') + votes('?'),
            false => votes(letter),
        };
        let most = CLUSTERS.map(of_one).into_iter().fold(0, usize::max);
        let known = CLUSTERS.into_iter().filter(|letter| named(*letter) > 0);
        let is_mixed = known.count() > 1;
        assert!(
            !is_mixed || most >= quorum,
            "{letters:?}: {:?}",
            self.entries
        );
    }

    /// Several clusters are known, and none has a majority.
    fn is_undecided(&self) -> bool {
        let quorum = majority(self.entries.len());
        let named = CLUSTERS.map(|letter| {
            let entries = self.entries.iter();
            entries.filter(|entry| entry.says == Some(letter)).count()
        });
        let known = named.iter().filter(|count| **count > 0).count();
        known > 1 && named.iter().all(|count| *count < quorum)
    }

    /// What a state is known by, of those of one list.
    fn key(&self) -> Vec<(Entry, Option<bool>)> {
        let votes = |node| self.attempt.ballot().of(node);
        let named = |node| votes(node).map(|by| by.cluster.is_some());
        let entries = self.entries.iter().enumerate();
        entries.map(|(node, entry)| (*entry, named(node))).collect()
    }
}

fn cluster(letter: char) -> Option<Arc<str>> {
    let is_named = CLUSTERS.contains(&letter);
    is_named.then(|| letter.to_string().into())
}

fn search(letters: &[char], is_held: bool, found: &mut Found) {
    let mut seen = HashSet::new();
    let mut states = vec![State::new(letters.len(), is_held)];
    while let Some(state) = states.pop() {
        if !seen.insert(state.key()) {
            continue;
        }
        match state.attempt.decision() {
            Some(Decision::Acquired { .. }) => {
                state.check(letters);
                found.acquired += 1;
            }
            Some(Decision::Busy { .. }) => {
                assert!(!state.is_undecided(), "{letters:?}: {:?}", state.entries);
                found.busy += 1;
            }
            Some(_) => {}
            None => states.extend(state.next(letters)),
        }
        let answered = (0..letters.len()).filter(|node| state.entries[*node].has_answered);
        found.without_vote += answered.filter(|node| !state.has_vote(*node)).count();
    }
}

/// All lists of so many of these letters. In which order they stand does not matter, since all orders of events are searched.
fn lists(letters: &[char], nodes: usize) -> Vec<Vec<char>> {
    let mut lists = vec![Vec::new()];
    for _ in 0..nodes {
        let longer = |list: &Vec<char>| {
            let from = list.last().map_or(0, |last| {
                letters.iter().position(|letter| letter == last).unwrap()
            });
            let more = letters[from..].iter();
            more.map(|letter| [list.as_slice(), &[*letter]].concat())
                .collect::<Vec<_>>()
        };
        lists = lists.iter().flat_map(longer).collect();
    }
    lists
}

#[test]
fn no_lock_rests_on_votes_of_two_clusters_in_whatever_order_nodes_log_in_and_grant() {
    let mut found = Found::default();
    let letters = ['b', 'r', '-', 'g', 'B', 'R'];
    // Five nodes with all of these letters take long and show nothing else.
    for (count, nodes) in [(6, 2), (6, 3), (6, 4), (3, 5)] {
        for list in lists(&letters[..count], nodes) {
            search(&list, false, &mut found);
        }
    }
    assert!(found.acquired > 0 && found.without_vote > 0, "{found:?}");
}

#[test]
fn no_lock_is_said_to_be_held_by_nodes_of_a_cluster_that_may_not_count() {
    let mut found = Found::default();
    for (count, nodes) in [(6, 2), (6, 3), (6, 4), (3, 5)] {
        for list in lists(&['b', 'r', '-', 'g', 'B', 'R'][..count], nodes) {
            search(&list, true, &mut found);
        }
    }
    assert!(found.busy > 0 && found.acquired == 0, "{found:?}");
}
