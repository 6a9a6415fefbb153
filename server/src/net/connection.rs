//! One client: bytes in, commands executed inline, replies out.
//!
//! One turn reads what has arrived, executes every complete request under one lock of the
//! engine, and hands the replies to the worker's gate, which sends them once the log is as
//! durable as they need. Reading uses a buffer of the thread, so an idle connection holds none.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use crate::net::outlet::{IDLE_BYTES_MAX, Outlet};
use crate::net::worker::WorkerContext;
use crate::node::core::Wait;
use crate::protocol::{RequestParser, reply};
use crate::session::{Blocked, Next, Session};

/// Serves one client until it leaves, breaks the protocol, or the node stops.
pub(crate) async fn serve(stream: TcpStream, mut session: Session, worker: Arc<WorkerContext>) {
    let (stream, half) = stream.into_split();
    let mut connection = Connection {
        parser: RequestParser::new(session.limits()),
        received: Vec::new(),
        replies: Vec::new(),
        outlet: Arc::new(Outlet::new(half, Arc::clone(&worker.shared.meter))),
        stream,
    };
    // A client that went away is no event for the node.
    let _ = connection.run(&mut session, &worker).await;
    worker.shared.clients.remove(session.client.id);
}

struct Connection {
    stream: OwnedReadHalf,
    parser: RequestParser,
    /// Bytes of a request that has not arrived whole.
    received: Vec<u8>,
    replies: Vec<u8>,
    outlet: Arc<Outlet>,
}

impl Connection {
    async fn run(&mut self, session: &mut Session, worker: &WorkerContext) -> io::Result<()> {
        loop {
            let received = match session.patience(&worker.shared.config) {
                None => self.receive(worker).await?,
                Some(patience) => match timeout(patience, self.receive(worker)).await {
                    Ok(received) => received?,
                    Err(_) => return Ok(()),
                },
            };
            if received == 0 {
                return self.outlet.emptied().await;
            }
            loop {
                self.outlet.emptied().await?;
                let turn = self.execute(session, worker);
                if !self.replies.is_empty() {
                    worker
                        .gate
                        .submit(&self.outlet, &mut self.replies, turn.wait);
                }
                match turn.next {
                    Next::Read => break,
                    Next::Continue => {}
                    Next::Wait(blocked) => self.wait(blocked, session, worker).await?,
                    Next::Close => return self.outlet.emptied().await,
                }
            }
        }
    }

    /// Waits with the client, without holding up another connection, and answers. Its later
    /// requests wait in the buffer; a client that leaves ends it.
    async fn wait(
        &mut self,
        blocked: Blocked,
        session: &Session,
        worker: &WorkerContext,
    ) -> io::Result<()> {
        {
            let mut over = std::pin::pin!(blocked.over(&worker.shared));
            loop {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    count = self.receive(worker), if self.received.len() < WAITING_BYTES_MAX => {
                        if count? == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
            }
        }
        // The outlet sends all it holds, so the earlier replies have to leave first.
        self.outlet.emptied().await?;
        let reply = blocked.reply(&worker.shared);
        reply::write(&mut self.replies, &reply, session.protocol());
        worker
            .gate
            .submit(&self.outlet, &mut self.replies, Wait::default());
        Ok(())
    }

    /// Appends what has arrived to `received`. The bytes pass through the thread's buffer, so
    /// that a connection owns memory only for requests in progress.
    ///
    /// It polls the stream itself instead of waiting for readiness and then trying: a read that
    /// does not fill the buffer tells tokio that the socket is empty, which saves the system call
    /// that would find that out.
    async fn receive(&mut self, worker: &WorkerContext) -> io::Result<usize> {
        let Self {
            stream, received, ..
        } = self;
        let count = poll_fn(|context| {
            READING.with_borrow_mut(|buffer| {
                let mut target = ReadBuf::new(buffer);
                ready!(Pin::new(&mut *stream).poll_read(context, &mut target))?;
                received.extend_from_slice(target.filled());
                Poll::Ready(io::Result::Ok(target.filled().len()))
            })
        })
        .await?;
        worker
            .shared
            .statistics
            .bytes_in
            .fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    /// Executes complete requests, up to the bound of one turn.
    fn execute(&mut self, session: &mut Session, worker: &WorkerContext) -> Turn {
        let mut turn = Turn {
            wait: Wait::default(),
            next: Next::Read,
        };
        let mut batch = session.begin(&worker.shared);
        for executed in 0.. {
            if executed >= REQUESTS_PER_TURN || self.replies.len() >= REPLY_BYTES_PER_TURN {
                turn.next = Next::Continue;
                break;
            }
            let request = match self.parser.next_request(&mut self.received) {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    error.write_reply(&mut self.replies);
                    tracing::info!(client = %session.client.address, "closed: {error}");
                    turn.next = Next::Close;
                    break;
                }
            };
            let arguments = request.arguments(&self.received);
            turn.next = batch.execute(session, &arguments, &mut turn.wait, &mut self.replies);
            if session.take_limits_changed() {
                self.parser.set_limits(session.limits());
            }
            if turn.next != Next::Read {
                break;
            }
        }
        session.end(batch);
        self.forget_consumed();
        turn
    }

    fn forget_consumed(&mut self) {
        let consumed = self.parser.take_consumed();
        if consumed == self.received.len() {
            self.received.clear();
            self.received.shrink_to(IDLE_BYTES_MAX);
        } else {
            self.received.drain(..consumed);
        }
    }
}

struct Turn {
    wait: Wait,
    next: Next,
}

thread_local! {
    static READING: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// One read takes at most this much.
const READ_BYTES: usize = 64 * 1024;

/// A client that waits is not read further than this; the rest stays with its kernel.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// A turn ends here, so that one deep pipeline does not starve its neighbours.
const REQUESTS_PER_TURN: usize = 1024;
const REPLY_BYTES_PER_TURN: usize = 256 * 1024;
