//! A watch on a member in memory: what it tells, and how it ends.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::timeout;

use super::*;

/// A connection to a member, and the member's ends of both of its connections: for requests, and for the watch.
async fn connected() -> (Gateway, DuplexStream, DuplexStream) {
    let (client, mut requests) = duplex(1 << 16);
    let (watching, mut watch) = duplex(1 << 16);
    let member = async {
        take_watch(&mut requests, &mut watch).await;
        create_watch(&mut watch).await;
    };
    let (gateway, ()) = tokio::join!(connect(client, watching, "m:1", None), member);
    (gateway.expect("the member is well"), requests, watch)
}

/// Answers a client that connects, up to the head of the answer to its watch.
async fn take_watch(requests: &mut DuplexStream, watch: &mut DuplexStream) {
    assert_eq!(asked(requests).await, "/v3/kv/range");
    answer(requests, &json!({"header": {"cluster_id": "7"}})).await;
    assert_eq!(asked(requests).await, "/v3/maintenance/status");
    answer(requests, &json!({"version": "3.5.0"})).await;
    assert_eq!(asked(watch).await, "/v3/watch");
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    watch.write_all(head).await.expect("it is in memory");
}

/// From now on the client is sent what is deleted.
async fn create_watch(watch: &mut DuplexStream) {
    let created = json!({"result": {"created": true}});
    tell(watch, &format!("{created}\n")).await;
}

/// The path of the next request.
async fn asked(stream: &mut DuplexStream) -> String {
    request(stream).await.0
}

/// The path of the next request, and its object.
async fn request(stream: &mut DuplexStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap_or("0").parse().expect("a number");
            if body.len() >= length {
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                return (path, serde_json::from_str(body).expect("an object"));
            }
        }
        let count = stream.read_buf(&mut bytes).await.expect("it is in memory");
        assert!(count > 0, "the connection has ended: {text}");
    }
}

async fn answer(stream: &mut DuplexStream, body: &Value) {
    let body = body.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let text = head + &body;
    let written = stream.write_all(text.as_bytes()).await;
    written.expect("it is in memory");
}

/// A piece of the answer that does not end.
async fn tell(watch: &mut DuplexStream, piece: &str) {
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    let written = watch.write_all(chunk.as_bytes()).await;
    written.expect("it is in memory");
}

/// Has a caller wait for the lock `a`, which is held.
async fn wait_for_a(gateway: &mut Gateway, requests: &mut DuplexStream) {
    let line = b"*3\r\n$9\r\nLOCK.WAIT\r\n$1\r\na\r\n$2\r\nt2\r\n";
    gateway.write_all(line).await.expect("it is in memory");
    let held = json!({"value": encoded(b"", b"t1"), "create_revision": "7", "lease": "12"});
    let member = async {
        assert_eq!(asked(requests).await, "/v3/kv/range");
        answer(requests, &json!({"kvs": [held]})).await;
    };
    let mut buffer = [0; 64];
    let (count, ()) = tokio::join!(gateway.read(&mut buffer), member);
    assert_eq!(&buffer[..count.expect("the member is well")], b":1\r\n");
}

