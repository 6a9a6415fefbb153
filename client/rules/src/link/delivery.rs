//! What arrives on a connection, and where it goes.
//!
//! Invariant: each request is answered once. What an agent has taken is released there before anything else is asked of it, and it has no vote.

use super::request::{Form, Kind, Request, Subject};
use super::{Link, State, Surroundings};
use crate::answer::Content;
use crate::log_line::News;
use crate::outcome::Cause;
use crate::protocol::push::Push;
use crate::token::Token;

/// What the bytes that have arrived come to.
#[allow(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each reply"
)]
pub(super) enum Delivered {
    /// No whole reply is left.
    Nothing,
    /// The reply to the oldest request.
    Reply(Request, Content),
    /// A request of this kind was written again in another form.
    Again(Kind),
    /// An agent has answered to a request for the lock, and may have taken it under this token.
    Agent(Request, Option<Token>),
    /// A message that answers no request.
    Push(Push),
    /// Not a reply: the connection cannot be used any more.
    Broken(String),
}

impl Link {
    pub(super) fn deliver_all(&mut self, world: &mut Surroundings<'_>) {
        loop {
            let State::Ready(connection) = &mut self.state else {
                return;
            };
            match connection.next_reply(world) {
                Delivered::Nothing => return,
                Delivered::Broken(text) => return self.give_up(&text, world),
                Delivered::Again(Kind::Wait { .. }) => self.log(News::WithoutTurns),
                Delivered::Again(_) => {}
                Delivered::Agent(request, token) => self.met_agent(&request, token, world),
                Delivered::Push(push) => self.pushes.push_back(push),
                Delivered::Reply(request, content) => {
                    self.heard(&request, world.now);
                    self.learn(&request, &content, world);
                    self.answer(&request, content);
                }
            }
        }
    }

    /// What answers is an agent of an earlier version, which says to no user without the right to INFO that it is one. Readers go by the whole token that
    /// the agent has made of theirs, so the release of the attempt frees nothing there.
    fn met_agent(&mut self, request: &Request, token: Option<Token>, world: &mut Surroundings<'_>) {
        self.heard(request, world.now);
        let cause = Cause::Agent;
        if !self.takes_agent {
            world.register.does_not_vote(self.index, &cause);
            self.log(News::Agent);
            if let State::Ready(connection) = &mut self.state {
                connection.peer.identity = Err(cause.clone());
            }
            if let Some(peer) = &mut self.peer {
                peer.identity = Err(cause.clone());
            }
        }
        self.answer_failure(request, &cause);
        if let Some(token) = token {
            let subject = Subject::new_as(
                true,
                request.subject.name.clone(),
                token,
                request.subject.ttl,
            );
            subject.note_asked(self.index, None);
            let release = Request {
                kind: Kind::Release,
                subject,
                asker: None,
                until: world.now.after(request.subject.kept),
                form: Form::Preferred,
                is_repeated: true,
                ..request.clone()
            };
            self.write(world.now, release);
        }
    }
}
