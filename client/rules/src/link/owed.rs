//! What is owed to a node: releases that it has not answered yet.
//!
//! Invariant: a release is owed until the node that may hold the lock has answered it, or its lease is over. What another node
//! says that answers under the same entry settles nothing for that one. So many are owed to one node at most, and so many bytes of names
//! and tokens; of more the locks end with their leases, which is counted and logged.

use std::time::Duration;

use super::connection::Connection;
use super::request::{Form, Kind, Request};
use super::{DELAY_MEMORY, Link, OWED_BYTES_MAX, OWED_MAX, State};
use crate::clock::ClientInstant;
use crate::log_line::News;
use crate::outcome::{Cause, NodeRelease};
use crate::protocol::meaning;

/// A release that is to be sent again.
#[derive(Debug)]
pub(super) struct Deferred {
    pub(super) at: ClientInstant,
    pub(super) request: Request,
}

impl Link {
    /// Whether a release is owed that can be sent now: to a node that can be reached.
    pub(crate) fn can_pay(&self, now: ClientInstant) -> bool {
        if matches!(self.state, State::Resting(..)) {
            return false;
        }
        let in_flight = self.ready().map(|ready| &ready.in_flight);
        let queued = self.waiting.iter().chain(in_flight.into_iter().flatten());
        owe(queued, now)
    }

    /// Whether a release is still owed to this node.
    pub(crate) fn owes(&self, now: ClientInstant) -> bool {
        let in_flight = self.ready().map(|ready| &ready.in_flight);
        let deferred = self.deferred.iter().map(|deferred| &deferred.request);
        let queued = self.waiting.iter().chain(in_flight.into_iter().flatten());
        owe(queued.chain(deferred), now)
    }

    /// What is still owed after an answer to a release.
    pub(super) fn released(&mut self, now: ClientInstant, request: &Request, answer: &NodeRelease) {
        let at = match answer {
            NodeRelease::Not(cause) => {
                now.after(match meaning::passes_after(cause) {
                    // Asked again after a second at the latest, in case the delay ended otherwise.
                    Some(delay) => delay.clamp(DEFERRED_LEAST, DELAY_MEMORY),
                    // Somebody has to change the user's rights, and thousands may be owed to the node.
                    None if lacks_rights(cause) => RIGHTS_AGAIN,
                    None => DEFERRED_LEAST,
                })
            }
            _ => {
                let identity = self.identity().and_then(|identity| identity.as_ref().ok());
                request.subject.note_released(self.index, identity, answer);
                // To whoever answered here before, on the connection on which that node answers again.
                request.until
            }
        };
        if !request.is_owed(self.index, now) {
            return;
        }
        if self.deferred.len() >= OWED_MAX || !self.has_room_for(request) {
            return self.gave_up_release(now);
        }
        let owed = Request {
            asker: None,
            ..request.clone()
        };
        self.defer(at, owed);
    }

    /// Whether the bytes of this request may be owed as well, if it is a release. One that this node was never asked for leaves room for
    /// those that are owed.
    pub(super) fn has_room_for(&self, request: &Request) -> bool {
        let more = owed_bytes(request);
        let most = match request.subject.may_be_held_by(self.index) {
            true => OWED_BYTES_MAX,
            false => OWED_BYTES_MAX / 2,
        };
        more == 0 || self.owed_bytes.saturating_add(more) <= most
    }

    /// A release is among those that are queued or deferred from now on.
    pub(super) fn note_owed(&mut self, request: &Request) {
        self.owed_bytes = self.owed_bytes.saturating_add(owed_bytes(request));
    }

    /// Some that were queued or deferred may not be any more.
    pub(super) fn count_owed(&mut self) {
        let deferred = self.deferred.iter().map(|deferred| &deferred.request);
        let queued = self.waiting.iter().chain(deferred);
        self.owed_bytes = queued.map(owed_bytes).sum();
    }

    /// A release is not owed that would be worth it: the lock stays on this node until its lease is over.
    pub(super) fn gave_up_release(&mut self, now: ClientInstant) {
        self.given_up = self.given_up.saturating_add(1);
        let is_news = (self.gave_up_at).is_none_or(|at| now.since(at) >= GIVEN_UP_AGAIN);
        if is_news {
            self.gave_up_at = Some(now);
            self.log(News::ReleasesGivenUp(self.given_up));
        }
    }

    /// How many releases were given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Sends the releases again that the node could not carry out before, once their time has
    /// come, and forgets those whose leases are over.
    pub(super) fn send_deferred(&mut self, now: ClientInstant) {
        let is_due = self.next_deferred.is_some_and(|at| now.has_reached(at));
        if !is_due || !matches!(self.state, State::Ready(_)) {
            return;
        }
        self.next_deferred = None;
        let all = std::mem::take(&mut self.deferred);
        self.count_owed();
        for mut deferred in all {
            if now.has_reached(deferred.request.until) {
                continue;
            }
            let has_room = self.ready().is_some_and(Connection::has_room);
            if now.has_reached(deferred.at) && has_room {
                deferred.request.form = Form::Preferred;
                deferred.request.is_repeated = true;
                self.write(now, deferred.request);
            } else {
                // Not one by one where many are owed.
                let at = if deferred.at.earlier(now.after(DEFERRED_LEAST)) == deferred.at {
                    now.after(DEFERRED_LEAST)
                } else {
                    deferred.at
                };
                self.defer(at, deferred.request);
            }
        }
    }

    pub(super) fn defer(&mut self, at: ClientInstant, request: Request) {
        let next = self.next_deferred.map_or(at, |next| next.earlier(at));
        self.next_deferred = Some(next);
        self.note_owed(&request);
        self.deferred.push(Deferred { at, request });
    }
}

/// Whether the user may not run the script, or not what it calls.
fn lacks_rights(cause: &Cause) -> bool {
    matches!(cause, Cause::Refused(text) if text.starts_with("NOPERM") || text.contains("The user executing the script can't"))
}

/// Whether a release is among the requests that its lease still makes worth sending.
fn owe<'a>(mut requests: impl Iterator<Item = &'a Request>, now: ClientInstant) -> bool {
    requests.any(|request| request.kind == Kind::Release && !now.has_reached(request.until))
}

/// What a release takes of the bytes that may be owed.
fn owed_bytes(request: &Request) -> usize {
    match request.kind {
        Kind::Release => {
            let names = request.subject.name.parts().iter();
            names.map(|name| name.len()).sum::<usize>() + request.subject.token.as_bytes().len()
        }
        _ => 0,
    }
}

/// How often it is said that releases were given up.
const GIVEN_UP_AGAIN: Duration = Duration::from_secs(60);
/// When a node is asked again on which the user may not release.
const RIGHTS_AGAIN: Duration = Duration::from_secs(5);
pub(super) const DEFERRED_LEAST: Duration = Duration::from_millis(100);
