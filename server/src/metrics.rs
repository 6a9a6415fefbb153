//! The HTTP endpoint for monitoring: `/metrics`, `/readyz` and `/healthz`.
//!
//! Off unless `metrics-port` is given. It runs on a thread of its own and only reads: atomics, and
//! a few numbers under the engine's lock, once per scrape. It shows counts and states, never the
//! name of a key, a token or a password. Every connection is bounded in number, time and bytes.

mod exposition;
pub(crate) mod listener;
mod locks;
mod page;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::runtime::listener::{BindError, bind_all};
use crate::tls::Acceptor;
use quorlock_node::core::state::NodeState;
use quorlock_node::start::StartError;

/// Binds what `metrics-bind` and `metrics-port` name; nothing where there is no port.
///
/// # Errors
/// When an address that must exist cannot be listened on.
pub(crate) fn bind(config: &Config) -> Result<Vec<std::net::TcpListener>, StartError> {
    let Some(port) = config.metrics_port else {
        return Ok(Vec::new());
    };
    bind_all(&config.metrics_bind, port, BACKLOG)
        .map_err(|BindError { address, source }| StartError::BindMetrics { address, source })
}

/// Serves until the node has stopped, on a thread of its own; over TLS where there is what begins it.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(
    listeners: Vec<std::net::TcpListener>,
    tls: Option<Arc<Acceptor>>,
    node: Arc<NodeState>,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("quorlock-http".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let mut serving = serve(listeners, tls, &node);
                // Nobody's reply waits here: what is under way when the node stops is cut off.
                node.signals.stopped.wait().await;
                serving.abort_all();
            });
        })
}

fn serve(
    listeners: Vec<std::net::TcpListener>,
    tls: Option<Arc<Acceptor>>,
    node: &Arc<NodeState>,
) -> JoinSet<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/readyz", get(ready))
        .route("/healthz", get(healthy))
        .fallback(nowhere)
        .method_not_allowed_fallback(only_reading)
        .with_state(Arc::clone(node));
    let places = listener::ConnectionSlots::new(CONNECTIONS_MAX);
    let mut serving = JoinSet::new();
    for listener in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                serving.spawn(listener::serve(
                    listener,
                    Arc::clone(&places),
                    tls.clone(),
                    router.clone(),
                ));
            }
            Err(error) => tracing::warn!("the metrics endpoint cannot serve: {error}"),
        }
    }
    serving
}

async fn metrics(State(node): State<Arc<NodeState>>) -> Response {
    match exposition::text(&node) {
        Ok(text) => answer(StatusCode::OK, exposition::CONTENT_TYPE, text),
        Err(error) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics could not be written: {error}\n"),
        ),
    }
}

/// Whether the node serves locks: what a load balancer or an orchestrator asks.
async fn ready(State(node): State<Arc<NodeState>>) -> Response {
    let state = state::of(&node);
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
async fn healthy(State(node): State<Arc<NodeState>>) -> Response {
    let state = state::of(&node);
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
