//! Why a node would not answer a request now, as far as that is known without asking.

use std::time::Duration;

use super::connection::Connection;
use super::request::{Kind, Request};
use super::{Failed, Link, State};
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::register::Register;
use crate::round::ATTEMPT_BIT;
use crate::votes::{Identity, NodeIndex};

impl Link {
    /// Why the node is not reached at present, if that is so.
    pub(crate) fn unreached(&self) -> Option<Cause> {
        match &self.state {
            State::Resting(_, cause) => Some(cause.clone()),
            _ => None,
        }
    }

    /// Whether the node can be asked for its vote without making a connection first, as far as is known.
    pub(crate) fn is_ready(&self, now: ClientInstant) -> bool {
        let is_delayed = |delayed: &Failed| !now.has_reached(delayed.at);
        self.is_logged_in()
            && matches!(self.identity(), Some(Ok(_)))
            && !self.delayed.as_ref().is_some_and(is_delayed)
            && self.silence().is_none()
    }

    pub(crate) fn is_logged_in(&self) -> bool {
        self.ready().is_some()
    }

    /// Whether the node is known to be away: the last connection to it has ended or could not be made.
    pub(crate) fn is_away(&self) -> bool {
        match &self.state {
            State::Resting(..) => true,
            State::Opening(_) => self.failed.is_some(),
            State::Idle | State::Ready(_) => false,
        }
    }

    /// What is known of the node where its answer is not waited for.
    pub(crate) fn last_known(&self, now: ClientInstant) -> Cause {
        let failed = || self.failed.as_ref().map(|failed| failed.cause.clone());
        match &self.state {
            State::Resting(_, cause) => return cause.clone(),
            State::Idle | State::Opening(_) => return failed().unwrap_or(Cause::NotConnected),
            State::Ready(_) => {}
        }
        if let Some(Err(cause)) = self.identity() {
            return cause.clone();
        }
        match &self.delayed {
            Some(delayed) if !now.has_reached(delayed.at) => delayed.cause.clone(),
            _ => self.silence().unwrap_or(Cause::NotWaitedFor),
        }
    }

    /// Who the node said it is, or why it does not vote; nothing before its first login.
    pub(crate) fn identity(&self) -> Option<&Result<Identity, Cause>> {
        self.peer.as_ref().map(|peer| &peer.identity)
    }

    /// Why the node cannot vote now, if it is known without asking.
    pub(super) fn obstacle(&mut self, request: &Request, now: ClientInstant) -> Option<Cause> {
        match &self.state {
            State::Resting(until, cause) if !now.has_reached(*until) => return Some(cause.clone()),
            State::Ready(_) => {}
            _ => return self.known_failure(request, now),
        }
        if request.kind == Kind::Info {
            return None;
        }
        if request.kind == Kind::Release {
            return self.silence();
        }
        if let Some(Err(cause)) = self.identity() {
            let cause = cause.clone();
            self.doubt_login(request.subject.ttl, now);
            return Some(cause);
        }
        if request.kind == Kind::Publish {
            // Nodes send messages in their restart delay as well.
            return self.silence();
        }
        if let Some(cause) = self.entry.obstacle(request, now) {
            return Some(cause);
        }
        if let Some(delayed) = &self.delayed {
            if !now.has_reached(delayed.at) {
                return Some(delayed.cause.clone());
            }
            self.delayed = None;
        }
        self.silence()
    }

    /// The node may not vote, by what others say of themselves: perhaps the entry leads elsewhere by now.
    pub(crate) fn doubt_login(&mut self, ttl: Duration, now: ClientInstant) {
        self.doubts_login |= self.is_login_old(ttl, now);
    }

    /// Whether a login that did not let the node vote was so long ago that it is worth another one: it
    /// may have been answered while the node was loading, or by something on the way.
    fn is_login_old(&self, ttl: Duration, now: ClientInstant) -> bool {
        // Where leases are short, soon enough to renew one.
        let memory = LOGIN_MEMORY.min((ttl / 6).max(LOGIN_MEMORY_MIN));
        self.ready()
            .is_some_and(|ready| now.since(ready.began) >= memory)
    }

    /// A node that could not be reached a moment ago is tried again, but nobody waits for that.
    pub(super) fn known_failure(&mut self, request: &Request, now: ClientInstant) -> Option<Cause> {
        let votes = request.kind.is_for_vote();
        votes.then(|| self.recent_failure(now)).flatten()
    }

    /// Why no connection could be made a moment ago. The next one is made in any case.
    pub(super) fn recent_failure(&mut self, now: ClientInstant) -> Option<Cause> {
        let failed = self.failed.as_ref()?;
        if now.since(failed.at) > FAILURE_MEMORY {
            return None;
        }
        if !matches!(self.state, State::Opening(_)) {
            self.is_wanted = true;
        }
        Some(failed.cause.clone())
    }

    /// Requests pile up behind one that the node sits on; once it answers that one it is back.
    pub(super) fn silence(&self) -> Option<Cause> {
        let silent_for = self.silent_for()?;
        (silent_for >= self.suspicion()).then_some(Cause::Silent)
    }

    /// How long nothing has been heard although something was asked.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        self.ready()?.silence()
    }

    /// Until when the answer to a request for a lease of `ttl`, sent at `sent`, is to be waited for beyond its time, if the
    /// node is not silent: it answers what was sent before, or the client had no chance to read what it has answered.
    pub(crate) fn answers_until(
        &self,
        sent: ClientInstant,
        ttl: Duration,
        now: ClientInstant,
    ) -> Option<ClientInstant> {
        let left = self.patience(ttl, now).checked_sub(self.silent_for()?)?;
        let most = self.deadline_max.saturating_mul(3).min(ttl / 4 * 3);
        let until = now.after(left.max(LEFT_LEAST)).earlier(sent.after(most));
        (!left.is_zero() && !now.has_reached(until)).then_some(until)
    }

    pub(super) fn suspicion(&self) -> Duration {
        self.round_trip.patience().min(self.deadline_max)
    }

    pub(super) fn is_beyond_lease(&self, silent_for: Duration) -> bool {
        let oldest = self.ready().and_then(Connection::oldest);
        oldest.is_some_and(|oldest| silent_for >= silence_max(oldest.subject.ttl))
    }
}

/// Why a node of another cluster is not asked to vote; what it holds is extended and released there. Where no cluster has a
/// majority, a lock that a majority holds already is also taken again where it was missed, in a round that is no attempt: its
/// holder stays the only one.
pub(crate) fn outsider(
    register: &Register,
    node: NodeIndex,
    kind: Kind,
    round: u32,
) -> Option<Cause> {
    if !kind.is_for_members() {
        return None;
    }
    let is_held = kind.takes() && round & ATTEMPT_BIT == 0;
    let cause = register.outsider(node)?;
    let heals = is_held && matches!(cause, Cause::MixedClusters { .. });
    (!heals).then_some(cause)
}

fn silence_max(ttl: Duration) -> Duration {
    ttl.max(SILENCE_LEAST)
}

/// A failure to connect is news for so long: longer than the longest rest and one more try.
const FAILURE_MEMORY: Duration = Duration::from_secs(3);
/// A node that does not vote is asked again who it is after so long, when it is needed.
const LOGIN_MEMORY: Duration = Duration::from_secs(5);
const LOGIN_MEMORY_MIN: Duration = Duration::from_millis(200);
const SILENCE_LEAST: Duration = Duration::from_secs(1);
/// How often it is looked whether a node has answered beyond its time.
const LEFT_LEAST: Duration = Duration::from_millis(10);
