//! Attempts to acquire, until one succeeds, the wait is over, or the caller is gone.
//!
//! Invariant: every failed attempt has queued its release on all nodes before anything else is
//! done, behind its own requests on the same connections; the next attempt has a new token.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::mailbox::{Content, Letter, Owned};
use super::queue::Kind;
use super::{Shared, Subject};
use crate::acquisition::{Acquisition, Answer, AttemptAction, AttemptEvent, Decision, Terms, Vote};
use crate::clock::{ClientInstant, slice};
use crate::lock::{Wait, shown};
use crate::orders::AcquireOrder;
use crate::outcome::{AcquireError, Cause, NodeAnswer, NodeReport};
use crate::token::Token;
use crate::votes::majority;

/// A successful attempt, with the mailbox in which the other nodes' answers arrive.
pub(super) struct Acquired {
    pub(super) attempt: Acquisition,
    pub(super) terms: Terms,
    pub(super) subject: Subject,
    pub(super) valid_until: ClientInstant,
    pub(super) mailbox: Owned,
}

/// An attempt that failed, and what it came to.
struct Failure {
    attempt: Acquisition,
    decision: Decision,
    /// When enough nodes are free again, if nobody renews.
    free_at: Option<ClientInstant>,
}

/// Tries until the order is fulfilled or cannot be. `None` if the caller is gone.
pub(super) async fn acquire(
    shared: &Rc<Shared>,
    order: &mut AcquireOrder,
) -> Option<Result<Acquired, AcquireError>> {
    let began = shared.now();
    let mut attempts = 0_u32;
    let mut last: Option<Failure> = None;
    loop {
        // The first round has all the time its nodes may need; later ones end with the wait.
        let patience_max = match last {
            Some(_) => left(shared, order.wait, began).max(ROUND_LEAST),
            None => Duration::MAX,
        };
        let is_cut = patience_max < shared.patience(order.ttl);
        let (attempt, decision) = match once(shared, order, patience_max).await {
            Round::Acquired(acquired) => return Some(Ok(*acquired)),
            Round::Cancelled => return None,
            Round::Failed(attempt, decision) => (*attempt, decision),
        };
        let failed_at = shared.now();
        let is_busy = matches!(decision, Decision::Busy { .. });
        // A round that was cut short knows less than the one before it.
        let failure = match last.take() {
            Some(before) if is_cut && !is_busy => before,
            before => Failure {
                attempt,
                decision,
                free_at: before.and_then(|before| before.free_at),
            },
        };
        let failure = last.insert(failure);
        let wait_left = left(shared, order.wait, began);
        if is_busy && !wait_left.is_zero() {
            let token = Token::from_bytes(Bytes::new());
            let subject = Subject::new(order.name.clone(), token, order.ttl);
            let told = tokio::select! {
                biased;
                () = order.reply.closed() => return None,
                told = time_left(shared, &subject, &failure.attempt, wait_left) => told,
            };
            failure.free_at = told.map(|told| shared.now().after(told));
        }
        let time_left = failure.free_at.map(|at| shared.now().until(at));
        // A round that cannot end within the wait is not begun.
        let spare = left(shared, order.wait, began).saturating_sub(round_needs(shared));
        if spare.is_zero() {
            let waited = shared.now().since(began);
            return Some(Err(error(shared, order, failure, time_left, waited)));
        }
        let delay = shared.settings.retry_delay;
        let pause = delay.pause(attempts, rand::random(), time_left);
        attempts = attempts.saturating_add(1);
        let next = failed_at.after(pause).earlier(shared.now().after(spare));
        tokio::select! {
            biased;
            () = order.reply.closed() => return None,
            () = sleep_until(shared, next) => {}
        }
    }
}

/// What is left of a wait.
fn left(shared: &Shared, wait: Wait, began: ClientInstant) -> Duration {
    match wait {
        Wait::None => Duration::ZERO,
        Wait::For(wait) => wait.saturating_sub(shared.now().since(began)),
        Wait::Forever => Duration::MAX,
    }
}

/// How long a majority of the nodes takes for a round, as far as was measured.
fn round_needs(shared: &Shared) -> Duration {
    let nodes = shared.nodes.iter();
    let mut usual: Vec<_> = nodes
        .map(|node| node.state.borrow().round_trip.usual())
        .collect();
    usual.sort_unstable();
    usual[majority(usual.len()) - 1]
}

enum Round {
    Acquired(Box<Acquired>),
    Failed(Box<Acquisition>, Decision),
    Cancelled,
}

