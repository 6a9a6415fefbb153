//! The task of one lock: acquires it, keeps it, releases it.
//!
//! Invariant: it alone renews and releases its lock, so no renewal can follow a release. It ends
//! the lock when the guard is gone, whatever happened to the program that had it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::attempt::{Acquired, acquire};
use super::mailbox::{Content, Letter, Owned};
use super::queue::Kind;
use super::release::release;
use super::{Active, Shared, Subject};
use crate::acquisition::Answer;
use crate::clock::{ClientInstant, slice};
use crate::guard::{Guard, Standing};
use crate::holding::{ExtendAnswer, Holding, HoldingAction, HoldingEvent};
use crate::orders::{AcquireOrder, Wish};
use crate::outcome::{ExtendError, Loss, NodeReport};
use crate::votes::majority;

pub(super) async fn keep(shared: Rc<Shared>, active: Active, mut order: AcquireOrder) {
    let acquired = match acquire(&shared, &mut order).await {
        None => return,
        Some(Err(error)) => {
            // The caller may have gone in this very moment; nothing is held.
            let _gone = order.reply.send(Err(error));
            return;
        }
        Some(Ok(acquired)) => acquired,
    };
    let (wishes, wished) = mpsc::unbounded_channel();
    let (keeper, standing) = Keeper::start(shared, &order, acquired, wished);
    let guard = Guard::new(
        keeper.subject.name.clone(),
        keeper.subject.token.clone(),
        Arc::clone(&keeper.shared.labels),
        wishes,
        standing,
        Arc::clone(&keeper.shared.settings.clock),
    );
    // A guard that nobody takes is dropped with the error, and thereby released.
    let _gone = order.reply.send(Ok(guard));
    keeper.run().await;
    drop(active);
}

struct Keeper {
    shared: Rc<Shared>,
    subject: Subject,
    holding: Holding,
    mailbox: Owned,
    wished: mpsc::UnboundedReceiver<Wish>,
    standing: watch::Sender<Standing>,
    timer: ClientInstant,
    actions: Vec<HoldingAction>,
    extenders: Vec<oneshot::Sender<Result<ClientInstant, ExtendError>>>,
}

/// Why the task stops to keep its lock.
enum End {
    /// The lock is over; a release that was asked for is answered.
    Released(Option<oneshot::Sender<crate::outcome::Release>>),
    Lost(Loss),
    Detached,
}

impl Keeper {
    fn start(
        shared: Rc<Shared>,
        order: &AcquireOrder,
        acquired: Acquired,
        wished: mpsc::UnboundedReceiver<Wish>,
    ) -> (Self, watch::Receiver<Standing>) {
        let Acquired {
            attempt,
            terms,
            subject,
            valid_until,
            mailbox,
        } = acquired;
        let mut actions = Vec::new();
        let holding = Holding::start(
            &attempt,
            terms,
            valid_until,
            order.renews,
            order.max_lifetime,
            &mut actions,
        );
        let valid_until = holding.valid_until();
        let (standing, watched) = watch::channel(Standing {
            valid_until,
            loss: None,
        });
        let timer = valid_until;
        let extenders = Vec::new();
        let keeper = Self {
            shared,
            subject,
            holding,
            mailbox,
            wished,
            standing,
            timer,
            actions,
            extenders,
        };
        (keeper, watched)
    }

    async fn run(mut self) {
        match self.keep().await {
            End::Released(None) => self.shared.release_everywhere(&self.subject),
            End::Released(Some(reply)) => {
                let released = release(&self.shared, &self.subject).await;
                // The caller may have stopped waiting; the release is on its way.
                let _gone = reply.send(released);
            }
            End::Lost(loss) => {
                self.shared.release_everywhere(&self.subject);
                self.stay_lost(&loss).await;
            }
            End::Detached => self.mailbox.leave_open(),
        }
    }

    async fn keep(&mut self) -> End {
        let mut sleeping = Box::pin(sleep(Duration::ZERO));
        loop {
            if let Some(loss) = self.act() {
                return End::Lost(loss);
            }
            if let Some(letter) = self.mailbox.take() {
                self.open(letter);
                continue;
            }
            let left = self.shared.now().until(self.timer);
            sleeping
                .as_mut()
                .reset(tokio::time::Instant::now() + slice(left));
            let event = tokio::select! {
                biased;
                wish = self.wished.recv() => match wish {
                    Some(Wish::Extend(reply)) => {
                        self.extenders.push(reply);
                        HoldingEvent::Extend
                    }
                    Some(Wish::Release(reply)) => return self.released(Some(reply)),
                    Some(Wish::Detach) => return End::Detached,
                    None => return self.released(None),
                },
                () = self.mailbox.arrived() => continue,
                () = &mut sleeping => HoldingEvent::Timer,
            };
            self.handle(event);
        }
    }