/// What comes next. Time is paused: it goes on where nothing else does.
async fn read(gateway: &mut Gateway, buffer: &mut [u8]) -> io::Result<usize> {
    let reading = timeout(Duration::from_secs(5), gateway.read(buffer)).await;
    reading.expect("nothing is told")
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_of_a_deletion_that_comes_in_pieces() {
    let (mut gateway, mut requests, mut watch) = connected().await;
    wait_for_a(&mut gateway, &mut requests).await;
    let deleted = json!({"type": "DELETE", "kv": {"key": encoded(LOCKS, b"a")}});
    let text = format!("{}\n", json!({"result": {"events": [deleted]}}));
    let (begin, end) = text.split_at(20);
    tell(&mut watch, begin).await;
    tell(&mut watch, end).await;
    let mut buffer = [0; 64];
    let count = read(&mut gateway, &mut buffer).await;
    let count = count.expect("the member is well");
    let pushed = b">3\r\n$9\r\nlock-free\r\n$1\r\na\r\n$2\r\nt2\r\n";
    assert_eq!(&buffer[..count], pushed);
}

/// Else a lock that is deleted between the look at it and the revision at which the watch begins would be waited for until it is looked
/// at again.
#[tokio::test(start_paused = true)]
async fn no_lock_is_looked_at_before_the_watch_has_begun() {
    let (client, mut requests) = duplex(1 << 16);
    let (watching, mut watch) = duplex(1 << 16);
    let mut connecting = pin!(connect(client, watching, "m:1", None));
    tokio::select! {
        _ = &mut connecting => panic!("the watch was not even asked for"),
        () = take_watch(&mut requests, &mut watch) => {}
    }
    let early = timeout(Duration::from_secs(5), &mut connecting).await;
    assert!(early.is_err(), "the watch has not begun");
    create_watch(&mut watch).await;
    let gateway = connecting.await;
    gateway.expect("the member is well");
}

/// The client connects anew then, and asks for the lock that it waits for: a deletion that was never told is found.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_over_ends_the_connection_of_who_waits() {
    let compacted = json!({"result": {"canceled": true, "compact_revision": "9"}});
    let refused = json!({"error": {"message": "etcdserver: no leader"}});
    for end in [compacted, refused] {
        let (mut gateway, mut requests, mut watch) = connected().await;
        wait_for_a(&mut gateway, &mut requests).await;
        tell(&mut watch, &format!("{end}\n")).await;
        let mut buffer = [0; 64];
        let error = read(&mut gateway, &mut buffer).await;
        let error = error.expect_err("the watch tells nothing any more");
        assert!(error.to_string().contains("watch has ended"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_list_begins_behind_a_name_and_says_where_the_next_one_does() {
    let (mut gateway, mut requests, _watch) = connected().await;
    let line = b"*3\r\n$9\r\nLOCK.LIST\r\n$1\r\n*\r\n$2\r\n61\r\n";
    gateway.write_all(line).await.expect("it is in memory");
    let member = async {
        let (path, body) = request(&mut requests).await;
        assert_eq!(path, "/v3/kv/range");
        assert_eq!(body["key"], encoded(LOCKS, b"a\0"));
        assert_eq!(
            (&body["limit"], &body["keys_only"]),
            (&json!("1000"), &json!(true))
        );
        let kvs = [json!({"key": encoded(LOCKS, b"b")})];
        answer(&mut requests, &json!({"kvs": kvs, "more": true})).await;
    };
    let mut buffer = [0; 64];
    let (count, ()) = tokio::join!(read(&mut gateway, &mut buffer), member);
    let count = count.expect("the member is well, and asked no more");
    assert_eq!(
        buffer[..count].escape_ascii().to_string(),
        b"*2\r\n$2\r\n62\r\n*1\r\n*2\r\n$4\r\nname\r\n$1\r\nb\r\n"
            .escape_ascii()
            .to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    let (mut gateway, mut requests, _watch) = connected().await;
    let line = b"*2\r\n$9\r\nLOCK.INFO\r\n$1\r\na\r\n";
    gateway.write_all(line).await.expect("it is in memory");
    let member = async {
        asked(&mut requests).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n";
        requests.write_all(head).await.expect("it is in memory");
        for _ in 0..96 {
            let _closed = requests.write_all(&[b' '; 1 << 16]).await;
        }
        std::future::pending::<()>().await
    };
    let mut buffer = [0; 64];
    let ended = tokio::select! {
        ended = read(&mut gateway, &mut buffer) => ended,
        () = member => unreachable!("it does not end"),
    };
    // The connection is of no use any more; the refusal may come before its end.
    if let Ok(count) = ended {
        let refusal = String::from_utf8_lossy(&buffer[..count]);
        assert!(refusal.contains("length limit"), "{refusal}");
    }
}
