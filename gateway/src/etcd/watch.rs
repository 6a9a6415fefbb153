//! What a member tells of keys that are deleted: objects of JSON in an answer that does not end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use hyper::body::{Body as _, Incoming};
use serde_json::{Value, json};

use super::api::{Api, decoded, encoded, end_of, said};

pub(super) struct Watch {
    body: Incoming,
    buffer: BytesMut,
    deleted: Vec<Vec<u8>>,
}

impl Watch {
    /// Has the member tell of all deletions of keys that begin so.
    pub(super) async fn start(api: &Api, prefix: &[u8]) -> Result<Self, String> {
        let body = json!({"create_request": {"key": encoded(prefix, b""), "range_end": end_of(prefix), "filters": ["NOPUT"]}});
        let response = api.call().await.send("/v3/watch", &body).await?;
        if !response.status().is_success() {
            return Err(said(format_args!(
                "a watch is answered with {}",
                response.status()
            )));
        }
        let mut watch = Self {
            body: response.into_body(),
            buffer: BytesMut::new(),
            deleted: Vec::new(),
        };
        let begun = std::future::poll_fn(|context| watch.poll_object(context)).await;
        let begun = begun.map_err(said)?;
        match begun["result"]["created"] == true {
            true => Ok(watch),
            false => Err(said(format_args!("a watch is refused: {begun}"))),
        }
    }

    /// The next key that is deleted.
    pub(super) fn poll_deleted(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            if let Some(key) = self.deleted.pop() {
                return Poll::Ready(Ok(key));
            }
            let object = ready!(self.poll_object(context))?;
            if object["result"]["canceled"] == true || !object["error"].is_null() {
                return Poll::Ready(Err(io::Error::other("etcd: the watch has ended")));
            }
            for event in object["result"]["events"].as_array().into_iter().flatten() {
                let key = decoded(&event["kv"]["key"]);
                self.deleted
                    .extend(key.filter(|_| event["type"] == "DELETE"));
            }
        }
    }

    fn poll_object(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Poll::Ready(serde_json::from_slice(&line).map_err(io::Error::other));
            }
            if self.buffer.len() > OBJECT_BYTES_MAX {
                return Poll::Ready(Err(io::Error::other("etcd: an event is too long")));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    let text = "etcd: the watch has ended";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
                }
            }
        }
    }
}

const OBJECT_BYTES_MAX: usize = 4 << 20;
