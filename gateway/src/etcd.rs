//! Locks in etcd: a key for each lock, bound to a lease.
//!
//! Invariants: a grant is a transaction that creates the key, and its revision is the fence: revisions rise over all keys. A
//! lease lasts as long as it was asked for, rounded up to whole seconds. An operation has the connection until it ends, so a
//! release is never carried out in the middle of the grant before it.

mod api;
mod watch;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use self::api::{Api, Call, Driver, decoded, encoded, number};
use self::watch::Watch;
use crate::connection::Gateway;
use crate::request::{Acquire, Operation};
use crate::system::{Done, Holder, Page, Running, System, Taken};

/// Speaks to a member on these two connections: one for requests, and one for what the member tells. `login` is a user and
/// a password.
///
/// # Errors
/// Why the member cannot keep locks: it refuses the login, or has no majority.
pub async fn connect<S>(
    requests: S,
    watch: S,
    host: &str,
    login: Option<(&str, &str)>,
) -> io::Result<Gateway>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (api, mut requests) = api::open(requests, host).await?;
    let (watching, mut watches) = api::open(watch, host).await?;
    let api = Rc::new(api);
    let (facts, watch) = {
        let mut preparing = pin!(async {
            if let Some((user, password)) = login {
                let token = api.call().await.log_in(user, password).await?;
                api.authorize(&token);
                watching.authorize(&token);
            }
            let facts = facts(&mut api.call().await).await?;
            let watch = Watch::start(&watching, LOCKS).await?;
            Ok::<_, String>((facts, watch))
        });
        let prepared = poll_fn(|context| {
            for driver in [&mut requests, &mut watches] {
                if let Poll::Ready(ended) = driver.as_mut().poll(context) {
                    return Poll::Ready(Err(ended));
                }
            }
            preparing.as_mut().poll(context).map_err(io::Error::other)
        });
        prepared.await.map_err(|error| {
            let text = format!(
                "etcd: {}",
                error.to_string().trim_start_matches("ERR etcd: ")
            );
            io::Error::new(error.kind(), text)
        })?
    };
    Ok(Gateway::new(Box::new(Etcd {
        api,
        drivers: [requests, watches],
        watch,
        facts,
        watched: Vec::new(),
    })))
}

struct Etcd {
    api: Rc<Api>,
    drivers: [Driver; 2],
    watch: Watch,
    facts: Rc<Facts>,
    watched: Vec<Bytes>,
}

/// What a member says of itself.
struct Facts {
    version: String,
    cluster: String,
}

/// Asks what only a majority can answer.
async fn facts(call: &mut Call<'_>) -> Result<Rc<Facts>, String> {
    let key = encoded(LOCKS, b"");
    let answer = call.post("/v3/kv/range", &json!({"key": key})).await?;
    let status = call.post("/v3/maintenance/status", &json!({})).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Rc::new(Facts {
        version: text(&status["version"]),
        cluster: text(&answer["header"]["cluster_id"]),
    }))
}

impl Etcd {
    /// Runs an operation, which has the connection until it ends.
    fn run<T, F>(&self, operation: F) -> Running<T>
    where
        T: 'static,
        F: AsyncFnOnce(&mut Call<'_>) -> Result<T, String> + 'static,
    {
        let api = Rc::clone(&self.api);
        Box::pin(async move {
            let mut call = api.call().await;
            operation(&mut call).await
        })
    }
}

impl System for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn info(&self) -> Running<String> {
        let facts = Rc::clone(&self.facts);
        self.run(async move |call| {
            let Facts { version, cluster } = &*facts;
            // One that answers only to itself is none.
            call.held(b"").await?;
            Ok(format!(
                "# Server\r\nrun_id:etcd-{cluster}\r\nquorlock_gateway:etcd {version}\r\nrole:master\r\n"
            ))
        })
    }