    fn released(&mut self, reply: Option<oneshot::Sender<crate::outcome::Release>>) -> End {
        self.handle(HoldingEvent::Release);
        self.tell_loss(&Loss::Released);
        End::Released(reply)
    }

    fn handle(&mut self, event: HoldingEvent) {
        let patience = self.shared.patience(self.subject.ttl);
        self.holding
            .handle(self.shared.now(), patience, event, &mut self.actions);
    }

    fn open(&mut self, letter: Letter) {
        let Letter {
            node,
            round,
            content,
        } = letter;
        match content {
            Content::Taken(answer) => self.handle(HoldingEvent::Taken {
                node,
                round,
                answer,
            }),
            Content::Extended(answer) => self.handle(HoldingEvent::Extended {
                node,
                round,
                answer,
            }),
            Content::Released(_) | Content::TimeLeft(_) | Content::Info(_) => {}
        }
    }

    /// Carries out what the rules ask for, including what follows from it at once. Says if the
    /// lock is lost.
    fn act(&mut self) -> Option<Loss> {
        let mut lost = None;
        while !self.actions.is_empty() {
            // Read before the bytes of this batch are sent, and after the rules' own reading.
            let now = self.shared.now();
            for action in std::mem::take(&mut self.actions) {
                match action {
                    HoldingAction::Extend { node, round } => {
                        if let Err(cause) = self.ask(node, Kind::Extend, round, now) {
                            let answer = ExtendAnswer::Not(cause);
                            self.handle(HoldingEvent::Extended {
                                node,
                                round,
                                answer,
                            });
                        }
                    }
                    HoldingAction::Take { node, round } => {
                        if let Err(cause) = self.ask(node, Kind::Take, round, now) {
                            let answer = Answer::Not(cause);
                            self.handle(HoldingEvent::Taken {
                                node,
                                round,
                                answer,
                            });
                        }
                    }
                    HoldingAction::ArmTimer(at) => self.timer = at,
                    HoldingAction::Renewed { valid_until } => {
                        self.standing
                            .send_modify(|standing| standing.valid_until = valid_until);
                        for reply in self.extenders.drain(..) {
                            // A caller that stopped waiting needs no answer.
                            let _gone = reply.send(Ok(valid_until));
                        }
                    }
                    HoldingAction::NotRenewed => self.tell_not_renewed(),
                    HoldingAction::Lost(loss) => {
                        self.tell_loss(&loss);
                        lost = Some(loss);
                    }
                    // Done by whoever ends this task's work.
                    HoldingAction::ReleaseEverywhere => {}
                }
            }
        }
        lost
    }

    fn ask(
        &self,
        node: usize,
        kind: Kind,
        round: u32,
        now: ClientInstant,
    ) -> Result<(), crate::outcome::Cause> {
        let to = Some(self.mailbox.address());
        self.shared
            .submit(node, kind, &self.subject, round, to, now)
    }

    fn tell_not_renewed(&mut self) {
        if self.extenders.is_empty() {
            return;
        }
        let labels = self.shared.labels.iter().map(Arc::clone);
        let answers = labels.zip(self.holding.answers());
        let nodes: Vec<_> = answers
            .map(|(node, answer)| NodeReport { node, answer })
            .collect();
        let needed = majority(nodes.len());
        for reply in self.extenders.drain(..) {
            // A caller that stopped waiting needs no answer.
            let _gone = reply.send(Err(ExtendError::NoQuorum {
                needed,
                nodes: nodes.clone(),
            }));
        }
    }

    fn tell_loss(&mut self, loss: &Loss) {
        self.standing
            .send_modify(|standing| standing.loss = Some(loss.clone()));
        for reply in self.extenders.drain(..) {
            // A caller that stopped waiting needs no answer.
            let _gone = reply.send(Err(ExtendError::Lost(loss.clone())));
        }
    }

    /// Answers the guard of a lost lock until it is gone.
    async fn stay_lost(&mut self, loss: &Loss) {
        while let Some(wish) = self.wished.recv().await {
            match wish {
                Wish::Extend(reply) => {
                    // A caller that stopped waiting needs no answer.
                    let _gone = reply.send(Err(ExtendError::Lost(loss.clone())));
                }
                Wish::Release(reply) => {
                    let released = release(&self.shared, &self.subject).await;
                    // The same.
                    let _gone = reply.send(released);
                    return;
                }
                Wish::Detach => return,
            }
        }
    }
}
