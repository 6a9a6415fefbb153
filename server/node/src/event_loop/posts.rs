//! What was published for connections of one worker and has not reached all of them.
//!
//! A message is here once, however many it is for, and is handed out a part of its receivers at a time, so that one with
//! thousands of them holds up nobody. A connection that is told out of turn, before its next request, notes how far it
//! has looked: nobody is told twice, and each connection looks at each message once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use quorlock_engine::channels::Subscriber;

use crate::core::deliveries::{Deliveries, Post};

/// In the order in which they were published.
#[derive(Default)]
pub(crate) struct Posts {
    queue: VecDeque<Post>,
    /// The number of the first: they are counted from 0.
    first: u64,
    /// How many of the first are being handed out together, and how many of their receivers have them.
    group: usize,
    reached: usize,
}

/// The number of the first post that a connection has not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PostCursor(u64);

/// A part of the receivers of the first posts.
pub(crate) struct ReceiverGroup {
    pub(crate) receivers: Arc<[Subscriber]>,
    pub(crate) range: Range<usize>,
}

impl Posts {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes in what was published since.
    pub(crate) fn extend(&mut self, posts: Vec<Post>) {
        self.queue.extend(posts);
    }

    /// Those to be handed out next: one, or several to the same receivers. `budget` is what handing out may cost now;
    /// what does not fit is for later, but at least one receiver has its turn.
    pub(crate) fn next_part(&mut self, budget: &mut usize) -> Option<ReceiverGroup> {
        let first = self.queue.front()?;
        if *budget == 0 {
            return None;
        }
        if self.group == 0 {
            self.group = self.group_of(first);
        }
        let group = self.queue.range(..self.group);
        let bytes = group.map(|post| post.message.bytes()).sum::<usize>();
        let cost = bytes.saturating_add(CONNECTION_COST);
        let start = first.here.start + self.reached;
        let count = (first.here.end - start).min((*budget / cost).max(1));
        *budget = budget.saturating_sub(count * cost);
        Some(ReceiverGroup {
            receivers: Arc::clone(&first.receivers),
            range: start..start + count,
        })
    }

    /// How many are handed out together next, and to how many; not while that has begun.
    pub(crate) fn next_group(&self) -> Option<(usize, usize)> {
        let first = self.queue.front().filter(|_| self.group == 0)?;
        Some((self.group_of(first), first.here.len()))
    }

    fn group_of(&self, first: &Post) -> usize {
        let mut bytes = 0;
        let belongs = |post: &&Post| {
            bytes += post.message.bytes();
            Arc::ptr_eq(&post.receivers, &first.receivers) && bytes <= GROUP_BYTES_MAX
        };
        self.queue.iter().take_while(belongs).count().max(1)
    }

    /// Those of the part for a connection that has looked at others before.
    pub(crate) fn of_part(&self, looked: &mut PostCursor) -> impl Iterator<Item = &Post> {
        self.since(looked, self.group)
    }

    /// All for a connection since it last looked.
    pub(crate) fn of_listener(
        &self,
        looked: &mut PostCursor,
        listener: Subscriber,
    ) -> impl Iterator<Item = &Post> {
        self.since(looked, self.queue.len())
            .filter(move |post| post.is_for(listener))
    }

    /// The same of those before the one of this number.
    pub(crate) fn of_listener_before(
        &self,
        looked: &mut PostCursor,
        listener: Subscriber,
        number: u64,
    ) -> impl Iterator<Item = &Post> {
        let (before, here) = (number.saturating_sub(self.first), self.queue.len());
        let end = before.min(here as u64);
        let end = usize::try_from(end).expect("no more than are here");
        self.since(looked, end)
            .filter(move |post| post.is_for(listener))
    }

    fn since(&self, looked: &mut PostCursor, end: usize) -> impl Iterator<Item = &Post> {
        let skipped = looked.0.saturating_sub(self.first);
        let skipped = usize::try_from(skipped).expect("it has looked at what was here");
        looked.0 = looked.0.max(self.first + end as u64);
        self.queue.range(skipped.min(end)..end)
    }

    /// Notes that the receivers of a part have been handed what it is made of.
    pub(crate) fn note_handed_out(&mut self, part: &ReceiverGroup, deliveries: &Deliveries) {
        self.reached += part.range.len();
        let is_over = |first: &Post| self.reached == first.here.len();
        if self.queue.front().is_some_and(is_over) {
            for post in self.queue.drain(..self.group) {
                deliveries.note_handed_out(&post);
            }
            self.first += self.group as u64;
            (self.group, self.reached) = (0, 0);
        }
        if self.queue.is_empty() && self.queue.capacity() > POSTS_KEPT {
            self.queue = VecDeque::new();
        }
    }
}

/// Posts to the same receivers are handed out together up to so many bytes: a connection sends them with one call.
const GROUP_BYTES_MAX: usize = 256 * 1024;

/// What a connection costs that is sent something, as bytes of messages that take as long.
const CONNECTION_COST: usize = 8 * 1024;

/// What an iteration hands out, in bytes: two to three milliseconds.
pub(crate) const BYTES_PER_ITERATION: usize = 4 * 1024 * 1024;

/// The room that stays for posts.
const POSTS_KEPT: usize = 1024;
