//! The HTTP endpoint for monitoring: `/metrics`, `/readyz` and `/healthz`.
//!
//! Off unless `metrics-port` is given. It runs on a thread of its own and only reads: atomics, and
//! a few numbers under the engine's lock, once per scrape. It shows counts and states, never the
//! name of a key, a token or a password. Every connection is bounded in number, time and bytes.

mod endpoint;
mod exposition;
pub(crate) mod listener;
mod locks;
mod page;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorlock_node::core::state::NodeState;

pub(crate) use endpoint::Endpoint;

/// What is served on each of its addresses.
fn router(node: &Arc<NodeState>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/readyz", get(ready))
        .route("/healthz", get(healthy))
        .fallback(nowhere)
        .method_not_allowed_fallback(only_reading)
        .with_state(Arc::clone(node))
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
