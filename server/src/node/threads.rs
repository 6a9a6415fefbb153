//! The threads of a running node, from the first to the last: one with a runtime for everything that is
//! rare, the workers, the log thread, and one for the metrics where they are wanted.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use quorlock_persistence::DiskLock;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::metrics::Endpoint;
use crate::node::Outcome;
use crate::node::start::{Opened, Started, TlsListeners, start};
use crate::runtime::descriptors::DescriptorShare;
use crate::runtime::half_closed::HalfClosed;
use crate::runtime::heartbeat::Heartbeat;
use crate::runtime::in_process::InProcess;
use crate::runtime::inbox::{Inbox, InboxItem};
use crate::runtime::listener;
use crate::runtime::log_thread;
use crate::runtime::maintenance_task;
use crate::runtime::unix_socket::UnixSocket;
use crate::runtime::worker::Worker;
use quorlock_node::core::commit::Failure;
use quorlock_node::core::log_queue::LogEvent;
use quorlock_node::core::maintenance::Maintenance;
use quorlock_node::core::state::NodeState;
use quorlock_node::event_loop::message::Message;
use quorlock_node::start::{Begun, StartError, StartPlan, StopMark};

/// What the builder learns once the node answers.
pub(crate) type Ready = oneshot::Sender<Result<Answering, StartError>>;

/// A node that answers, the first address that it listens on, the way to it from within this process, and what asks its threads
/// whether they go on.
pub(crate) type Answering = (Unwanted, std::net::SocketAddr, Arc<InProcess>, Heartbeat);

/// A node that nobody has taken yet. Dropped, it stops: whoever started it has not waited for it.
pub(crate) struct Unwanted(Option<Arc<NodeState>>);

impl Unwanted {
    /// Takes the node, which goes on.
    pub(crate) fn take(mut self) -> Arc<NodeState> {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        if let Some(node) = &self.0 {
            node.stop();
        }
    }
}

