//! A connection in memory: a client writes requests to it and reads replies from it, as from a node.
//!
//! Invariants: replies come in the order of the requests. Requests are begun in their order, and many are under way at once. All of
//! it runs while it is read, and ends with it: nothing outlives the connection.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::listing;
use crate::reply::Reply;
use crate::request::{Aspect, Form, Listing, Operation, Request};
use crate::request_bytes::RequestBytes;
use crate::system::{Done, Holder, Page, Running, System, Taken};

/// A connection to another system, as if it were a node.
pub struct Gateway {
    system: Box<dyn System>,
    requests: RequestBytes,
    /// The requests that were begun, the oldest first.
    begun: VecDeque<Begun>,
    /// The replies that are still to be read.
    out: Vec<u8>,
    read: usize,
    /// Who waits for which lock.
    waiters: HashMap<Bytes, Waiter>,
    /// The locks that are looked at because they may have expired.
    looks: Vec<(Bytes, Running<Option<Holder>>)>,
    /// Until the next of them may have expired.
    next_look: Option<Pin<Box<Sleep>>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A request that was begun.
enum Begun {
    Running(Pin<Box<dyn Future<Output = Answer>>>),
    Answered(Answer),
}

/// What a request comes to.
#[derive(Default)]
struct Answer {
    /// None where nobody has asked.
    reply: Option<Reply>,
    /// The lock that was granted, and the token: with it nobody waits any more.
    granted: Option<(Bytes, Bytes)>,
    /// The lock that is waited for, and who holds it.
    waited: Option<Box<(Bytes, Option<Holder>)>>,
}

struct Waiter {
    token: Bytes,
    /// When the lock may have expired, once that is known.
    expires: Option<Instant>,
    /// It knows that the lock is free, and asks for it, or again to be told.
    is_told: bool,
}

impl Gateway {
    pub(crate) fn new(system: Box<dyn System>) -> Self {
        Self {
            system,
            requests: RequestBytes::default(),
            begun: VecDeque::new(),
            out: Vec::new(),
            read: 0,
            waiters: HashMap::new(),
            looks: Vec::new(),
            next_look: None,
            reader: None,
            writer: None,
        }
    }

