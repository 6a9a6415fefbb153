//! The threads of a running node, from the first to the last.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::net::worker::{Handover, inbox};
use crate::net::{listener, worker};
use crate::node::commit::Failure;
use crate::node::error::StartError;
use crate::node::log_thread::{Job, LogThread};
use crate::node::shared::Shared;
use crate::node::start::{Plan, Started, start};
use crate::node::{Outcome, maintenance};

/// What the builder learns once the node answers.
pub(crate) type Ready = oneshot::Sender<Result<(Arc<Shared>, std::net::SocketAddr), StartError>>;

/// Starts a node on a thread of its own; the thread is the first worker as well.
pub(crate) fn spawn(
    plan: Plan,
    ready: Ready,
    outcome: watch::Sender<Outcome>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("quorlock-0".to_owned())
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
        shared,
        listeners,
        metrics,
        preparer,
        jobs,
    } = started;
    let mut threads = Threads {
        shared: Arc::clone(&shared),
        handles: Vec::new(),
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
        let (inboxes, first) = threads.spawn_workers()?;
        Ok((runtime, inboxes, first))
    });
    let (runtime, inboxes, first) = match prepared {
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
        let first = tokio::spawn(worker::run(Arc::clone(&shared), first));
        let mut acceptors = JoinSet::new();
        for listener in listeners {
            acceptors.spawn(listener::accept(
                listener,
                Arc::clone(&shared),
                inboxes.clone(),
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
        let lived = maintenance::run(&shared).await;
        acceptors.shutdown().await;
        let ended = lived.and_then(|()| last_words(&shared));
        shared.signals.stopped.send_replace(true);
        let _ = first.await;
        ended
    });
    threads.end()?;
    ended
}

/// A crash leaves nothing behind on purpose.
fn last_words(shared: &Shared) -> Result<(), Failure> {
    if shared.signals.crash.load(Ordering::Acquire) {
        return Ok(());
    }
    maintenance::shut_down(shared)?;
    shared.place.rest(&*shared.disk, shared.start.incarnation);
    Ok(())
}

struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

type Inbox = tokio::sync::mpsc::UnboundedReceiver<Handover>;
type Inboxes = Vec<tokio::sync::mpsc::UnboundedSender<Handover>>;

impl Threads {
    /// All workers but the first, and the inbox of the first.
    fn spawn_workers(&mut self) -> std::io::Result<(Inboxes, Inbox)> {
        let (sender, first) = inbox();
        let mut inboxes = vec![sender];
        for number in 1..self.shared.workers {
            let (sender, receiver) = inbox();
            let shared = Arc::clone(&self.shared);
            let runtime = runtime()?;
            let name = format!("quorlock-{number}");
            self.handles.push(
                std::thread::Builder::new()
                    .name(name)
                    .spawn(move || runtime.block_on(worker::run(shared, receiver)))?,
            );
            inboxes.push(sender);
        }
        Ok((inboxes, first))
    }

    /// Ends the log thread and waits for all.
    fn end(self) -> Result<(), Failure> {
        self.shared.log_thread.send(Job::Stop);
        for handle in self.handles {
            if handle.join().is_err() {
                return Err(self.shared.commit.fail(&"a thread of the node panicked"));
            }
        }
        Ok(())
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