/// Starts a node on a thread of its own. What it starts from is put together there too, since that
/// may wait for the disk.
pub(crate) fn spawn(
    plan: impl FnOnce() -> Result<(StartPlan, Opened, DiskLock), StartError> + Send + 'static,
    ready: Ready,
    outcome: watch::Sender<Outcome>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("quorlock-node".to_owned())
        .spawn(move || {
            // Whoever learns of the end may start the next node on this disk: it is free before that.
            let ended =
                match plan().and_then(|(plan, opened, hold)| Ok((start(plan, opened)?, hold))) {
                    Ok((started, _hold)) => run(started, ready),
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
        socket,
        metrics,
        tls,
    } = started;
    let Begun {
        node,
        mut maintenance,
        stop_mark,
        preparer,
        log_events,
    } = begun;
    let mut threads = Threads {
        node: Arc::clone(&node),
        handles: Vec::new(),
        inboxes: Vec::new(),
        in_process: InProcess::new(Arc::clone(&node)),
        metrics,
    };
    let prepared = runtime().and_then(|runtime| {
        threads
            .handles
            .push(log_thread::spawn(Arc::clone(&node), log_events, preparer)?);
        threads.metrics.begin(&node)?;
        let ends = threads.spawn_workers(&runtime)?;
        Ok((runtime, ends))
    });
    let (runtime, ends) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            node.signals.stopped.set();
            drop((listeners, socket, tls));
            let ended = threads.end();
            // Whoever learns of it may use the addresses at once.
            let _ = ready.send(Err(StartError::Thread(error)));
            return ended;
        }
    };
    let ended = runtime.block_on(async {
        let address = first_address(&listeners, tls.as_ref(), socket.as_ref());
        let mut acceptors = threads.accept(listeners, tls, socket);
        let in_process = Arc::clone(&threads.in_process);
        let keeper = runtime.handle().clone();
        let heartbeat = Heartbeat::new(Arc::clone(&node), keeper, threads.inboxes.clone());
        let unwanted = Unwanted(Some(Arc::clone(&node)));
        // Without a receiver it is dropped here, and else where its receiver is.
        let _ = ready.send(address.map(|address| (unwanted, address, in_process, heartbeat)));
        let lived = tokio::select! {
            lived = maintenance_task::run(&node, &mut maintenance) => lived,
            failure = acceptors_failed(&node, &mut acceptors) => Err(failure),
        };
        acceptors.shutdown().await;
        let ended = lived.and_then(|()| last_words(&node, &mut maintenance, &stop_mark));
        node.signals.stopped.set();
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

fn first_address(
    listeners: &[TcpListener],
    tls: Option<&TlsListeners>,
    socket: Option<&UnixSocket>,
) -> Result<std::net::SocketAddr, StartError> {
    let of_tls = tls.and_then(|tls| tls.listeners.first());
    let first = listeners.first().or(of_tls);
    let address = first.and_then(|it| it.local_addr().ok());
    let of_socket = socket.map(|_| NO_ADDRESS);
    address.or(of_socket).ok_or(StartError::NoAddress)
}

/// Resolves when connections are no longer accepted at one of the node's addresses, and fails the node: it would call
/// itself serving, and refuse its clients.
async fn acceptors_failed(
    node: &NodeState,
    acceptors: &mut JoinSet<std::io::Result<()>>,
) -> Failure {
    let failure = loop {
        match acceptors.join_next().await {
            Some(Ok(Err(error))) => break node.commit.fail(error),
            Some(Err(_)) => break node.commit.fail("a task that accepts connections panicked"),
            // Its workers have ended, and have said why.
            Some(Ok(Ok(()))) => {}
            None => std::future::pending().await,
        }
    };
    node.fail(&failure);
    failure
}

/// A crash leaves nothing behind on purpose.
fn last_words(
    node: &NodeState,
    maintenance: &mut Maintenance,
    stop_mark: &StopMark,
) -> Result<(), Failure> {
    if node.signals.crash.load(Ordering::Acquire) {
        return Ok(());
    }
    node.shut_down(maintenance, node.clock.raw())?;
    // The log thread may still be in a sync that the one of SHUTDOWN has overtaken.
    node.log_writer.watch(None);
    stop_mark.leave();
    Ok(())
}

struct Threads {
    node: Arc<NodeState>,
    handles: Vec<JoinHandle<()>>,
    /// The workers'.
    inboxes: Vec<Inbox>,
    in_process: Arc<InProcess>,
    metrics: Arc<Endpoint>,
}

impl Threads {
    /// Starts the workers; each says when it ends.
    fn spawn_workers(&mut self, runtime: &Runtime) -> std::io::Result<Vec<oneshot::Receiver<()>>> {
        let mut ends = Vec::new();
        let half_closed = HalfClosed::new(runtime.handle().clone());
        for number in 0..self.node.facts.workers {
            let node = Arc::clone(&self.node);
            let worker = Worker::new(node, number, half_closed.clone())?;
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

    /// Accepts connections for the workers.
    fn accept(
        &self,
        listeners: Vec<TcpListener>,
        tls: Option<TlsListeners>,
        socket: Option<UnixSocket>,
    ) -> JoinSet<std::io::Result<()>> {
        let mut acceptors = JoinSet::new();
        let share = DescriptorShare::new(Arc::clone(self.node.clients.sockets()));
        if let Some(socket) = socket {
            let (node, inboxes) = (Arc::clone(&self.node), self.inboxes.clone());
            let share = Arc::clone(&share);
            acceptors.spawn(listener::accept_local(socket, node, share, inboxes));
        }
        let plain = listeners.into_iter().map(|listener| (listener, None));
        let with_tls = tls.into_iter().flat_map(|tls| {
            let acceptor = Some(tls.acceptor);
            let listeners = tls.listeners.into_iter();
            listeners.map(move |listener| (listener, acceptor.clone()))
        });
        for (listener, tls) in plain.chain(with_tls) {
            let (node, inboxes) = (Arc::clone(&self.node), self.inboxes.clone());
            let share = Arc::clone(&share);
            acceptors.spawn(listener::accept(listener, node, share, inboxes, tls));
        }
        acceptors
    }

    /// Lets the workers send the replies that waited for the log, and end.
    fn stop_workers(&self) {
        for inbox in &self.inboxes {
            inbox.send(InboxItem::Message(Message::Stop));
        }
    }

    /// Ends all threads and waits for them.
    fn end(&mut self) -> Result<(), Failure> {
        self.stop_workers();
        self.node.log_queue.send(LogEvent::Stop);
        let mut ended = Ok(());
        let in_process = self.in_process.end();
        self.handles.extend(self.metrics.end());
        let handles = self.handles.drain(..).map(JoinHandle::join);
        for joined in std::iter::once(in_process).chain(handles) {
            if joined.is_err() {
                ended = Err(self.node.commit.fail("a thread of the node panicked"));
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
            let failure = self.node.commit.fail("the node's thread panicked");
            self.node.fail(&failure);
            self.node.signals.stopped.set();
            // The failure says it all.
            let _ = self.end();
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Of a node that listens on a Unix socket only.
const NO_ADDRESS: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::time::Duration;

    use quorlock_engine::control::ControlRecord;
    use quorlock_persistence::RealDisk;

    use quorlock_node::simulation::Setup;

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;

    #[test]
    fn a_sync_that_the_last_one_has_overtaken_does_not_miss_the_marker() {
        let home = tempfile::tempdir().unwrap();
        let (disk, clock) = (RealDisk::open(home.path()).unwrap(), SettableClock::new());
        let clock = Arc::new(clock);
        let setup = Setup::new(Config::default());
        let Begun {
            node,
            mut maintenance,
            stop_mark,
            ..
        } = setup.begin(disk, clock.clone()).unwrap();
        {
            let (mut executor, now) = node.lock_now().unwrap();
            executor.append(now.node, &ControlRecord::Tick);
        }
        node.log_writer.write(&node.executor).unwrap();
        let overtaken = node.log_writer.begin_sync().unwrap().unwrap();
        last_words(&node, &mut maintenance, &stop_mark).unwrap();
        assert!(!home.path().join("incarnation-0000000001").exists());
        clock.advance(Duration::from_secs(2));
        drop(node.log_writer.run_sync(overtaken).unwrap());
    }
}
