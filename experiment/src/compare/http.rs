//! One connection that is kept alive, and JSON over it: etcd's gateway.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A connection. Dropping it in the middle of a request takes the request back.
pub(super) struct Http {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl Http {
    pub(super) async fn connect(port: u16) -> io::Result<Http> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // It ends with the requests' side, or with the server's.
        tokio::spawn(connection);
        Ok(Http {
            requests,
            host: format!("127.0.0.1:{port}"),
        })
    }

    /// Posts a JSON object and returns the one that is answered.
    ///
    /// # Errors
    /// If the connection fails, or the answer is an error, whose words the error has.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> io::Result<Value> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(io::Error::other)?;
        self.requests.ready().await.map_err(io::Error::other)?;
        let response = self.requests.send_request(request).await;
        let response = response.map_err(io::Error::other)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let answer: Value = serde_json::from_slice(&body).map_err(|error| {
            io::Error::other(format!("{path} answers {status} without JSON: {error}"))
        })?;
        match status.is_success() {
            true => Ok(answer),
            false => {
                let words = answer["error"].as_str().unwrap_or("no words");
                Err(io::Error::other(format!("{path}: {status}, {words}")))
            }
        }
    }
}

const ANSWER_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// A server that reads a request of one packet each and answers with these texts.
    async fn serve(answers: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody comes");
            for answer in answers {
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await.expect("it asks");
                assert!(buffer[..read].starts_with(b"POST /v3/lease/grant HTTP/1.1"));
                let written = stream.write_all(answer.as_bytes()).await;
                written.expect("it listens");
            }
        });
        port
    }

    #[tokio::test]
    async fn answers_come_over_one_connection_and_errors_keep_their_words() {
        let port = serve(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{\"ID\":\"7\"}",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 16\r\n\r\n{\"error\":\"moon\"}",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nmoon",
        ])
        .await;
        let mut http = Http::connect(port).await.expect("it listens");
        let answer = http.post("/v3/lease/grant", &json!({"TTL": 1})).await;
        assert_eq!(answer.expect("it is well")["ID"], "7");
        for part in ["400 Bad Request, moon", "without JSON"] {
            let answer = http.post("/v3/lease/grant", &json!({})).await;
            let error = answer.expect_err("it is an error").to_string();
            assert!(error.contains(part), "{error}");
        }
        let answer = http.post("/v3/lease/grant", &json!({})).await;
        assert!(answer.is_err(), "the server is gone");
    }
}
