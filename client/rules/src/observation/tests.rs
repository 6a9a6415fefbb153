//! Observations of nodes that answer at once, or not at all.

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::leader::Leader;
use crate::token::Token;

#[derive(Clone)]
struct Node {
    holder: Option<Sight>,
    answers: bool,
    tracks: bool,
}

struct Trial {
    observation: Observation,
    now: ClientInstant,
    nodes: Vec<Node>,
    reports: Vec<Observed>,
    looks: usize,
    actions: VecDeque<ObservationAction>,
}

const LEFT: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(1);

fn sight(token: &'static str, fence: Option<u64>) -> Sight {
    Sight {
        token: Token::from(token),
        owner: Some(Arc::from(format!("host {token}"))),
        fence,
        left: Some(LEFT),
        is_full: true,
    }
}

fn leader(token: &'static str, fence: Option<u64>) -> Observed {
    let owner = Some(Arc::from(format!("host {token}")));
    Observed::Leader(Leader::new(Token::from(token), owner, fence))
}

impl Trial {
    /// Nodes of which so many are held by this holder.
    fn of(nodes: usize, held: usize, holder: &Sight) -> Self {
        let node = |index| Node {
            holder: (index < held).then(|| holder.clone()),
            answers: true,
            tracks: true,
        };
        Self::with((0..nodes).map(node).collect())
    }

    fn with(nodes: Vec<Node>) -> Self {
        let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut actions = Vec::new();
        let observation = Observation::start(nodes.len(), false, now, PATIENCE, &mut actions);
        let mut trial = Self {
            observation,
            now,
            nodes,
            reports: Vec::new(),
            looks: 0,
            actions: actions.into(),
        };
        trial.settle();
        trial
    }

    fn happens(&mut self, event: ObservationEvent) {
        let mut actions = Vec::new();
        self.observation
            .handle(self.now, 0.5, PATIENCE, event, &mut actions);
        self.actions.extend(actions);
    }

