//! Tries to take locks that somebody else has: the watch on a lock refuses them, and they are held back where that is wanted.
//!
//! Invariant: a try is held back once at most, and only while a watch or a majority of the nodes says who has its lock.

use std::time::Duration;

use super::{Held, Request, Stage};
use crate::next::Next;
use crate::surroundings::Surroundings;

impl Request {
    /// Begins, or begins anew behind a time for which it was held back.
    pub(super) fn try_again(&mut self, world: &mut Surroundings<'_>) -> Next {
        if let Some(next) = self.hold_back_several(world) {
            return next;
        }
        let name = self.name.single();
        let holder = name.and_then(|name| world.watched.holder(name)).cloned();
        let Some(reply) = holder.and_then(|holder| self.refusal(&holder, world)) else {
            return self.assume(world);
        };
        if let Some(name) = self.name.single() {
            world.watched.note_refused(world.now, name);
        }
        match world.hold_back {
            Some(hold_back) if !self.was_held_back => self.hold_back(0, hold_back, world),
            _ => Next::Answer(reply),
        }
    }

    /// A try for several locks is held back while one of them is somebody else's for certain. What it is answered depends on all of
    /// them, so it asks the nodes then.
    fn hold_back_several(&mut self, world: &mut Surroundings<'_>) -> Option<Next> {
        let is_single = self.name.single().is_some();
        let hold_back = (world.hold_back).filter(|_| !is_single && !self.was_held_back)?;
        let mut names = self.name.parts().iter();
        let at = names.position(|name| world.watched.holder(name).is_some())?;
        let name = self.name.parts()[at].clone();
        let holder = world.watched.holder(&name).cloned()?;
        self.refusal_by(at, &holder, world)?;
        world.watched.note_refused(world.now, &name);
        Some(self.hold_back(at, hold_back, world))
    }

    /// It does nothing to its locks, which are held so by what the nodes have said. If it has tried to take them and was not held back
    /// yet, it is now, and the first lock that is held is watched. Who waits behind it for a lock that may be free goes on.
    pub(super) fn refused(
        &mut self,
        known: &[Option<Held>],
        world: &mut Surroundings<'_>,
    ) -> Option<Next> {
        if let Some(at) = self.blocked_by.take() {
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
        let hold_back = world.hold_back.filter(|_| !self.was_held_back);
        // One whose lock is not watched would learn of nothing meanwhile.
        if let Some(hold_back) = hold_back
            && world.watched.note_waiting(world.now, &name)
        {
            return Some(self.hold_back(at, hold_back, world));
        }
        world.watched.note_refused(world.now, &name);
        None
    }

    /// It goes on behind this time, or as soon as this one of its locks may be free.
    fn hold_back(&mut self, at: usize, time: Duration, world: &Surroundings<'_>) -> Next {
        self.blocked_by = self.name.single().is_none().then_some(at);
        self.was_held_back = true;
        // What it asks of the nodes then is another try.
        (self.rounds, self.was_refused) = (0, false);
        self.stage = Stage::HeldBack;
        Next::HoldBack(world.now.after(time))
    }
}
