//! Where a task of the client's thread receives its nodes' answers.
//!
//! Invariant: once a mailbox is closed nothing is put into it. A late reply then only frees its
//! place in the node's queue, so it can never be taken for the answer to something else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::acquisition::Answer;
use crate::answer::Info;
use crate::holding::ExtendAnswer;
use crate::outcome::{Cause, NodeRelease};
use crate::votes::NodeIndex;

/// One node's answer, with the round it belongs to.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) node: NodeIndex,
    pub(super) round: u32,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Taken(Answer),
    Extended(ExtendAnswer),
    Released(NodeRelease),
    TimeLeft(Option<Duration>),
    Info(Result<(Info, Duration), Cause>),
}

#[derive(Debug, Default)]
pub(super) struct Mailbox {
    letters: RefCell<VecDeque<Letter>>,
    is_closed: Cell<bool>,
    arrived: Notify,
}

/// The receiving end; dropping it closes the mailbox.
#[derive(Debug, Default)]
pub(super) struct Owned {
    mailbox: Rc<Mailbox>,
    stays_open: bool,
}

impl Mailbox {
    pub(super) fn put(&self, letter: Letter) {
        if !self.is_closed.get() {
            self.letters.borrow_mut().push_back(letter);
            self.arrived.notify_one();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }
}

impl Owned {
    /// The address to be given to requests.
    pub(super) fn address(&self) -> Rc<Mailbox> {
        Rc::clone(&self.mailbox)
    }

    pub(super) fn take(&self) -> Option<Letter> {
        self.mailbox.letters.borrow_mut().pop_front()
    }

    /// Waits until there may be a letter. Cancel-safe.
    pub(super) async fn arrived(&self) {
        if self.mailbox.letters.borrow().is_empty() {
            self.mailbox.arrived.notified().await;
        }
    }

    /// Lets go without closing: requests on their way are still carried out.
    pub(super) fn leave_open(mut self) {
        self.stays_open = true;
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.mailbox.is_closed.set(!self.stays_open);
        self.mailbox.letters.borrow_mut().clear();
    }
}
