//! The page over HTTP, on a thread of its own.
//!
//! Bounded in connections, time and bytes as the endpoint of the metrics is. Requests that name another host than this machine
//! are refused: a page of somebody else whose name leads here must not read it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{mpsc, oneshot};

use super::key::Key;
use super::look::{Wish, look_on};
use crate::exit_code::Failure;
use crate::inspect::overview::OverviewSource;

/// A page that is served until the process ends.
#[derive(Debug)]
pub(super) struct PageServer {
    address: SocketAddr,
    key: Option<Key>,
}

#[derive(Clone)]
struct Shared {
    wishes: mpsc::Sender<Wish>,
    key: Option<Key>,
}

impl PageServer {
    /// Serves the page to those whose address has the key; to everybody on this machine without one.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn serve(
        listener: TcpListener,
        source: OverviewSource,
        key: Option<Key>,
    ) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::failed(format!("cannot serve a page: {error}"));
        let address = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(refused)?;
        let (wishes, wished) = mpsc::channel(CONNECTIONS_MAX);
        let router = router(Arc::new(Shared {
            wishes,
            key: key.clone(),
        }));
        std::thread::Builder::new()
            .name("quorlock-page".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    // It was made non-blocking, and the runtime is there.
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    let served = quorlock_server::serve_http(listener, CONNECTIONS_MAX, router);
                    tokio::join!(served, look_on(source, wished));
                });
            })
            .map_err(refused)?;
        Ok(Self { address, key })
    }

    /// Where a browser finds it.
    pub(super) fn url(&self) -> String {
        match &self.key {
            None => format!("http://{}/", self.address),
            Some(key) => format!("http://{}/?key={}", self.address, key.as_str()),
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/api/v1/cluster", get(cluster))
        .route(
            "/page.css",
            get(async || file("text/css", include_str!("page.css"))),
        )
        .route(
            "/page.js",
            get(async || file("text/javascript", include_str!("page.js"))),
        )
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "there is nothing here: the page is /\n",
            )
        })
        .layer(middleware::from_fn(of_this_machine))
        .with_state(shared)
}

/// Passes on what is asked of this machine by its own name.
async fn of_this_machine(request: Request, next: Next) -> Response {
    if is_local(request.headers()) {
        return next.run(request).await;
    }
    let why = "this page is for 127.0.0.1 and localhost: use that name, also through a tunnel\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

fn is_local(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else {
        return false;
    };
    let (name, port) = host.split_once(':').unwrap_or((host, "80"));
    (name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")) && port.parse::<u16>().is_ok()
}

async fn page(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    match shared.admits(query.as_deref()) {
        true => file("text/html", include_str!("page.html")),
        false => no_key(),
    }
}

/// Nodes and locks as they are now.
async fn cluster(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    if !shared.admits(query.as_deref()) {
        return no_key();
    }
    let (wish, answer) = oneshot::channel();
    let is_taken = shared.wishes.try_send(wish).is_ok();
    match answer.await {
        Ok(text) if is_taken => file("application/json", text),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "too many ask at once\n").into_response(),
    }
}

impl Shared {
    fn admits(&self, query: Option<&str>) -> bool {
        self.key.as_ref().is_none_or(|key| key.is_in(query))
    }
}

fn no_key() -> Response {
    let why = "the address of this page ends with a key: use the whole one that was printed\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

/// An answer that is not kept, and that no other page may show or feed.
fn file(kind: &'static str, body: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, body).into_response()
}

const CONNECTIONS_MAX: usize = 64;
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machines_own_names_are_answered() {
        for (host, is_answered) in [
            ("127.0.0.1:8701", true),
            ("127.0.0.1", true),
            ("localhost:9", true),
            ("LOCALHOST", true),
            ("127.0.0.1:@evil.example", false),
            ("127.0.0.1:evil", false),
            ("evil.example:8701", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8701", false),
            ("10.0.0.7:8701", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("it is a header"));
            assert_eq!(is_local(&headers), is_answered, "{host}");
        }
        assert!(!is_local(&HeaderMap::new()));
        let mut twice = HeaderMap::new();
        for host in ["127.0.0.1", "evil.example"] {
            twice.append(header::HOST, host.parse().expect("it is a header"));
        }
        assert!(!is_local(&twice));
    }
}
