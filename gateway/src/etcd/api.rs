//! etcd's API as JSON over HTTP, which each member serves beside gRPC. The gRPC of `etcd-client` would be two dozen more crates, and has
//! connections and tasks of its own (docs/adr/0018-own-clients-of-other-systems.md).

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, MutexGuard};

use super::LOCKS;

/// A connection on which requests are made one after the other.
pub(super) struct Api {
    requests: Mutex<SendRequest<Full<Bytes>>>,
    host: String,
    /// What a login was answered with.
    token: RefCell<Option<String>>,
    is_logged_out: Cell<bool>,
}

/// What moves a connection on. It resolves when the connection has ended.
pub(super) type Driver = Pin<Box<dyn Future<Output = io::Error>>>;

/// Begins to speak HTTP.
pub(super) async fn open<S>(stream: S, host: &str) -> io::Result<(Api, Driver)>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let shaken = handshake(TokioIo::new(stream)).await;
    let (requests, connection) = shaken.map_err(io::Error::other)?;
    let driver = Box::pin(async move {
        let words = match connection.await {
            Ok(()) => "etcd: it has closed the connection".to_owned(),
            Err(error) => format!("etcd: {error}"),
        };
        io::Error::new(io::ErrorKind::ConnectionAborted, words)
    });
    let api = Api {
        requests: Mutex::new(requests),
        host: host.to_owned(),
        token: RefCell::new(None),
        is_logged_out: Cell::new(false),
    };
    Ok((api, driver))
}

impl Api {
    /// The connection, for as long as an operation takes. Those who wait get it in their order.
    pub(super) async fn call(&self) -> Call<'_> {
        Call {
            api: self,
            requests: self.requests.lock().await,
        }
    }

    /// Whether the login is over: etcd forgets one after some minutes, and each member has its own.
    pub(super) fn is_logged_out(&self) -> bool {
        self.is_logged_out.get()
    }

    /// All requests from now on are this user's.
    pub(super) fn authorize(&self, token: &str) {
        *self.token.borrow_mut() = Some(token.to_owned());
    }
}

/// A connection that others wait for.
pub(super) struct Call<'a> {
    api: &'a Api,
    requests: MutexGuard<'a, SendRequest<Full<Bytes>>>,
}

impl Call<'_> {
    /// Posts an object, and gives the answer as it comes.
    pub(super) async fn send(
        &mut self,
        path: &str,
        body: &Value,
    ) -> Result<Response<Incoming>, String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", &self.api.host)
            .header("content-type", "application/json");
        let request = match &*self.api.token.borrow() {
            Some(token) => request.header("authorization", token),
            None => request,
        };
        let body = Full::new(Bytes::from(body.to_string()));
        let request = request.body(body).map_err(said)?;
        self.requests.ready().await.map_err(said)?;
        self.requests.send_request(request).await.map_err(said)
    }

    /// Posts an object, and reads the one that is answered.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let response = self.send(path, body).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(said)?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|_| format!("ERR etcd: {path} is answered with {status} and no JSON"))?;
        match status.is_success() {
            true => Ok(answer),
            false => {
                let words = answer["error"].as_str().or(answer["message"].as_str());
                if words.is_some_and(|words| words.contains("invalid auth token")) {
                    self.api.is_logged_out.set(true);
                }
                Err(said(words.unwrap_or("an error without words")))
            }
        }
    }

    pub(super) async fn log_in(&mut self, user: &str, password: &str) -> Result<String, String> {
        let body = json!({"name": user, "password": password});
        let answer = self.post("/v3/auth/authenticate", &body).await?;
        text(&answer["token"])
    }

    /// Who holds the lock, as a majority knows it.
    pub(super) async fn held(&mut self, name: &[u8]) -> Result<Option<Held>, String> {
        let body = json!({"key": encoded(LOCKS, name)});
        let answer = self.post("/v3/kv/range", &body).await?;
        Ok(Held::read(&answer["kvs"][0]))
    }

    /// Who holds the lock as far as this member knows, which costs the others nothing. It knows of what its watch has told.
    pub(super) async fn known(&mut self, name: &[u8]) -> Result<Option<Held>, String> {
        let body = json!({"key": encoded(LOCKS, name), "serializable": true});
        let answer = self.post("/v3/kv/range", &body).await?;
        Ok(Held::read(&answer["kvs"][0]))
    }

    /// A lease of so long at least.
    pub(super) async fn grant(&mut self, ttl: Duration) -> Result<String, String> {
        let body = json!({"TTL": seconds(ttl).to_string()});
        text(&self.post("/v3/lease/grant", &body).await?["ID"])
    }

    /// Has a lease last as long as it did when it was granted, and says how long that is; 0 where it is over.
    pub(super) async fn renew(&mut self, lease: &str) -> Result<u64, String> {
        let body = json!({"ID": lease});
        let answer = self.post("/v3/lease/keepalive", &body).await?;
        let left = number(&answer["result"]["TTL"]).unwrap_or(0);
        Ok(left.unsigned_abs())
    }

    /// What is left of a lease, if it is not over.
    pub(super) async fn left(&mut self, lease: &str) -> Result<Option<Duration>, String> {
        let body = json!({"ID": lease});
        let answer = self.post("/v3/lease/timetolive", &body).await?;
        let left = number(&answer["TTL"]).filter(|left| *left >= 0);
        Ok(left.map(|left| Duration::from_secs(left.unsigned_abs())))
    }

    pub(super) async fn revoke(&mut self, lease: &str) -> Result<(), String> {
        let body = json!({"ID": lease});
        self.post("/v3/lease/revoke", &body).await.map(drop)
    }
}

