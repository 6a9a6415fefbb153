//! Connections that cannot cost more than they are worth: bounded in number, lifetime and bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime::listener::is_local;
use crate::tls::Acceptor;

/// The connections of all listeners together. Where there is no place left, one has to go: a flood of those that ask
/// nothing must not keep out the probe by which an orchestrator judges the node.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most: usize,
    /// In the order in which they came.
    taken: Mutex<Vec<ConnectionSlot>>,
}

#[derive(Debug)]
struct ConnectionSlot {
    is_local: bool,
    has_request: Arc<AtomicBool>,
    task: AbortHandle,
}

impl ConnectionSlots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { most, taken })
    }

    /// Makes room: those of other machines go first, of these the ones that have sent no whole request, of these the
    /// oldest. Says false where only those of this machine are left, and the new one is not of it.
    fn make_room(&self, is_local: bool) -> bool {
        let mut taken = self.lock();
        taken.retain(|place| !place.task.is_finished());
        if taken.len() < self.most {
            return true;
        }
        let rank =
            |place: &ConnectionSlot| (place.is_local, place.has_request.load(Ordering::Relaxed));
        let first = taken
            .iter()
            .enumerate()
            .min_by_key(|(_, place)| rank(place));
        match first {
            Some((at, place)) if is_local || !place.is_local => {
                taken.remove(at).task.abort();
                true
            }
            _ => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ConnectionSlot>> {
        self.taken.lock().expect("none of its holders can panic")
    }
}

/// Answers connections, so many at a time, as long as it is polled. Each may send one request, and has bounded time for it.
pub async fn serve_http(listener: TcpListener, connections_max: usize, router: Router) {
    serve(
        listener,
        ConnectionSlots::new(connections_max),
        None,
        router,
    )
    .await;
}

/// Answers connections as long as it is polled.
pub(super) async fn serve(
    listener: TcpListener,
    places: Arc<ConnectionSlots>,
    tls: Option<Arc<Acceptor>>,
    router: Router,
) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let is_local = is_of_this_machine(&peer);
                if !places.make_room(is_local) {
                    continue;
                }
                let has_request = Arc::new(AtomicBool::new(false));
                let answer = greet(
                    stream,
                    tls.clone(),
                    router.clone(),
                    Arc::clone(&has_request),
                );
                let task = connections.spawn(answer);
                places.lock().push(ConnectionSlot {
                    is_local,
                    has_request,
                    task,
                });
            }
            // Out of descriptors, or a client that left in the queue: both pass.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn is_of_this_machine(peer: &SocketAddr) -> bool {
    is_local(&peer.ip().to_canonical())
}

/// Answers a connection, where TLS is spoken behind a handshake that has its own time.
async fn greet(
    stream: TcpStream,
    tls: Option<Arc<Acceptor>>,
    router: Router,
    has_request: Arc<AtomicBool>,
) {
    let Some(acceptor) = tls else {
        return answer(stream, router, has_request).await;
    };
    let handshake = acceptor.accept_http(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, handshake).await {
        answer(stream, router, has_request).await;
    }
}

/// Answers one request, in its time. Who sent it sees why it got no answer, or nobody does.
async fn answer<S>(stream: S, router: Router, has_request: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        has_request.store(true, Ordering::Relaxed);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _cut_off = tokio::time::timeout(LIFETIME, connection).await;
}

/// From accept, or the end of the handshake, to the last byte of the answer.
const LIFETIME: Duration = Duration::from_secs(5);
/// From accept to the end of the handshake, and from there to the end of the request's head: a connection that asks nothing delays the probes
/// that wait for a permit.
const HEAD_TIME: Duration = Duration::from_secs(1);
/// More than the head of any scraper's request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    fn router() -> Router {
        Router::new()
            .route("/", get(async || "here"))
            .route("/long", get(async || "x".repeat(1 << 20)))
    }

    /// A client and what serves it. The clock of the test jumps to the next timer when nothing
    /// happens.
    async fn pair() -> (DuplexStream, JoinHandle<Duration>) {
        let (client, served) = duplex(64 * 1024);
        let serving = tokio::spawn(async {
            let began = Instant::now();
            answer(served, router(), Arc::default()).await;
            began.elapsed()
        });
        tokio::task::yield_now().await;
        (client, serving)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_cut_off_when_its_time_is_up() {
        let (_client, serving) = pair().await;
        assert_eq!(serving.await.unwrap().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_byte_by_byte_gets_no_more_time() {
        let (mut client, serving) = pair().await;
        for byte in b"GET / HTTP/1.1" {
            if client.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(HEAD_TIME / 4).await;
        }
        assert_eq!(serving.await.unwrap().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off_too() {
        let (mut client, serving) = pair().await;
        client
            .write_all(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(serving.await.unwrap().as_secs(), LIFETIME.as_secs());
    }

    #[tokio::test]
    async fn the_head_of_a_request_has_an_end() {
        for (bytes, status) in [(0, "200"), (HEAD_BYTES_MAX, "431")] {
            let (mut client, serving) = pair().await;
            let head = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(bytes));
            client.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            serving.await.unwrap();
        }
    }

    fn place(places: &ConnectionSlots, is_local: bool, has_request: bool) -> JoinHandle<()> {
        let task = tokio::spawn(std::future::pending());
        places.lock().push(ConnectionSlot {
            is_local,
            has_request: Arc::new(AtomicBool::new(has_request)),
            task: task.abort_handle(),
        });
        task
    }

    #[tokio::test]
    async fn who_goes_is_of_another_machine_has_asked_nothing_and_came_first() {
        let places = ConnectionSlots::new(5);
        let came = [
            (true, false),
            (false, true),
            (false, false),
            (false, false),
            (true, true),
        ];
        let mut tasks = Vec::new();
        for (is_local, has_request) in came {
            assert!(places.make_room(false), "there is room");
            tasks.push(Some(place(&places, is_local, has_request)));
        }
        for gone in [2, 3, 1] {
            assert!(places.make_room(false));
            tasks[gone].take().unwrap().await.unwrap_err();
            // Its place goes to a local one.
            tasks.push(Some(place(&places, true, true)));
        }
        assert!(!places.make_room(false), "those of this machine stay");
        assert!(places.make_room(true));
        tasks[0].take().unwrap().await.unwrap_err();
        assert!(tasks.iter().flatten().all(|task| !task.is_finished()));
    }

    #[tokio::test]
    async fn a_flood_of_silent_connections_keeps_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, ConnectionSlots::new(4), None, router()));
        let mut silent = Vec::new();
        for _ in 0..150 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let began = Instant::now();
        let mut probe = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        probe.write_all(request).await.unwrap();
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("here"), "{answer}");
        assert!(began.elapsed() < HEAD_TIME, "nobody's time had to run out");
        serving.abort();
    }
}
