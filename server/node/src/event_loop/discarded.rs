//! Messages that connections had not taken when they ended. They are freed a part at a time: a million at once would keep
//! everybody else whom the worker serves waiting for a second.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::core::clients::Clients;
use crate::event_loop::messages::Messages;

/// Those of one worker.
#[derive(Default)]
pub(crate) struct DiscardedMessages {
    /// Of one connection each.
    lists: VecDeque<Messages>,
    count: usize,
}

impl DiscardedMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Takes what a connection leaves behind, which nobody is to go for any more.
    pub(crate) fn add(&mut self, messages: Messages, clients: &Clients) {
        if messages.is_empty() {
            return;
        }
        let bytes = messages.charged_bytes();
        clients.discarded_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count += messages.len();
        self.lists.push_back(messages);
    }

    /// Frees the next part, a larger one of many.
    pub(crate) fn free_some(&mut self, clients: &Clients) {
        if self.lists.is_empty() {
            return;
        }
        let mut left = (self.count / PARTS).clamp(FREED_AT_LEAST, FREED_AT_MOST);
        while left > 0
            && let Some(messages) = self.lists.front_mut()
        {
            let (len, bytes) = (messages.len(), messages.charged_bytes());
            messages.drop_oldest(left);
            let dropped = len - messages.len();
            let charged = bytes - messages.charged_bytes();
            clients
                .discarded_bytes
                .fetch_sub(charged, Ordering::Relaxed);
            self.count -= dropped;
            left -= dropped;
            if messages.is_empty() {
                self.lists.pop_front();
            }
        }
        // glibc sets small pieces aside and joins all of them when it is next asked for more than 1 KiB: these few
        // now, or a million in the middle of somebody's request.
        std::hint::black_box(Vec::<u8>::with_capacity(JOINING_BYTES));
    }
}

/// They take about 0.3 ms.
const FREED_AT_LEAST: usize = 512;
/// They take about 1 ms.
const FREED_AT_MOST: usize = 2048;
const PARTS: usize = 512;
/// Taken from no cache of short ones.
const JOINING_BYTES: usize = 4096;
