//! One call under way, or one lock that is held.

use std::rc::Rc;

use crate::acquiring::{Acquiring, Progress};
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::extending::Extending;
use crate::held::Held;
use crate::link::request::Subject;
use crate::listing::Listing;
use crate::observing::Observing;
use crate::probing::Probing;
use crate::publishing::Publishing;
use crate::reading::Reading;
use crate::releasing::Releasing;
use crate::step::{Input, Step};
use crate::syncing_fences::SyncingFences;
use crate::token::Token;

#[derive(Debug)]
pub(super) enum Operation {
    Acquiring(Box<Acquiring>),
    Held(Box<Held>),
    Extending(Box<Extending>),
    Reading(Box<Reading>),
    Releasing(Box<Releasing>),
    Probing(Box<Probing>),
    SyncingFences(Box<SyncingFences>),
    Observing(Box<Observing>),
    Publishing(Box<Publishing>),
    Listing(Box<Listing>),
    /// A lock that was handed over to its token: requests on their way are still carried out.
    Detached {
        subject: Rc<Subject>,
        /// It may be held under any of these: the last but one as well, until an extension is confirmed that changes it.
        tokens: Vec<Token>,
        until: ClientInstant,
    },
}

/// What an operation is after an event.
#[derive(Debug)]
pub(super) enum Next {
    GoesOn,
    Becomes(Operation),
    Ended,
}

impl From<Step> for Next {
    fn from(step: Step) -> Self {
        match step {
            Step::GoesOn => Self::GoesOn,
            Step::Ended => Self::Ended,
        }
    }
}

impl Operation {
    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Next {
        let step = match self {
            Self::Acquiring(acquiring) => match acquiring.handle(input, context) {
                Progress::GoesOn => Step::GoesOn,
                Progress::Ended => Step::Ended,
                Progress::Held(held) => return Next::Becomes(Self::Held(held)),
            },
            Self::Held(held) => held.handle(input, context),
            Self::Extending(extending) => extending.handle(input, context),
            Self::Reading(reading) => reading.handle(input, context),
            Self::Releasing(releasing) => releasing.handle(input, context),
            Self::Probing(probing) => probing.handle(input, context),
            Self::SyncingFences(syncing) => syncing.handle(input, context),
            Self::Observing(observing) => observing.handle(input, context),
            Self::Publishing(publishing) => publishing.handle(input, context),
            Self::Listing(listing) => listing.handle(input, context),
            Self::Detached { until, .. } if context.now.has_reached(*until) => Step::Ended,
            Self::Detached { .. } => Step::GoesOn,
        };
        step.into()
    }

    /// When it wants to be called again.
    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        match self {
            Self::Acquiring(acquiring) => acquiring.next_time(),
            Self::Held(held) => Some(held.timer),
            Self::Extending(extending) => Some(extending.next_time()),
            Self::Reading(reading) => Some(reading.next_time()),
            Self::Releasing(releasing) => Some(releasing.round.deadline),
            Self::Probing(probing) => Some(probing.round.deadline),
            Self::SyncingFences(syncing) => Some(syncing.round.deadline),
            Self::Observing(observing) => Some(observing.next_time()),
            Self::Publishing(publishing) => Some(publishing.round.deadline),
            Self::Listing(listing) => Some(listing.next_time()),
            Self::Detached { until, .. } => Some(*until),
        }
    }
}
