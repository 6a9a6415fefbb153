//! A worker: one thread, one single-threaded runtime, its own connections, its own gate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::net::clients::Client;
use crate::net::connection::serve;
use crate::node::gate::Gate;
use crate::node::shared::Shared;
use crate::session::Session;

/// What the connections of one worker share.
pub(crate) struct WorkerContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Gate,
}

/// A connection on its way to its worker; its client is counted already.
pub(crate) struct Handover {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) client: Arc<Client>,
}

/// A worker's inbox, and the end that reads it.
pub(crate) fn inbox() -> (UnboundedSender<Handover>, UnboundedReceiver<Handover>) {
    unbounded_channel()
}

/// Serves handed-over connections until the node stops.
pub(crate) async fn run(shared: Arc<Shared>, mut inbox: UnboundedReceiver<Handover>) {
    let worker = Arc::new(WorkerContext {
        shared: Arc::clone(&shared),
        gate: Gate::default(),
    });
    let committer = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.gate.commit_for_ever(&worker.shared).await }
    });
    let mut stopped = shared.stopped();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Some(handover) = inbox.recv() => {
                if let Some(connection) = open(handover, &worker) {
                    connections.spawn(connection);
                }
            }
            else => break,
        }
    }
    // Everything that will ever be durable is durable now: let the replies that waited for it
    // leave before the connections are cut.
    worker.gate.nudge();
    // A client that does not read its replies is cut off.
    let _ = tokio::time::timeout(shared.config.shutdown_timeout, farewell(&shared)).await;
    connections.shutdown().await;
    committer.abort();
}

/// Waits until every reply has left, or until no client has taken a byte for a while: one that
/// reads slowly gets its replies, one that does not read holds nobody up.
async fn farewell(shared: &Shared) {
    let meter = &shared.meter;
    let blocked = &shared.statistics.blocked;
    // The last sync has ended every wait for one; its reply is about to be there.
    let is_waiting =
        || meter.filled.load(Ordering::Relaxed) > 0 || blocked.load(Ordering::Relaxed) > 0;
    while is_waiting() {
        let last = meter.progress();
        let news = async {
            while is_waiting() && meter.progress() == last {
                tokio::time::sleep(FAREWELL_PAUSE).await;
            }
        };
        if tokio::time::timeout(SILENCE_MAX, news).await.is_err() {
            return;
        }
    }
}

fn open(
    Handover { stream, client }: Handover,
    worker: &Arc<WorkerContext>,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let Ok(stream) = TcpStream::from_std(stream) else {
        worker.shared.clients.remove(client.id);
        return None;
    };
    let session = Session::new(client, &worker.shared);
    Some(serve(stream, session, Arc::clone(worker)))
}

/// How often a stopping worker looks whether its replies have left.
const FAREWELL_PAUSE: Duration = Duration::from_millis(1);
/// The kernel takes more of a reply only once a third of its buffer is free, so a client that reads
/// half a megabyte per second is not silent.
const SILENCE_MAX: Duration = Duration::from_secs(2);
