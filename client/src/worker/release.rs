//! A release on all nodes that somebody waits for.
//!
//! Invariant: it ends when a majority has freed the lock, all nodes have told, or the nodes have
//! had their time; what is still owed then stays in the nodes' queues.

use std::rc::Rc;
use std::sync::Arc;

use super::attempt::sleep_until;
use super::mailbox::{Content, Owned};
use super::queue::Kind;
use super::{Shared, Subject};
use crate::outcome::{Cause, NodeRelease, Release};
use crate::votes::majority;

pub(super) async fn release(shared: &Rc<Shared>, subject: &Subject) -> Release {
    let mailbox = Owned::default();
    let now = shared.now();
    let count = shared.nodes.len();
    let mut told: Vec<Option<NodeRelease>> = vec![None; count];
    for (node, told) in told.iter_mut().enumerate() {
        let to = Some(mailbox.address());
        if let Err(cause) = shared.submit(node, Kind::Release, subject, 0, to, now) {
            *told = Some(NodeRelease::Not(cause));
        }
    }
    let until = now.after(shared.patience(subject.ttl));
    let (mut freed, mut open) = (0, told.iter().filter(|told| told.is_none()).count());
    while open > 0 && freed < majority(count) {
        if let Some(letter) = mailbox.take() {
            if let Content::Released(answer) = letter.content {
                freed += usize::from(answer == NodeRelease::Freed);
                open -= usize::from(told[letter.node].is_none());
                told[letter.node] = Some(answer);
            }
            continue;
        }
        tokio::select! {
            biased;
            () = mailbox.arrived() => {}
            () = sleep_until(shared, until) => break,
        }
    }
    let not_yet = if open == 0 || freed >= majority(count) {
        Cause::NotWaitedFor
    } else {
        Cause::Silent
    };
    let nodes = shared.labels.iter().zip(told);
    let report = |(node, (label, told)): (usize, (&Arc<str>, Option<NodeRelease>))| {
        let unreached = || shared.nodes[node].unreached();
        let not_told = || NodeRelease::Not(unreached().unwrap_or_else(|| not_yet.clone()));
        (Arc::clone(label), told.unwrap_or_else(not_told))
    };
    Release {
        nodes: nodes.enumerate().map(report).collect(),
    }
}
