//! The threads of a running node, from the first to the last: one with a runtime for everything that is
//! rare, the workers, the log thread, and one for the metrics where they are wanted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::event_loop::message::Message;
use crate::node::commit::Failure;
use crate::node::error::StartError;
use crate::node::log_thread::{Job, LogThread};
use crate::node::maintenance::Maintenance;
use crate::node::shared::Shared;
use crate::node::start::{Begun, Plan, Started, start};
use crate::node::{Outcome, maintenance_task};
use crate::runtime::inbox::{Inbox, Incoming};
use crate::runtime::listener;
use crate::runtime::worker::Worker;

/// What the builder learns once the node answers.
pub(crate) type Ready = oneshot::Sender<Result<(Arc<Shared>, std::net::SocketAddr), StartError>>;

/// Starts a node on a thread of its own.
pub(crate) fn spawn(
    plan: Plan,
    ready: Ready,
    outcome: watch::Sender<Outcome>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("quorlock-node".to_owned())
        .spawn(move || {
            let ended = match start(plan) {
                Ok(started) => run(started, ready),
                Err(error) => {
                    // A builder that was dropped has no use for the error.
                    let _ = ready.send(Err(error));
                    Ok(())
                }
            };
            outcome.send_replace(Some(ended));
        })
}

fn run(started: Started, ready: Ready) -> Result<(), Failure> {
    let Started {
        begun,
        listeners,
        metrics,
    } = started;
    let Begun {
        shared,
        mut maintenance,
        preparer,
        jobs,
    } = begun;
    let mut threads = Threads {
        shared: Arc::clone(&shared),
        handles: Vec::new(),
        inboxes: Vec::new(),
    };
    let prepared = runtime().and_then(|runtime| {
        threads
            .handles
            .push(LogThread::spawn(Arc::clone(&shared), jobs, preparer)?);
        shared.log_thread.send(Job::Prepare);
        if let Some(address) = shared.metrics_address {
            let shared = Arc::clone(&shared);
            threads
                .handles
                .push(crate::metrics::spawn(metrics, shared)?);
            tracing::info!("metrics at http://{address}/metrics, readiness at /readyz");
        }
        let ends = threads.spawn_workers(&runtime)?;
        Ok((runtime, ends))
    });
    let (runtime, ends) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            shared.signals.stopped.send_replace(true);
            let _ = ready.send(Err(StartError::Thread(error)));
            return threads.end();
        }
    };
    let address = listeners
        .first()
        .and_then(|listener| listener.local_addr().ok());
    let ended = runtime.block_on(async {
        let mut acceptors = JoinSet::new();
        for listener in listeners {
            acceptors.spawn(listener::accept(
                listener,
                Arc::clone(&shared),
                threads.inboxes.clone(),
            ));
        }
        let told = match address {
            Some(address) => Ok((Arc::clone(&shared), address)),
            None => Err(StartError::NoAddress),
        };
        if ready.send(told).is_err() {
            // Whoever started the node does not want it any more.
            shared.stop();
        }
        let lived = maintenance_task::run(&shared, &mut maintenance).await;
        acceptors.shutdown().await;
        let ended = lived.and_then(|()| last_words(&shared, &mut maintenance));
        shared.signals.stopped.send_replace(true);
        threads.stop_workers();
        for end in ends {
            // A worker that panicked ends as well.
            let _ = end.await;
        }
        ended
    });
    threads.end()?;
    ended
}

/// A crash leaves nothing behind on purpose.
fn last_words(shared: &Shared, maintenance: &mut Maintenance) -> Result<(), Failure> {
    if shared.signals.crash.load(Ordering::Acquire) {
        return Ok(());
    }
    shared.shut_down(maintenance)?;
    shared.place.rest(&*shared.disk, shared.start.incarnation);
    Ok(())
}

struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// The workers'.
    inboxes: Vec<Inbox>,
}

impl Threads {
    /// Starts the workers; each says when it ends.
    fn spawn_workers(&mut self, runtime: &Runtime) -> std::io::Result<Vec<oneshot::Receiver<()>>> {
        let mut ends = Vec::new();
        for number in 0..self.shared.workers {
            let worker = Worker::new(Arc::clone(&self.shared), runtime.handle().clone())?;
            let inbox = worker.inbox();
            let (end, ended) = oneshot::channel::<()>();
            self.handles.push(
                std::thread::Builder::new()
                    .name(format!("quorlock-{number}"))
                    .spawn(move || {
                        let _end = end;
                        worker.run();
                    })?,
            );
            self.inboxes.push(inbox);
            ends.push(ended);
        }
        Ok(ends)
    }

    /// Lets the workers send the replies that waited for the log, and end.
    fn stop_workers(&self) {
        for inbox in &self.inboxes {
            inbox.send(Incoming::Message(Message::Stop));
        }
    }

    /// Ends all threads and waits for them.
    fn end(&mut self) -> Result<(), Failure> {
        self.stop_workers();
        self.shared.log_thread.send(Job::Stop);
        let mut ended = Ok(());
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                ended = Err(self.shared.commit.fail(&"a thread of the node panicked"));
            }
        }
        ended
    }
}

/// Where the thread that keeps the others panics, they end as well: nobody would tick, accept or
/// stop them any more.
impl Drop for Threads {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = self.shared.commit.fail(&"the node's thread panicked");
            self.shared.fail(&failure);
            self.shared.signals.stopped.send_replace(true);
            // The failure says it all.
            let _ = self.end();
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