    fn acquire(&self, acquire: Acquire) -> Running<Taken> {
        self.run(async move |call| {
            let Acquire {
                name,
                token,
                ttl,
                owner,
            } = acquire;
            // Many ask at once when a lock is released, and one gets it.
            if let Some(held) = call.known(&name).await? {
                if held.token != token {
                    return Ok(Taken::Held(held.fence, held.token));
                }
                // It was asked for before, and the answer was lost.
                if extend(call, &name, &token, ttl).await? == Done::Held {
                    return Ok(Taken::Granted(held.fence));
                }
            }
            let lease = call.grant(ttl).await?;
            let key = encoded(LOCKS, &name);
            let owner = owner.unwrap_or_default();
            let puts = [(&key, &token), (&encoded(OWNERS, &name), &owner)];
            let puts: Vec<Value> = puts
                .iter()
                .map(|(key, value)| {
                    let value = encoded(b"", value);
                    json!({"requestPut": {"key": key, "value": value, "lease": lease}})
                })
                .collect();
            let answer = call
                .post(
                    "/v3/kv/txn",
                    &json!({
                        "compare": [{"key": key, "target": "CREATE", "create_revision": "0"}],
                        "success": puts,
                        "failure": [{"requestRange": {"key": key}}],
                    }),
                )
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                // Of many that are refused each would leave a lease.
                Err(error) => {
                    let _ends_anyway = call.revoke(&lease).await;
                    return Err(error);
                }
            };
            if answer["succeeded"] == true {
                let fence = number(&answer["header"]["revision"]);
                return Ok(Taken::Granted(fence.ok_or("ERR etcd tells no revision")?));
            }
            call.revoke(&lease).await?;
            let range = &answer["responses"][0]["response_range"];
            let held = api::Held::read(&range["kvs"][0]).filter(|held| held.token != token);
            let held = held.ok_or("ERR the lock changes hands on etcd, ask again")?;
            Ok(Taken::Held(held.fence, held.token))
        })
    }

    fn operate(&self, operation: Operation) -> Running<Done> {
        self.run(async move |call| match operation {
            Operation::Extend(name, token, ttl) => extend(call, &name, &token, ttl).await,
            Operation::SetEnd(name, token, ttl, new) => {
                let new = new.unwrap_or_else(|| token.clone());
                set_end(call, &name, (&token, &new), ttl).await
            }
            Operation::Release(name, token) => {
                let lock = encoded(LOCKS, &name);
                let owner = encoded(OWNERS, &name);
                let answer = call
                    .post(
                        "/v3/kv/txn",
                        &json!({
                            "compare": [has_token(&lock, &token)],
                            "success": [
                                {"requestDeleteRange": {"key": lock, "prev_kv": true}},
                                {"requestDeleteRange": {"key": owner}},
                            ],
                        }),
                    )
                    .await?;
                if answer["succeeded"] != true {
                    return Ok(Done::Free);
                }
                let deleted = &answer["responses"][0]["response_delete_range"]["prev_kvs"][0];
                if let Some(lease) = deleted["lease"].as_str() {
                    // Without the key it is nobody's, and ends by itself.
                    let _ends_anyway = call.revoke(lease).await;
                }
                Ok(Done::Held)
            }
            Operation::Fence(name, token, _) => Ok(match call.held(&name).await? {
                Some(held) if held.token == token => Done::Fence(held.fence),
                _ => Done::Free,
            }),
        })
    }

    fn look(&self, name: Bytes) -> Running<Option<Holder>> {
        self.run(async move |call| holder(call, &name).await)
    }

    fn watch(&mut self, name: Bytes) -> Running<Option<Holder>> {
        if !self.watched.contains(&name) {
            self.watched.push(name.clone());
        }
        // All deletions are told already, of expired keys as well.
        self.run(async move |call| {
            let held = call.held(&name).await?;
            Ok(held.map(|held| Holder {
                token: held.token,
                fence: Some(held.fence),
                left: TOLD_WHEN_OVER,
                owner: None,
            }))
        })
    }

    fn unwatch(&mut self, name: &Bytes) -> Running<()> {
        self.watched.retain(|watched| watched != name);
        Box::pin(async { Ok(()) })
    }

    fn list(&self, _: Bytes, after: Bytes) -> Running<Page> {
        // The next key in their order, or the first one.
        let begin = match after.is_empty() {
            true => encoded(LOCKS, b""),
            false => encoded(LOCKS, &[&after[..], b"\0"].concat()),
        };
        self.run(async move |call| {
            let answer = call
                .post(
                    "/v3/kv/range",
                    &json!({"key": begin, "range_end": api::end_of(LOCKS),
                        "limit": PAGE.to_string(), "keys_only": true}),
                )
                .await?;
            // Who holds them would be three requests for each, and is asked for those alone that are shown.
            let lock = |kv: &Value| {
                let key = decoded(&kv["key"]).unwrap_or_default();
                let name = key.get(LOCKS.len()..).unwrap_or_default();
                (Bytes::copy_from_slice(name), None)
            };
            let kvs = answer["kvs"].as_array().into_iter().flatten();
            let locks: Vec<_> = kvs.map(lock).collect();
            let last = locks.last().map(|(name, _)| name.clone());
            let next = last.filter(|_| answer["more"] == true);
            Ok(Page { locks, next })
        })
    }

    fn poll_released(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.api.is_logged_out() {
            let words = "etcd: the login is over";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, words)));
        }
        for driver in &mut self.drivers {
            if let Poll::Ready(ended) = driver.as_mut().poll(context) {
                return Poll::Ready(Err(ended));
            }
        }
        loop {
            match self.watch.poll_deleted(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(key)) => {
                    let name = key.get(LOCKS.len()..).unwrap_or_default();
                    if let Some(name) = self.watched.iter().find(|watched| *watched == name) {
                        return Poll::Ready(Ok(name.clone()));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The lease is renewed first: if the key is there after that, under the token and on that lease, it lasts.
async fn extend(
    call: &mut Call<'_>,
    name: &Bytes,
    token: &Bytes,
    ttl: Duration,
) -> Result<Done, String> {
    let lease = match call.held(name).await? {
        None => return Ok(Done::Free),
        Some(held) if held.token != *token => return Ok(Done::Other),
        Some(held) => held.lease,
    };
    let granted = call.renew(&lease).await?;
    if granted < api::seconds(ttl) {
        return set_end(call, name, (token, token), ttl).await;
    }
    Ok(match call.held(name).await? {
        None => Done::Free,
        Some(held) if held.token != *token => Done::Other,
        Some(held) if held.lease != lease => Done::Free,
        Some(_) => Done::Held,
    })
}

/// Binds the key to another lease, under another token.
async fn set_end(
    call: &mut Call<'_>,
    name: &Bytes,
    (token, new): (&Bytes, &Bytes),
    ttl: Duration,
) -> Result<Done, String> {
    let before = match call.held(name).await? {
        None => return Ok(Done::Free),
        Some(held) if held.token != *token => return Ok(Done::Other),
        Some(held) => held.lease,
    };
    let lease = call.grant(ttl).await?;
    let (lock, owner) = (encoded(LOCKS, name), encoded(OWNERS, name));
    let answer = call
        .post(
            "/v3/kv/txn",
            &json!({
                "compare": [has_token(&lock, token), {"key": owner, "target": "CREATE", "result": "GREATER", "create_revision": "0"}],
                "success": [
                    {"requestPut": {"key": lock, "value": encoded(b"", new), "lease": lease}},
                    {"requestPut": {"key": owner, "ignore_value": true, "lease": lease}},
                ],
            }),
        )
        .await?;
    let is_done = answer["succeeded"] == true;
    let unused = if is_done { &before } else { &lease };
    let _ends_anyway = call.revoke(unused).await;
    Ok(if is_done { Done::Held } else { Done::Free })
}

async fn holder(call: &mut Call<'_>, name: &Bytes) -> Result<Option<Holder>, String> {
    let Some(held) = call.held(name).await? else {
        return Ok(None);
    };
    let left = match &*held.lease {
        // Somebody else has made the key: it stays until it is deleted.
        WITHOUT_LEASE => Some(FOR_EVER),
        lease => call.left(lease).await?,
    };
    let Some(left) = left else {
        return Ok(None);
    };
    let body = json!({"key": encoded(OWNERS, name)});
    let owner = call.post("/v3/kv/range", &body).await?;
    let owner = decoded(&owner["kvs"][0]["value"]).map(Bytes::from);
    Ok(Some(Holder {
        token: held.token,
        fence: Some(held.fence),
        left,
        owner: owner.filter(|owner| !owner.is_empty()),
    }))
}

fn has_token(key: &str, token: &Bytes) -> Value {
    json!({"key": key, "target": "VALUE", "value": encoded(b"", token)})
}

/// What the keys of locks begin with, and those of what their holders say about themselves.
const LOCKS: &[u8] = b"quorlock/locks/";
const OWNERS: &[u8] = b"quorlock/owners/";
const WITHOUT_LEASE: &str = "0";
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// How many locks are listed at once: names of 2 KB fit an answer.
const PAGE: usize = 1000;
/// When a lock is looked at although nothing was told of it.
const TOLD_WHEN_OVER: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
