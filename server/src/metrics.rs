//! The HTTP endpoint for monitoring: `/metrics`, `/readyz` and `/healthz`.
//!
//! Off unless `metrics-port` is given. It runs on a thread of its own and only reads: atomics, and
//! a few numbers under the engine's lock, once per scrape. It shows counts and states, never the
//! name of a key, a token or a password. Every connection is bounded in number, time and bytes.

mod exposition;
mod listener;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::node::error::StartError;
use crate::node::shared::Shared;
use crate::runtime;
use listener::Bounded;

/// Binds what `metrics-bind` and `metrics-port` name; nothing where there is no port.
///
/// # Errors
/// When an address that must exist cannot be listened on.
pub(crate) fn bind(config: &Config) -> Result<Vec<std::net::TcpListener>, StartError> {
    let Some(mut port) = config.metrics_port else {
        return Ok(Vec::new());
    };
    let mut listeners: Vec<std::net::TcpListener> = Vec::new();
    for address in &config.metrics_bind {
        let wanted = SocketAddr::new(address.address, port);
        match runtime::listener::bind(wanted, BACKLOG) {
            Ok(bound) => {
                // Port 0: the first address finds a free one, the others take the same.
                port = bound.local_addr().map_or(port, |address| address.port());
                listeners.push(bound);
            }
            Err(error) if address.is_optional && error.kind() != std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(StartError::BindMetrics {
                    address: wanted,
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok(listeners)
}

/// Serves until the node has stopped, on a thread of its own.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(
    listeners: Vec<std::net::TcpListener>,
    shared: Arc<Shared>,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("quorlock-http".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let mut stopped = shared.stopped();
                let mut serving = serve(listeners, &shared);
                // Nobody's reply waits here: what is under way when the node stops is cut off.
                let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
                serving.abort_all();
            });
        })
}

fn serve(listeners: Vec<std::net::TcpListener>, shared: &Arc<Shared>) -> JoinSet<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/readyz", get(ready))
        .route("/healthz", get(healthy))
        .fallback(nowhere)
        .method_not_allowed_fallback(only_reading)
        .with_state(Arc::clone(shared));
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut serving = JoinSet::new();
    for listener in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let bounded = Bounded::new(listener, Arc::clone(&permits));
                let router = router.clone();
                serving.spawn(async move {
                    if let Err(error) = axum::serve(bounded, router).await {
                        tracing::warn!("the metrics endpoint ended: {error}");
                    }
                });
            }
            Err(error) => tracing::warn!("the metrics endpoint cannot serve: {error}"),
        }
    }
    serving
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match exposition::text(&shared) {
        Ok(text) => answer(StatusCode::OK, exposition::CONTENT_TYPE, text),
        Err(error) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics could not be written: {error}\n"),
        ),
    }
}

/// Whether the node takes part: what a load balancer or an orchestrator asks.
async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let state = state::of(&shared);
    let mut response = plain(
        if state.is_serving() {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        format!("{state}\n"),
    );
    if let Some(seconds) = state.retry_after_seconds() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Whether the process is worth keeping: also while it waits out its restart delay, because to
/// restart it then would help nobody.
async fn healthy(State(shared): State<Arc<Shared>>) -> Response {
    let state = state::of(&shared);
    let status = if state.is_failed() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    plain(status, format!("{state}\n"))
}

async fn nowhere() -> Response {
    plain(
        StatusCode::NOT_FOUND,
        "there are /metrics, /readyz and /healthz\n".to_owned(),
    )
}

async fn only_reading() -> Response {
    let mut response = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "this endpoint can only be read: GET or HEAD\n".to_owned(),
    );
    let methods = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(header::ALLOW, methods);
    response
}

fn plain(status: StatusCode, text: String) -> Response {
    answer(status, "text/plain; charset=utf-8", text)
}

fn answer(status: StatusCode, content_type: &'static str, text: String) -> Response {
    // One request per connection: a connection has little time to live.
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONNECTION, "close"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, text).into_response()
}

/// Connections at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
const BACKLOG: u32 = 64;
