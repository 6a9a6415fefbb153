//! Connections that cannot cost more than they are worth: bounded in number, lifetime and bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Answers connections while there are permits left; further ones wait in the kernel's queue.
pub(super) async fn serve(listener: TcpListener, permits: Arc<Semaphore>, router: Router) {
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                connections.spawn(async move {
                    answer(stream, router).await;
                    drop(permit);
                });
            }
            // Out of descriptors, or a client that left in the queue: both pass.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Answers one request, in its time. Who sent it sees why it got no answer, or nobody does.
async fn answer<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _cut_off = tokio::time::timeout(LIFETIME, connection).await;
}

/// From accept to the last byte of the answer.
const LIFETIME: Duration = Duration::from_secs(5);
/// From accept to the end of the request's head: a connection that asks nothing delays the probes
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
    use tokio::net::TcpStream;
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
            answer(served, router()).await;
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

    #[tokio::test]
    async fn a_permit_is_free_again_when_its_connection_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let serving = tokio::spawn(serve(listener, Arc::clone(&permits), router()));
        let silent = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        second
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        while permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        drop(silent);
        let mut answer = String::new();
        second.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("here"), "{answer}");
        serving.abort();
    }
}