    /// Begins the requests that have come, as many as may be under way at once.
    fn begin_all(&mut self) -> io::Result<()> {
        while self.begun.len() < BEGUN_MAX {
            match self.requests.next() {
                Ok(Some(words)) => {
                    let request =
                        Request::read(&words, self.system.name(), self.system.has_fences());
                    let begun = self.begin(request);
                    self.begun.push_back(begun);
                }
                Ok(None) => break,
                Err(_) => {
                    self.requests.clear();
                    let text = "the client sends what is no request";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        if self.requests.len() < BUFFERED_MAX
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
        Ok(())
    }

    fn begin(&mut self, request: Request) -> Begun {
        let system = &mut self.system;
        match request {
            Request::Answer(reply) => Begun::Answered(reply.into()),
            Request::Info => {
                let asking = system.info();
                running(async move { Ok(Reply::text(&asking.await?).into()) })
            }
            Request::Acquire(acquire, form) => {
                let lock = (acquire.name.clone(), acquire.token.clone());
                let taking = system.acquire(acquire);
                running(async move {
                    let taken = taking.await?;
                    let is_granted = matches!(taken, Taken::Granted(_));
                    Ok(Answer {
                        granted: is_granted.then_some(lock),
                        ..taken_as(&taken, form).into()
                    })
                })
            }
            Request::Operation(operation) => {
                let asked = match operation {
                    Operation::Fence(_, _, fence) => Some(fence),
                    _ => None,
                };
                let is_extension = matches!(operation, Operation::Extend(..));
                let operating = system.operate(operation);
                running(async move { Ok(done_as(&operating.await?, asked, is_extension).into()) })
            }
            Request::Several(several) => {
                let running_on_all = system.run_on_all(several);
                running(async move { Ok(running_on_all.await?.into()) })
            }
            Request::Wait { name, token } => {
                let waiter = Waiter {
                    token,
                    expires: None,
                    is_told: false,
                };
                self.waiters.insert(name.clone(), waiter);
                let watching = system.watch(name.clone());
                running(async move {
                    let holder = watching.await?;
                    let number = i64::from(holder.is_some());
                    Ok(Answer {
                        waited: Some(Box::new((name, holder))),
                        ..Reply::Number(number).into()
                    })
                })
            }
            Request::Unwait(name) => {
                let waited = self.waiters.remove(&name).is_some();
                let unwatching = system.unwatch(&name);
                running(async move {
                    unwatching.await?;
                    Ok(Reply::Number(i64::from(waited)).into())
                })
            }
            Request::Look(name, aspect) => {
                let looking = system.look(name);
                running(async move { Ok(look_as(looking.await?.as_ref(), aspect).into()) })
            }
            Request::List(pattern, after, listing) => {
                let reading = system.list(pattern.clone(), after);
                running(async move { Ok(list_as(reading.await?, &pattern, listing).into()) })
            }
        }
    }

    /// Moves all requests on, and takes the replies that are next. Says whether there were any.
    fn advance(&mut self, context: &mut Context<'_>) -> bool {
        for begun in &mut self.begun {
            if let Begun::Running(running) = begun
                && let Poll::Ready(answer) = running.as_mut().poll(context)
            {
                *begun = Begun::Answered(answer);
            }
        }
        let mut has_advanced = false;
        while let Some(Begun::Answered(answer)) = self.begun.front_mut() {
            let answer = std::mem::take(answer);
            self.begun.pop_front();
            has_advanced = true;
            if let Some(reply) = &answer.reply {
                reply.write(&mut self.out);
            }
            if let Some((name, token)) = answer.granted
                && self
                    .waiters
                    .get(&name)
                    .is_some_and(|waiter| waiter.token == token)
            {
                self.waiters.remove(&name);
                let unwatching = self.system.unwatch(&name);
                self.begun.push_back(running(async move {
                    unwatching.await?;
                    Ok(Answer::default())
                }));
            }
            if let Some(waited) = answer.waited {
                let (name, holder) = *waited;
                self.seen(&name, holder.as_ref(), false);
            }
        }
        has_advanced
    }

    /// A lock that is waited for was looked at.
    fn seen(&mut self, name: &Bytes, holder: Option<&Holder>, notifies: bool) {
        let Some(waiter) = self.waiters.get_mut(name) else {
            return;
        };
        match holder {
            Some(holder) => waiter.expires = Some(Instant::now() + holder.left + LOOK_AFTER),
            None if notifies => self.notify(name),
            // The reply says that it is free.
            None => waiter.is_told = true,
        }
        self.next_look = None;
    }

    /// Tells the client that a lock is free.
    fn notify(&mut self, name: &Bytes) {
        let waiter = self.waiters.get_mut(name);
        if let Some(waiter) = waiter.filter(|waiter| !waiter.is_told) {
            waiter.is_told = true;
            waiter.expires = None;
            let parts = [&b"lock-free"[..], name, &waiter.token];
            let parts = parts.map(|part| Reply::Text(part.to_vec()));
            Reply::Push(parts.into()).write(&mut self.out);
        }
    }

    /// Looks at locks that may have expired: of that nobody tells.
    fn poll_looks(&mut self, context: &mut Context<'_>) {
        loop {
            self.finish_looks(context);
            if self.next_look.is_none() {
                let next = self.waiters.values().filter_map(|waiter| waiter.expires);
                self.next_look = next.min().map(|next| Box::pin(sleep_until(next)));
            }
            let Some(next) = &mut self.next_look else {
                return;
            };
            if next.as_mut().poll(context).is_pending() {
                return;
            }
            self.next_look = None;
            let now = Instant::now();
            for (name, waiter) in &mut self.waiters {
                if waiter.expires.is_some_and(|at| at <= now) {
                    waiter.expires = None;
                    let look = self.system.look(name.clone());
                    self.looks.push((name.clone(), look));
                }
            }
        }
    }

    fn finish_looks(&mut self, context: &mut Context<'_>) {
        let mut seen = Vec::new();
        self.looks
            .retain_mut(|(name, look)| match look.as_mut().poll(context) {
                Poll::Ready(holder) => {
                    seen.push((name.clone(), holder));
                    false
                }
                Poll::Pending => true,
            });
        for (name, holder) in seen {
            match holder {
                Ok(holder) => self.seen(&name, holder.as_ref(), true),
                // The client asks again by itself.
                Err(_) => self.notify(&name),
            }
        }
    }
}

impl AsyncRead for Gateway {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gateway = &mut *self;
        loop {
            while let Poll::Ready(released) = gateway.system.poll_released(context) {
                gateway.notify(&released?);
            }
            gateway.begin_all()?;
            let has_advanced = gateway.advance(context);
            gateway.poll_looks(context);
            if !has_advanced {
                break;
            }
        }
        let unread = &gateway.out[gateway.read..];
        if unread.is_empty() {
            gateway.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..count]);
        gateway.read += count;
        if gateway.read == gateway.out.len() {
            gateway.out.clear();
            gateway.read = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gateway {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.requests.len() >= BUFFERED_MAX {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.requests.append(bytes);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Gateway({})", self.system.name())
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply: Some(reply),
            ..Self::default()
        }
    }
}

/// The system's words are the reply where it refuses.
fn running(work: impl Future<Output = Result<Answer, String>> + 'static) -> Begun {
    Begun::Running(Box::pin(async move {
        let refused = |words| Reply::Error(words).into();
        work.await.unwrap_or_else(refused)
    }))
}

fn taken_as(taken: &Taken, form: Form) -> Reply {
    match (taken, form) {
        (Taken::Granted(_), Form::Plain) => Reply::Ok,
        (Taken::Granted(_), Form::Holder) | (Taken::Held(..), Form::Plain) => Reply::Null,
        // The client takes the number after the one that it is told, and asks for that.
        (Taken::Granted(fence), Form::Fence) => Reply::Array(vec![
            Reply::Number(1),
            Reply::Number(fence - 1),
            Reply::Number(0),
        ]),
        (Taken::Held(_, holder), Form::Holder) => Reply::Text(holder.to_vec()),
        (Taken::Held(fence, holder), Form::Fence) => Reply::Array(vec![
            Reply::Number(0),
            Reply::Number(*fence),
            Reply::Text(holder.to_vec()),
        ]),
    }
}

fn done_as(done: &Done, asked: Option<i64>, is_extension: bool) -> Reply {
    match done {
        Done::Held => Reply::Number(1),
        Done::Fence(fence) => {
            let is_taken = asked == Some(*fence);
            // The client takes the number after the one that it is told here as well.
            let told = if is_taken { *fence } else { fence - 1 };
            Reply::Array(vec![
                Reply::Number(i64::from(is_taken)),
                Reply::Number(told),
            ])
        }
        Done::Free | Done::Other if asked.is_some() => Reply::Null,
        Done::Other if is_extension => Reply::Number(-1),
        Done::Free | Done::Other => Reply::Number(0),
    }
}

fn look_as(holder: Option<&Holder>, aspect: Aspect) -> Reply {
    match (holder, aspect) {
        (None, Aspect::Token | Aspect::All) => Reply::Null,
        (None, Aspect::TimeLeft) => Reply::Number(-2),
        (holder, Aspect::Exists) => Reply::Number(i64::from(holder.is_some())),
        (Some(holder), Aspect::Token) => Reply::Text(holder.token.to_vec()),
        (Some(holder), Aspect::TimeLeft) => millis(holder.left),
        (Some(holder), Aspect::All) => Reply::Array(facts(holder)),
    }
}

/// What LOCK.INFO says.
fn facts(holder: &Holder) -> Vec<Reply> {
    let text = |bytes: &Bytes| Reply::Text(bytes.to_vec());
    let owner = holder.owner.as_ref().map_or(Reply::Null, text);
    let facts = [
        ("type", Reply::text("string")),
        ("token", text(&holder.token)),
        ("ttl-ms", millis(holder.left)),
        ("owner", owner),
        ("fence", holder.fence.map_or(Reply::Null, Reply::Number)),
    ];
    let pairs = facts.map(|(name, value)| [Reply::text(name), value]);
    pairs.into_iter().flatten().collect()
}

/// A page, behind the cursor of the next one.
fn list_as(page: Page, pattern: &[u8], listing: Listing) -> Reply {
    let cursor = Reply::Text(listing::cursor(page.next.as_deref()));
    let matching = page.locks.into_iter();
    let matching = matching.filter(|(name, _)| listing::matches(pattern, name));
    let rows = matching.map(|(name, holder)| {
        let name = Reply::Text(name.to_vec());
        match listing {
            Listing::Names => name,
            Listing::Facts => {
                let row = [Reply::text("name"), name].into_iter();
                let facts = holder.iter().flat_map(facts);
                Reply::Array(row.chain(facts).collect())
            }
        }
    });
    Reply::Array(vec![cursor, Reply::Array(rows.collect())])
}

fn millis(left: Duration) -> Reply {
    let millis = i64::try_from(left.as_millis());
    Reply::Number(millis.expect("a system tells 64 bits of milliseconds at most"))
}

/// Requests that are under way at once.
const BEGUN_MAX: usize = 64;
/// Bytes of requests that are kept until they can be begun.
const BUFFERED_MAX: usize = 8 << 20;
/// Later than a lock expires by its milliseconds.
const LOOK_AFTER: Duration = Duration::from_millis(2);

#[cfg(test)]
#[path = "connection_tests.rs"]
pub(crate) mod tests;
