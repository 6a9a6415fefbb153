//! The client's own thread: it moves bytes between the rules and the nodes' sockets, and calls and
//! outcomes between the rules and the callers.
//!
//! Invariant: everything that outlives a call lives on this thread, so it outlives the caller's
//! future, guard and runtime. The thread ends when no handle and no guard is left and nothing is
//! owed any more. Nothing is decided here.

mod dial;
mod dropped;
pub(crate) mod handle;
mod log;
pub(crate) mod process;
mod socket;
mod stream;
mod thread;

use std::sync::Arc;

use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::clock::Clock;
use quorlock_client_rules::outcome::BuildError;
use quorlock_client_rules::settings::Settings;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use self::dropped::Dropped;
use self::handle::Handle;
use self::thread::Thread;

/// The runtime of a thread that does not run yet. Where none can be started it ends without waiting, which a caller that is a
/// task of another runtime must not do.
struct Idle(Option<Runtime>);

impl Idle {
    fn started(mut self) -> Runtime {
        self.0.take().expect("a thread starts once")
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the thread.
pub(crate) fn start(
    nodes: Vec<NodeAddress>,
    settings: Settings,
    clock: Arc<dyn Clock>,
) -> Result<Handle, BuildError> {
    let failed = |error: std::io::Error| BuildError::Thread(Arc::new(error));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (commands, received) = mpsc::unbounded_channel();
    let dropped = Arc::new(Dropped::default());
    let released = Arc::clone(&dropped);
    let thread = std::thread::Builder::new().name("quorlock-client".to_owned());
    let runtime = Idle(Some(runtime));
    thread
        .spawn(move || {
            let runtime = runtime.started();
            let work = async move {
                let mut thread = Thread::new(nodes, settings, clock, received, released);
                let work = std::future::poll_fn(|context| thread.poll(context));
                // Calls must not use up what sockets and timers may take: the thread bounds each by itself.
                tokio::task::unconstrained(work).await;
            };
            LocalSet::new().block_on(&runtime, work);
        })
        .map_err(failed)?;
    Ok(Handle::new(commands, dropped))
}