async fn once(shared: &Rc<Shared>, order: &mut AcquireOrder, patience_max: Duration) -> Round {
    let terms = terms(shared, order);
    let subject = Subject::new(order.name.clone(), Token::fresh(), order.ttl);
    let mailbox = Owned::default();
    let mut actions = Vec::with_capacity(terms.nodes + 1);
    // Read before the first byte is sent: the nodes' leases begin later than this.
    let now = shared.now();
    let patience = |node: usize| shared.nodes[node].patience(order.ttl).min(patience_max);
    let mut attempt = Acquisition::start(terms, now, patience, &mut actions);
    let mut timer = attempt.started();
    let mut sleeping = Box::pin(sleep(Duration::ZERO));
    let mut decision = None;
    loop {
        for action in actions.drain(..) {
            match action {
                AttemptAction::Send { node } => {
                    let to = Some(mailbox.address());
                    if let Err(cause) = shared.submit(node, Kind::Take, &subject, 0, to, now) {
                        let content = Content::Taken(Answer::Not(cause));
                        mailbox.address().put(Letter {
                            node,
                            round: 0,
                            content,
                        });
                    }
                }
                AttemptAction::ArmTimer(at) => timer = at,
                AttemptAction::Decide(decided) => decision = Some(decided),
                AttemptAction::ReleaseEverywhere | AttemptAction::Release { .. } => {
                    shared.release_everywhere(&subject);
                }
            }
        }
        match decision.take() {
            Some(Decision::Acquired { valid_until }) => {
                let acquired = Acquired {
                    attempt,
                    terms,
                    subject,
                    valid_until,
                    mailbox,
                };
                return Round::Acquired(Box::new(acquired));
            }
            Some(Decision::Cancelled) => return Round::Cancelled,
            Some(decided) => return Round::Failed(Box::new(attempt), decided),
            None => {}
        }
        if let Some(Letter { node, content, .. }) = mailbox.take() {
            if let Content::Taken(answer) = content {
                let event = AttemptEvent::Answered { node, answer };
                attempt.handle(shared.now(), event, &mut actions);
            }
            continue;
        }
        let left = shared.now().until(timer);
        sleeping
            .as_mut()
            .reset(tokio::time::Instant::now() + slice(left));
        let event = tokio::select! {
            biased;
            () = mailbox.arrived() => continue,
            () = order.reply.closed() => AttemptEvent::Cancel,
            () = &mut sleeping => AttemptEvent::Timer,
        };
        attempt.handle(shared.now(), event, &mut actions);
    }
}

fn terms(shared: &Shared, order: &AcquireOrder) -> Terms {
    Terms {
        nodes: shared.nodes.len(),
        ttl: order.ttl,
        drift: shared.settings.drift,
        min_validity: order.min_validity,
    }
}

/// Time until enough nodes are free again, as far as the nodes that refused tell within `limit`.
async fn time_left(
    shared: &Rc<Shared>,
    subject: &Subject,
    attempt: &Acquisition,
    limit: Duration,
) -> Option<Duration> {
    let mailbox = Owned::default();
    let now = shared.now();
    let mut asked = 0_usize;
    for (node, vote) in attempt.votes().iter().enumerate() {
        let is_busy = matches!(vote, Vote::Told(Answer::Busy { .. }));
        let to = Some(mailbox.address());
        if is_busy
            && shared
                .submit(node, Kind::TimeLeft, subject, 0, to, now)
                .is_ok()
        {
            asked += 1;
        }
    }
    let until = now.after(shared.patience(subject.ttl).min(limit));
    let mut lefts = Vec::new();
    while asked > 0 {
        if let Some(letter) = mailbox.take() {
            asked -= 1;
            if let Content::TimeLeft(Some(left)) = letter.content {
                lefts.push(left);
            }
            continue;
        }
        tokio::select! {
            biased;
            () = mailbox.arrived() => {}
            () = sleep_until(shared, until) => break,
        }
    }
    lefts.sort_unstable();
    let needed = majority(shared.nodes.len()).saturating_sub(attempt.ballot().distinct());
    lefts
        .get(needed.saturating_sub(1))
        .or(lefts.last())
        .copied()
}

/// Sleeps in slices, reading the client's clock after each.
pub(super) async fn sleep_until(shared: &Shared, until: ClientInstant) {
    loop {
        let left = shared.now().until(until);
        if left.is_zero() {
            return;
        }
        sleep(slice(left)).await;
    }
}

fn error(
    shared: &Shared,
    order: &AcquireOrder,
    failure: &Failure,
    time_left: Option<Duration>,
    waited: Duration,
) -> AcquireError {
    let name = shown(&order.name);
    let needed = majority(shared.nodes.len());
    match &failure.decision {
        Decision::Busy { holder } => AcquireError::Busy {
            name,
            holder: holder.clone(),
            time_left,
            waited,
        },
        Decision::NoQuorum => AcquireError::NoQuorum {
            name,
            needed,
            nodes: reports(shared, &failure.attempt),
            waited,
        },
        Decision::TimedOut => AcquireError::TimedOut {
            name,
            nodes: reports(shared, &failure.attempt),
            waited,
        },
        Decision::Cancelled | Decision::Acquired { .. } => AcquireError::Cancelled { name },
    }
}

fn reports(shared: &Shared, attempt: &Acquisition) -> Vec<NodeReport> {
    let answer = |node: usize, vote: &Vote| match vote {
        Vote::Told(Answer::Granted(_)) => match attempt.ballot().twin(node) {
            Some(twin) if twin < node => {
                NodeAnswer::Not(Cause::SameNode(Arc::clone(&shared.labels[twin])))
            }
            _ => NodeAnswer::Granted,
        },
        Vote::Told(Answer::Busy { holder, .. }) => NodeAnswer::Busy {
            holder: holder.clone(),
        },
        Vote::Told(Answer::Not(cause)) => NodeAnswer::Not(cause.clone()),
        Vote::Overdue => NodeAnswer::Not(Cause::Silent),
        Vote::Awaited(_) => NodeAnswer::Not(Cause::NotWaitedFor),
    };
    let votes = attempt.votes().iter().enumerate();
    let report = |(node, vote)| NodeReport {
        node: Arc::clone(&shared.labels[node]),
        answer: answer(node, vote),
    };
    votes.map(report).collect()
}

/// A round is given this long even when the wait is nearly over.
const ROUND_LEAST: Duration = Duration::from_millis(20);
