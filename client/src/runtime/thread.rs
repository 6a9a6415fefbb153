//! The loop of a thread that runs clients.
//!
//! Invariant: in each iteration every client that was woken has one bounded share, in the order in which they were woken, and
//! between two iterations the runtime looks at all sockets and timers. So a client waits for the others at most as long as one
//! share of each takes. A client that panics ends alone.
//!
//! An event costs the same however many clients there are: sockets and timers wake the client that they belong to, and the
//! runtime's wheel has the deadlines of all.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, unconstrained};

use super::client_io::{Arrival, ClientIo, Equipment};

/// A thread's clients, until the last of them has ended.
pub(super) struct RunningClients {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    running: HashMap<u64, Running>,
    /// How many clients have arrived so far.
    arrived: u64,
    /// Those that were woken, each once.
    woken: mpsc::UnboundedReceiver<u64>,
    waking: mpsc::UnboundedSender<u64>,
    /// Those whose share comes in this iteration.
    due: Vec<u64>,
    equipment: Equipment,
}

struct Running {
    client: Box<ClientIo>,
    wake: Arc<WakeClient>,
    waker: Waker,
}

/// Wakes one client of the thread.
struct WakeClient {
    number: u64,
    /// It is on its way to its share already.
    is_woken: AtomicBool,
    waking: mpsc::UnboundedSender<u64>,
}

impl RunningClients {
    fn new(arrivals: mpsc::UnboundedReceiver<Arrival>) -> Self {
        let (waking, woken) = mpsc::unbounded_channel();
        Self {
            arrivals,
            running: HashMap::new(),
            arrived: 0,
            woken,
            waking,
            due: Vec::new(),
            equipment: Equipment::new(),
        }
    }

    /// Runs the clients until none is left.
    pub(super) async fn run(&mut self) {
        let work = std::future::poll_fn(|context| self.poll(context));
        // Calls must not use up what sockets and timers may take: each client bounds both by itself.
        unconstrained(work).await;
    }

    /// Whether a client has arrived behind the last one's end.
    pub(super) fn is_awaited(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// One iteration; ready when no client is left.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(Some(arrival)) = self.arrivals.poll_recv(context) {
            self.admit(arrival);
        }
        // A client that is woken from here on is in the next iteration.
        while let Poll::Ready(Some(number)) = self.woken.poll_recv(context) {
            self.due.push(number);
        }
        let passes = match self.due.len() {
            1 => PASSES_ALONE,
            _ => 1,
        };
        let mut due = std::mem::take(&mut self.due);
        for number in due.drain(..) {
            self.run_client(number, passes);
        }
        self.due = due;
        match self.running.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        let number = self.arrived;
        self.arrived += 1;
        let Ok(client) = catch_unwind(AssertUnwindSafe(|| Box::new(ClientIo::new(arrival)))) else {
            return;
        };
        let wake = Arc::new(WakeClient {
            number,
            is_woken: AtomicBool::new(false),
            waking: self.waking.clone(),
        });
        let waker = Waker::from(Arc::clone(&wake));
        waker.wake_by_ref();
        let running = Running {
            client,
            wake,
            waker,
        };
        self.running.insert(number, running);
    }

    /// Gives a client its share. One that panics, which its rules or a program's clock may do, ends as one whose work is
    /// done: its callers get what they get of a client that has stopped.
    fn run_client(&mut self, number: u64, passes: usize) {
        // Its last wake-ups may come behind its end.
        let Some(running) = self.running.get_mut(&number) else {
            return;
        };
        running.wake.is_woken.swap(false, Ordering::SeqCst);
        let mut context = Context::from_waker(&running.waker);
        let equipment = &mut self.equipment;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            running.client.poll(&mut context, equipment, passes)
        }));
        if matches!(polled, Ok(Poll::Pending)) {
            return;
        }
        let ended = self.running.remove(&number);
        // What a program has given it may panic here too; the panic is reported where it happens.
        let _panicked = catch_unwind(AssertUnwindSafe(|| drop((ended, polled))));
    }
}

impl Wake for WakeClient {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            // The thread may have ended.
            let _ended = self.waking.send(self.number);
        }
    }
}

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

/// Starts a thread that does this with its first client, and with those that arrive later.
pub(super) fn start<W>(first: Arrival, work: W) -> io::Result<mpsc::UnboundedSender<Arrival>>
where
    W: AsyncFnOnce(RunningClients) + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        // All that have something: who is told that its time is over has seen what had come by then.
        .max_io_events_per_tick(EVENTS_MAX)
        .enable_all()
        .build()?;
    let (arriving, arrivals) = mpsc::unbounded_channel();
    let _waits = arriving.send(first);
    let thread = std::thread::Builder::new().name("quorlock-client".to_owned());
    let runtime = Idle(Some(runtime));
    thread.spawn(move || {
        let runtime = runtime.started();
        LocalSet::new().block_on(&runtime, work(RunningClients::new(arrivals)));
    })?;
    Ok(arriving)
}

/// How much of its work a client does in a share where no other waits for its own: the runtime looks at the sockets less often.
const PASSES_ALONE: usize = 4;

/// Sockets that the runtime learns of at once.
const EVENTS_MAX: usize = 16 << 10;
