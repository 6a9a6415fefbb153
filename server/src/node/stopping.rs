//! The end of a node that was dropped.
//!
//! Invariant: a thread of a runtime waits for no node while it runs tasks. What it has dropped it
//! waits for when it ends, which for the main thread is the end of the program: so a node that is
//! dropped at the end of `main` stops in order.

use std::cell::RefCell;
use std::thread::JoinHandle;

/// Waits for a node that was asked to stop: now, or on a thread of a runtime when that ends, unless
/// the node has as good as stopped.
pub(crate) fn wait(supervisor: JoinHandle<()>, has_ended: bool) {
    let is_runtime = tokio::runtime::Handle::try_current().is_ok();
    if has_ended || !is_runtime {
        return join(supervisor);
    }
    // A thread that is at its end already does not wait any more.
    let _ended = AT_THREAD_END.try_with(|end| {
        let mut supervisors = end.0.borrow_mut();
        supervisors.retain(|supervisor| !supervisor.is_finished());
        supervisors.push(supervisor);
    });
}

fn join(supervisor: JoinHandle<()>) {
    // A thread that panicked has said so already.
    let _ = supervisor.join();
}

/// Nodes that this thread has dropped and that were still stopping.
struct StoppingNodes(RefCell<Vec<JoinHandle<()>>>);

impl Drop for StoppingNodes {
    fn drop(&mut self) {
        self.0.get_mut().drain(..).for_each(join);
    }
}

thread_local! {
    static AT_THREAD_END: StoppingNodes = const { StoppingNodes(RefCell::new(Vec::new())) };
}
