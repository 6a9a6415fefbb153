//! Tries to take locks that somebody else has: the watch on a lock refuses them, and they are held back where that is wanted.
//!
//! Invariant: a try is held back until its time is over, or until it goes on because its lock may be free. As long as no watch says who
//! has the lock, a release may be missed: the nodes are asked again meanwhile, at intervals that grow.

use std::time::Duration;

use quorlock_clock::ClientInstant;

use super::{Held, HeldBack, Request, Stage};
use crate::next::Next;
use crate::surroundings::Surroundings;

impl Request {
    /// The time is over for which it was held back, or its lock may be free sooner.
    pub(super) fn end_hold(&mut self, world: &mut Surroundings<'_>) -> Next {
        let now = world.now;
        if let Some(held_back) = &mut self.held_back {
            held_back.looks_at = held_back.looks_at.filter(|at| now.has_reached(*at));
        }
        self.try_again(world)
    }

    /// Begins, or begins anew behind a time for which it was held back.
    pub(super) fn try_again(&mut self, world: &mut Surroundings<'_>) -> Next {
        if let Some(next) = self.hold_back_several(world) {
            return next;
        }
        let name = self.name.single();
        let holder = name.and_then(|name| world.watched.holder(name)).cloned();
        let Some(reply) = holder.and_then(|holder| self.refusal(&holder, world)) else {
            if self.is_looking() {
                // It was refused before, and is most likely again: a reading is cheaper than an attempt.
                self.was_refused = true;
                return self.read(Vec::new());
            }
            return self.assume(world);
        };
        if let Some(name) = self.name.single() {
            world.watched.note_refused(world.now, name);
        }
        match self.waits_until(world) {
            Some(until) => self.hold_back(0, until, world),
            None => Next::Answer(reply),
        }
    }

    /// A try for several locks is held back while one of them is somebody else's for certain. What it is answered depends on all of
    /// them, so it asks the nodes then.
    fn hold_back_several(&mut self, world: &mut Surroundings<'_>) -> Option<Next> {
        let is_single = self.name.single().is_some();
        let until = self.waits_until(world).filter(|_| !is_single)?;
        let mut names = self.name.parts().iter();
        let at = names.position(|name| world.watched.holder(name).is_some())?;
        let name = self.name.parts()[at].clone();
        let holder = world.watched.holder(&name).cloned()?;
        self.refusal_by(at, &holder, world)?;
        world.watched.note_refused(world.now, &name);
        Some(self.hold_back(at, until, world))
    }

    /// It does nothing to its locks, which are held so by what the nodes have said. If it has tried to take them and may wait for them,
    /// it is held back, and the first lock that is held is watched. Who waits behind it for a lock that may be free goes on.
    pub(super) fn refused(
        &mut self,
        known: &[Option<Held>],
        world: &mut Surroundings<'_>,
    ) -> Option<Next> {
        // One that only looks has not been woken, and wakes nobody.
        if let Some(at) = self.blocked_by.take().filter(|_| !self.is_looking()) {
            world.watched.pass_on(world.now, &self.name.parts()[at]);
        }
        let is_single = self.name.single().is_some();
        if !is_single && world.hold_back.is_none() {
            return None;
        }
        let held = known.iter().enumerate();
        let mut held = held.filter_map(|(at, held)| Some((at, held.as_ref()?.token()?)));
        let (at, token) = held.next()?;
        self.refusal_by(at, token, world)?;
        let name = self.name.parts()[at].clone();
        // One whose lock is not watched would learn of nothing meanwhile.
        if let Some(until) = self.waits_until(world)
            && world.watched.note_waiting(world.now, &name)
        {
            return Some(self.hold_back(at, until, world));
        }
        world.watched.note_refused(world.now, &name);
        None
    }

    /// Whether it has asked the nodes again, or is about to, although nothing says that the lock may be free.
    fn is_looking(&self) -> bool {
        let held_back = self.held_back.as_ref();
        held_back.is_some_and(|it| it.looks_at.is_some())
    }

    /// Until when it may be held back from now on, if it may.
    fn waits_until(&self, world: &Surroundings<'_>) -> Option<ClientInstant> {
        let time = world.hold_back?;
        match &self.held_back {
            None => Some(world.now.after(time)),
            Some(it) => {
                let may_wait = self.is_looking() && !world.now.has_reached(it.until);
                may_wait.then_some(it.until)
            }
        }
    }

    /// It goes on behind this time, or as soon as this one of its locks may be free.
    fn hold_back(&mut self, at: usize, until: ClientInstant, world: &Surroundings<'_>) -> Next {
        let before = self.held_back.as_ref();
        let interval = before.map_or(LOOKS_AFTER_LEAST, |it| {
            it.interval.saturating_mul(2).min(LOOKS_AFTER_MOST)
        });
        let is_certain = world.watched.holder(&self.name.parts()[at]).is_some();
        let look = world.now.after(interval);
        let looks_at = Some(look).filter(|look| !is_certain && !look.has_reached(until));
        self.held_back = Some(HeldBack {
            until,
            looks_at,
            interval,
        });
        self.blocked_by = self.name.single().is_none().then_some(at);
        // What it asks of the nodes then is another try.
        (self.rounds, self.was_refused) = (0, false);
        self.stage = Stage::HeldBack;
        Next::HoldBack(looks_at.unwrap_or(until))
    }
}

/// When the nodes are asked again at first where no watch says who has the lock: a watch that begins needs a round trip or two.
const LOOKS_AFTER_LEAST: Duration = Duration::from_millis(10);
/// The same later on. A watch may never be certain, where a node refuses to tell of changes: then a try costs the nodes as much as a
/// caller that polls so often.
const LOOKS_AFTER_MOST: Duration = Duration::from_millis(100);