/// A lock that is held.
pub(super) struct Held {
    pub(super) token: Bytes,
    /// The revision that created its key.
    pub(super) fence: i64,
    pub(super) lease: String,
}

impl Held {
    /// Reads a key with its value.
    pub(super) fn read(kv: &Value) -> Option<Self> {
        Some(Self {
            token: decoded(&kv["value"]).unwrap_or_default().into(),
            fence: number(&kv["create_revision"])?,
            lease: kv["lease"].as_str().unwrap_or("0").to_owned(),
        })
    }
}

/// A time in whole seconds, rounded up.
pub(super) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Bytes as they are written in JSON.
pub(super) fn encoded(prefix: &[u8], bytes: &[u8]) -> String {
    BASE64.encode([prefix, bytes].concat())
}

/// The end of the range of keys that begin so.
pub(super) fn end_of(prefix: &[u8]) -> String {
    let (last, first) = prefix.split_last().expect("a prefix has a byte");
    BASE64.encode([first, &[last + 1]].concat())
}

pub(super) fn decoded(value: &Value) -> Option<Vec<u8>> {
    BASE64.decode(value.as_str()?).ok()
}

/// A number of 64 bits, which JSON has as a string.
pub(super) fn number(value: &Value) -> Option<i64> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| "ERR etcd: an answer lacks what was asked for".to_owned())
}

pub(super) fn said(error: impl Display) -> String {
    format!("ERR etcd: {error}")
}

/// A member takes 1.5 MiB with a request, which are 2 MiB in the text of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_no_shorter_than_what_was_asked_for() {
        for (millis, whole) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(seconds(Duration::from_millis(millis)), whole, "{millis}");
        }
    }

    #[test]
    fn names_are_bytes_and_a_range_ends_behind_all_that_begin_so() {
        let key = encoded(b"locks/", b"a\0\xff");
        assert_eq!(
            decoded(&Value::from(key)).as_deref(),
            Some(&b"locks/a\0\xff"[..])
        );
        assert_eq!(
            decoded(&Value::from(end_of(b"locks/"))).as_deref(),
            Some(&b"locks0"[..])
        );
    }

    #[test]
    fn what_is_no_key_is_no_holder() {
        let kv = json!({"value": encoded(b"", b"t1"), "create_revision": "7", "lease": "12"});
        let held = Held::read(&kv).expect("it is held");
        assert_eq!(
            (&held.token[..], held.fence, &*held.lease),
            (&b"t1"[..], 7, "12")
        );
        for odd in [
            json!(null),
            json!({}),
            json!([1]),
            json!({"create_revision": 7}),
            json!({"create_revision": "99999999999999999999"}),
        ] {
            assert!(Held::read(&odd).is_none(), "{odd}");
        }
    }
}
