//! A worker without a thread of its own: a task, on a loop that its program runs anyway.
//!
//! What that loop does for the requests of the worker's clients, as an agent's client does, is done without waking another thread.
//!
//! Invariant: an event that has come is taken before the task waits. What wakes the task is the poll's own descriptor, which is
//! readable while the poll has events, and each turn takes all of them.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll};
use quorlock_node::core::commit::PollError;
use quorlock_node::core::state::NodeState;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::runtime::alarm::Alarm;
use crate::runtime::worker::Worker;

/// A worker as a task. It is polled on a runtime of tokio with I/O and time, until it is ready.
pub(crate) type WorkerTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Has a task run.
pub(crate) type TaskHost = Box<dyn FnOnce(WorkerTask) + Send>;

/// Serves until the node stops, and then until the replies have left. `end` is dropped behind that. A task that is dropped before has
/// failed the node, which would serve nobody any more.
pub(crate) fn task(worker: Worker, end: oneshot::Sender<()>) -> WorkerTask {
    let mut task = Task {
        worker,
        has_ended: false,
        _end: end,
    };
    Box::pin(async move { task.serve().await })
}

struct Task {
    worker: Worker,
    has_ended: bool,
    _end: oneshot::Sender<()>,
}

impl Task {
    async fn serve(&mut self) {
        let node = Arc::clone(&self.worker.node);
        let _alarm = Alarm::new(&node, "the task of a worker");
        if let Err(error) = self.turns(&node).await {
            node.fail(&node.commit.fail(PollError(error)));
        }
        self.worker.end();
        self.has_ended = true;
    }

    async fn turns(&mut self, node: &NodeState) -> io::Result<()> {
        let poll = readiness(&self.worker.poll)?;
        let inbox = self.worker.inbox();
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let now_raw = node.clock.raw();
            if self.worker.event_loop.has_ended(now_raw) {
                return Ok(());
            }
            let event_loop = &self.worker.event_loop;
            let pause = event_loop.pause(now_raw);
            let is_due = pause == Some(Duration::ZERO) || event_loop.gathering.is_waiting();
            let has_more = is_due || events.iter().count() == EVENTS;
            let mut is_readable = has_more;
            if has_more {
                // Others on the loop have their turn.
                yield_now().await;
            } else {
                tokio::select! {
                    readable = poll.readable() => {
                        readable?;
                        is_readable = true;
                    }
                    () = inbox.waker().woken() => {}
                    () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
                }
            }
            events.clear();
            if is_readable {
                // All there is is taken now: the next event is a new one.
                let _ = poll.try_io(Interest::READABLE, || {
                    Err::<(), _>(ErrorKind::WouldBlock.into())
                });
                self.worker.poll(&mut events, Some(Duration::ZERO))?;
            }
            self.worker.act(&events, true);
        }
    }
}

/// What is readable while this has events.
fn readiness(poll: &Poll) -> io::Result<TcpStream> {
    let descriptor = poll.registry().as_fd().try_clone_to_owned()?;
    // It is no socket, and is only waited for.
    let stream = std::net::TcpStream::from(descriptor);
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let node = &self.worker.node;
        node.fail(&node.commit.fail("the loop that runs its worker has ended"));
        // A panic may come again.
        if !std::thread::panicking() {
            self.worker.end();
        }
    }
}

/// Events of a turn. Then others on the loop have theirs.
const EVENTS: usize = 64;
