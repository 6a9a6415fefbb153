//! How late a client that listens is told that the time of a key has come.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::time::Duration;

use crate::clock;
use crate::failure::{Doing, Failure};
use crate::server::Server;

/// So many keys end one after the other, beside one that lives on. Returns the longest time from the end of a key until
/// a client that listens to expired keys is told of it; 20 s stand for all that is longer. What the SET of the key takes is part of it.
pub(crate) fn latest_event(server: &Server, keys: u64) -> Result<Duration, Failure> {
    let doing = "listening to expired keys";
    server.ask(&["CONFIG", "SET", "notify-keyspace-events", "Ex"])?;
    server.ask(&["SET", "lives", "on", "PX", "3600000"])?;
    let mut stream = server.connect()?;
    stream.set_read_timeout(Some(LATEST)).doing(doing)?;
    stream
        .write_all(&quorlock_testkit::request(&["SUBSCRIBE", CHANNEL]))
        .doing(doing)?;
    let mut lines = BufReader::new(stream).lines();
    let mut read_until = |expected: &str| {
        for line in lines.by_ref() {
            match line {
                Ok(line) if line == expected => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error).doing(doing),
            }
        }
        Err(Failure::new(format!("{doing}: the connection was closed")))
    };
    if !read_until(":1")? {
        return Err(Failure::new(format!("{doing}: no reply")));
    }
    let mut latest = Duration::ZERO;
    for index in 0..keys {
        let name = format!("ends:{index}");
        // At other places between the ticks of a server that looks ten times a second.
        let lives = LIFE_MIN_MS + index * 37 % 100;
        let end = clock::now() + Duration::from_millis(lives);
        server.ask(&["SET", &name, "token", "PX", &lives.to_string()])?;
        if !read_until(&name)? {
            // A server that finds expired keys by chance may take minutes.
            return Ok(LATEST);
        }
        latest = latest.max(clock::now().saturating_sub(end));
    }
    Ok(latest)
}

const CHANNEL: &str = "__keyevent@0__:expired";
const LATEST: Duration = Duration::from_secs(20);
const LIFE_MIN_MS: u64 = 20;
