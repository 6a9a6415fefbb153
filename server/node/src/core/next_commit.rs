//! The commit that the log thread makes next: who waits for it, and until when it is put off.
//!
//! However many ask for it, it is one event, one write and one sync. Invariant: what somebody has appended before they ask
//! is covered by it. The log thread takes the requests before it writes; who asks later asks for the commit after it.

use quorlock_engine::RawTime;

use crate::core::linger::{AskedRaw, Linger};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Tells whoever asked for something that it has ended. Dropped, it says so as well.
pub type Done = Box<dyn FnOnce() + Send>;

/// Why a commit is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitRequest {
    /// How many replies wait for it, beside those that have asked before.
    pub replies: usize,
    /// It is not put off.
    pub is_urgent: bool,
    /// Raw-clock reading at which those replies were made.
    pub asked_raw: RawTime,
}

impl CommitRequest {
    /// For somebody whom nobody else may hold up.
    pub const URGENT: Self = Self {
        replies: 0,
        is_urgent: true,
        asked_raw: RawTime::ZERO,
    };
}

/// The requests for the next commit.
#[derive(Default)]
pub struct NextCommit {
    requests: Mutex<Requests>,
    /// Raw-clock reading until which clients that the last commit has answered are expected back, while this one has not
    /// begun; else 0.
    lingers_until_raw_ns: AtomicU64,
    /// How many clients have gone whose replies waited for a commit, since the last one ended.
    gone: AtomicUsize,
}

/// Somebody who is told of the end of the commit.
struct CommitWaiter {
    /// `None` where it is no worker.
    worker: Option<usize>,
    done: Done,
}

/// What is asked for, together.
#[derive(Default)]
pub struct Requests {
    /// How many replies wait for it.
    pub replies: usize,
    /// Who is told; each worker once.
    told: Vec<CommitWaiter>,
    is_urgent: bool,
    /// When the replies were made that came since the last commit ended.
    asked: Option<AskedRaw>,
    /// It is put off, and the log thread looks again when this number of replies wait for it.
    expected_replies: Option<usize>,
    /// It is asked for, and the log thread knows of it.
    is_wanted: bool,
    /// The log thread has ended.
    is_closed: bool,
}

impl Requests {
    /// Those who are told that it has ended.
    pub(crate) fn into_told(self) -> impl Iterator<Item = Done> {
        self.told.into_iter().map(|told| told.done)
    }

    /// When the commit begins; `None` where none is asked for.
    pub(crate) fn due_raw(&mut self, linger: &mut Linger, now_raw: RawTime) -> Option<RawTime> {
        if !self.is_wanted {
            return None;
        }
        if self.is_urgent {
            linger.end();
        }
        let left_ns = linger.left_ns(self.replies, self.asked, now_raw);
        self.expected_replies = linger.expected_replies();
        Some(now_raw.plus_nanos(left_ns.unwrap_or(0)))
    }

    /// Adds a request. Says whether the log thread has to look at it.
    fn add(&mut self, request: CommitRequest) -> bool {
        if request.replies > 0 {
            self.replies += request.replies;
            let reading = request.asked_raw;
            let asked = self.asked.get_or_insert(AskedRaw {
                first: reading,
                last: reading,
            });
            asked.first = asked.first.min(reading);
            asked.last = asked.last.max(reading);
        }
        self.is_urgent |= request.is_urgent;
        let is_first = !std::mem::replace(&mut self.is_wanted, true);
        // It is put off, and is looked at again with this request. Those after it need not ask for that.
        let (is_urgent, replies) = (self.is_urgent, self.replies);
        let ends_wait = |expected: &mut usize| is_urgent || replies >= *expected;
        is_first || self.expected_replies.take_if(ends_wait).is_some()
    }
}

impl NextCommit {
    /// Adds a request. Says whether the log thread has to look at it.
    pub(crate) fn ask(&self, request: CommitRequest) -> bool {
        self.lock().add(request)
    }

    /// The same; `done` makes what reports the end of the commit. A worker is notified once. Where the log thread has ended
    /// it is notified at once.
    pub(crate) fn ask_and_be_told(
        &self,
        worker: Option<usize>,
        request: CommitRequest,
        done: impl FnOnce() -> Done,
    ) -> bool {
        let mut requests = self.lock();
        if requests.is_closed {
            drop(requests);
            drop(done());
            return false;
        }
        let is_told = |other: &CommitWaiter| worker.is_some() && other.worker == worker;
        if !requests.told.iter().any(is_told) {
            requests.told.push(CommitWaiter {
                worker,
                done: done(),
            });
        }
        requests.add(request)
    }

    /// The commit begins: takes what was asked for.
    pub fn take(&self) -> Requests {
        self.note_lingering(None);
        let mut requests = self.lock();
        let next = Requests {
            is_closed: requests.is_closed,
            ..Requests::default()
        };
        std::mem::replace(&mut requests, next)
    }

    /// No commit begins any more. Takes what was asked for.
    pub(crate) fn close(&self) -> Requests {
        self.lock().is_closed = true;
        self.take()
    }

    /// The last commit ends, and clients are answered. How many replies wait for this one by now.
    pub(crate) fn begin_returns(&self) -> usize {
        let mut requests = self.lock();
        requests.asked = None;
        requests.replies
    }

    /// A client has gone whose reply waited for a commit: nobody expects it back.
    pub(crate) fn note_gone(&self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }

    /// How many clients have gone since the last call. Which of two commits they waited for is not known.
    pub(crate) fn take_gone(&self) -> usize {
        self.gone.swap(0, Ordering::Relaxed)
    }

    /// Says to workers until when clients are expected back, if they are: to take several of them at a time is enough.
    pub(crate) fn note_lingering(&self, until_raw: Option<RawTime>) {
        self.lingers_until_raw_ns
            .store(until_raw.map_or(0, RawTime::as_nanos), Ordering::Relaxed);
    }

    /// Whether clients that the last commit has answered are expected back before this one begins.
    pub fn is_lingering(&self, now_raw: RawTime) -> bool {
        let until_raw = RawTime::from_nanos(self.lingers_until_raw_ns.load(Ordering::Relaxed));
        now_raw < until_raw
    }

    /// What is asked for.
    pub fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests
            .lock()
            .expect("no holder of the requests can panic")
    }
}