    fn settle(&mut self) {
        while let Some(action) = self.actions.pop_front() {
            match action {
                ObservationAction::Report(observed) => self.reports.push(observed),
                ObservationAction::Look { node, round } => {
                    self.looks += 1;
                    let Node {
                        holder,
                        answers,
                        tracks,
                    } = self.nodes[node].clone();
                    let by = Identity::new(Arc::from(format!("n{node}")), 0);
                    self.happens(ObservationEvent::Seen {
                        node,
                        round,
                        seen: match answers {
                            true => Ok((by, holder)),
                            false => Err(Cause::Silent),
                        },
                        is_tracked: answers && tracks,
                    });
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        let mut steps = 0;
        while until.has_reached(self.observation.next_time()) {
            let next = self.observation.next_time();
            self.now = self.now.after(self.now.until(next));
            self.happens(ObservationEvent::Timer);
            self.settle();
            steps += 1;
            assert!(steps < 100_000, "time does not pass");
        }
        self.now = until;
    }

    /// The lock changes at these nodes, which say so.
    fn set(&mut self, nodes: impl IntoIterator<Item = usize>, holder: Option<&Sight>) {
        for node in nodes {
            self.nodes[node].holder = holder.cloned();
            if self.nodes[node].answers && self.nodes[node].tracks {
                self.happens(ObservationEvent::Changed(node));
                self.settle();
            }
        }
    }

    fn take(&mut self) -> Vec<Observed> {
        std::mem::take(&mut self.reports)
    }
}

#[test]
fn the_leader_is_whom_a_majority_holds_and_no_minority_is_reported() {
    let a = sight("a", Some(3));
    assert_eq!(Trial::of(5, 5, &a).take(), [leader("a", Some(3))]);
    assert_eq!(Trial::of(5, 3, &a).take(), [leader("a", Some(3))]);
    assert_eq!(Trial::of(5, 0, &a).take(), [Observed::Vacant]);
    // Somebody may be about to have it; in the end nobody has.
    let mut trial = Trial::of(5, 2, &a);
    assert_eq!(trial.take(), []);
    trial.pass(Duration::from_secs(1));
    assert_eq!(trial.take(), [Observed::Vacant]);
    // What the silent ones say is not known.
    let mut trial = Trial::of(5, 2, &a);
    let mut nodes = trial.nodes.split_off(0);
    nodes[2..].iter_mut().for_each(|node| node.answers = false);
    let mut trial = Trial::with(nodes.clone());
    trial.pass(Duration::from_secs(5));
    assert_eq!(trial.take(), [Observed::Unknown]);
    nodes[..2].iter_mut().for_each(|node| node.holder = None);
    let mut trial = Trial::with(nodes);
    trial.pass(Duration::from_secs(5));
    assert_eq!(
        trial.take(),
        [Observed::Unknown],
        "two free nodes are no majority"
    );
}

#[test]
fn one_node_behind_two_addresses_is_no_majority() {
    let a = sight("a", None);
    let mut actions = Vec::new();
    let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
    let mut observation = Observation::start(3, false, now, PATIENCE, &mut actions);
    for node in 0..3 {
        let by = Identity::new(Arc::from(if node < 2 { "same" } else { "other" }), 0);
        let holder = (node < 2).then(|| a.clone());
        let event = ObservationEvent::Seen {
            node,
            round: 1,
            seen: Ok((by, holder)),
            is_tracked: true,
        };
        observation.handle(now, 0.5, PATIENCE, event, &mut actions);
    }
    let report = actions.pop();
    let unknown = ObservationAction::Report(Observed::Unknown);
    assert_eq!(report, Some(unknown), "one of two nodes");
}

#[test]
fn a_renewal_costs_one_look_and_a_quiet_lock_few() {
    let a = sight("a", None);
    let mut trial = Trial::of(5, 5, &a);
    trial.pass(Duration::from_secs(5));
    let before = trial.looks;
    let mut seconds = 0;
    while seconds < 3_600 {
        // The nodes are not equally far.
        for node in 0..5 {
            trial.set([node], Some(&a));
            trial.pass(Duration::from_millis(15 * node as u64));
        }
        trial.pass(Duration::from_secs(10));
        seconds += 10;
    }
    let looks = trial.looks - before;
    assert!(looks <= 720, "{looks} looks in an hour");
    assert_eq!(trial.take().len(), 1, "nothing has changed");
}

#[test]
fn a_new_leader_is_reported_at_once() {
    let [a, b] = [sight("a", Some(3)), sight("b", Some(4))];
    let mut trial = Trial::of(5, 5, &a);
    // However often all were asked and nothing had changed.
    trial.pass(Duration::from_secs(1_200));
    trial.take();
    trial.set(0..5, None);
    trial.pass(Duration::from_millis(100));
    assert_eq!(trial.take(), [Observed::Vacant]);
    trial.set(0..5, Some(&b));
    trial.pass(Duration::from_millis(100));
    assert_eq!(trial.take(), [leader("b", Some(4))]);
    // Without a moment in between, and with one node that has not heard of it.
    trial.set(1..5, Some(&sight("c", Some(5))));
    trial.pass(Duration::from_millis(100));
    assert_eq!(trial.take(), [leader("c", Some(5))]);
}

#[test]
fn a_change_right_behind_the_first_count_is_not_missed() {
    let b = sight("b", Some(1));
    let mut trial = Trial::of(5, 0, &b);
    trial.pass(Duration::from_millis(100));
    trial.set(0..5, Some(&b));
    trial.pass(Duration::from_millis(100));
    assert_eq!(trial.take(), [Observed::Vacant, leader("b", Some(1))]);
}

#[test]
fn a_change_at_a_node_that_had_answered_is_not_missed() {
    let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
    let mut actions = Vec::new();
    let mut observation = Observation::start(3, false, now, PATIENCE, &mut actions);
    let seen = |node, token| ObservationEvent::Seen {
        node,
        round: 1,
        seen: Ok((
            Identity::new(Arc::from(format!("n{node}")), 0),
            Some(sight(token, Some(1))),
        )),
        is_tracked: true,
    };
    // The lock changes at all nodes. One has answered before, and two have not told yet.
    for event in [
        seen(0, "a"),
        ObservationEvent::Changed(0),
        seen(1, "a"),
        seen(2, "a"),
    ] {
        observation.handle(now, 0.5, PATIENCE, event, &mut actions);
    }
    assert!(actions.contains(&ObservationAction::Report(leader("a", Some(1)))));
    actions.clear();
    let soon = now.after(Duration::from_millis(100));
    observation.handle(soon, 0.5, PATIENCE, ObservationEvent::Timer, &mut actions);
    assert_eq!(actions.len(), 3, "all are asked again: {actions:?}");
}

#[test]
fn what_a_node_did_not_tell_because_its_connection_had_ended_is_found() {
    let [a, b] = [sight("a", None), sight("b", None)];
    let mut trial = Trial::of(5, 5, &a);
    trial.pass(Duration::from_secs(1));
    trial.take();
    // The leader changes while the observer is cut off from three nodes: no node tells.
    for node in 0..3 {
        trial.nodes[node].answers = false;
        trial.happens(ObservationEvent::Lost(node));
    }
    trial.settle();
    trial.pass(Duration::from_secs(3));
    trial
        .nodes
        .iter_mut()
        .for_each(|node| node.holder = Some(b.clone()));
    assert_eq!(
        trial.take(),
        [],
        "the leader that was known leads, as far as is known"
    );
    trial.nodes.iter_mut().for_each(|node| node.answers = true);
    trial.pass(Duration::from_millis(2_500));
    assert_eq!(trial.take(), [leader("b", None)]);
    // One node alone that comes back with another holder than before.
    trial.nodes[4].answers = false;
    trial.happens(ObservationEvent::Lost(4));
    trial.settle();
    let c = sight("c", None);
    trial
        .nodes
        .iter_mut()
        .for_each(|node| node.holder = Some(c.clone()));
    trial.nodes[4].answers = true;
    trial.pass(Duration::from_millis(2_000));
    assert_eq!(trial.take(), [leader("c", None)]);
}

#[test]
fn the_end_of_a_lease_is_noticed_although_no_node_tells() {
    let a = sight("a", Some(1));
    let mut trial = Trial::of(5, 5, &a);
    trial.take();
    trial.nodes.iter_mut().for_each(|node| node.holder = None);
    trial.pass(LEFT - Duration::from_millis(1));
    assert_eq!(trial.take(), []);
    trial.pass(Duration::from_secs(1));
    assert_eq!(trial.take(), [Observed::Vacant]);
}

#[test]
fn a_leader_is_unknown_once_its_lease_is_over_and_no_majority_answers() {
    let a = sight("a", None);
    let mut trial = Trial::of(5, 5, &a);
    trial.take();
    for node in 0..3 {
        trial.nodes[node].answers = false;
        trial.happens(ObservationEvent::Lost(node));
    }
    trial.settle();
    trial.pass(LEFT - Duration::from_secs(1));
    assert_eq!(trial.take(), []);
    trial.pass(Duration::from_secs(5));
    assert_eq!(trial.take(), [Observed::Unknown]);
    trial.nodes.iter_mut().for_each(|node| node.answers = true);
    trial.pass(Duration::from_secs(3));
    assert_eq!(trial.take(), [leader("a", None)]);
}

#[test]
fn fences_never_go_down_and_one_that_comes_later_is_reported() {
    let mut trial = Trial::of(5, 5, &sight("a", None));
    trial.pass(Duration::from_millis(100));
    trial.set([0, 1], Some(&sight("a", Some(7))));
    trial.set([2, 3, 4], Some(&sight("a", Some(6))));
    trial.pass(Duration::from_secs(2));
    // Found by the look upon a renewal, at a node that has told another one before.
    for _ in 0..2 {
        trial.set(0..5, Some(&sight("a", Some(7))));
        trial.pass(Duration::from_secs(2));
    }
    let told = [None, Some(6), Some(7)].map(|fence| leader("a", fence));
    assert_eq!(trial.take(), told);
    // What an earlier leader has left behind.
    trial.set(0..5, Some(&sight("old", Some(5))));
    trial.pass(Duration::from_secs(2));
    assert_eq!(trial.take(), []);
    trial.set(0..5, Some(&sight("b", Some(8))));
    trial.pass(Duration::from_secs(2));
    assert_eq!(trial.take(), [leader("b", Some(8))]);
}

#[test]
fn without_pushes_all_nodes_are_asked_now_and_then() {
    let [a, b] = [sight("a", None), sight("b", None)];
    let mut trial = Trial::of(3, 3, &a);
    trial.nodes.iter_mut().for_each(|node| node.tracks = false);
    let mut trial = Trial::with(trial.nodes);
    trial.take();
    trial.set(0..3, Some(&b));
    trial.pass(Duration::from_secs(11));
    assert_eq!(trial.take(), [leader("b", None)]);
    let looks = trial.looks;
    trial.pass(Duration::from_secs(600));
    assert!(trial.looks - looks <= 3 * 75, "{}", trial.looks - looks);
}

#[test]
fn a_minority_that_changes_all_the_time_costs_little() {
    let a = sight("a", None);
    let mut trial = Trial::of(5, 3, &a);
    let looks = trial.looks;
    for step in 0..600_u32 {
        let holder = step.is_multiple_of(2).then(|| sight("z", None));
        trial.set([4], holder.as_ref());
        trial.pass(Duration::from_millis(100));
    }
    assert_eq!(trial.take(), [leader("a", None)]);
    let looks = trial.looks - looks;
    assert!(looks <= 60 * 9, "{looks} looks in a minute");
}

#[test]
fn a_leader_is_certain_where_each_node_of_a_majority_that_it_holds_tells_of_changes() {
    let a = sight("a", None);
    for (held, tracked, is_certain) in [
        (0..5, 0..5, true),
        (0..5, 2..5, true),
        (0..3, 0..3, true),
        (0..5, 3..5, false),
        // The lock may end at two of its three nodes, and nothing tells so.
        (0..3, 2..5, false),
    ] {
        let node = |index: usize| Node {
            holder: held.contains(&index).then(|| a.clone()),
            answers: true,
            tracks: tracked.contains(&index),
        };
        let mut trial = Trial::with((0..5).map(node).collect());
        assert_eq!(trial.take(), [leader("a", None)]);
        let certain = trial.observation.certain().is_some();
        assert_eq!(certain, is_certain, "{held:?} {tracked:?}");
    }
}
