//! Asks a node how it is, with one INFO command.
//!
//! Bounded in time and size: a node that hangs or babbles is reported as not answering.

use std::io;
use std::path::Path;
use std::time::Duration;

use quorlock_client::TlsOptions;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::local_node;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(super) enum ServingState {
    /// It serves locks.
    Serving {
        /// Keys it holds, locks among them.
        keys: u64,
        uptime_seconds: u64,
        /// For people who watch; programs have INFO.
        #[serde(skip)]
        figures: Figures,
    },
    /// It serves no locks until its restart delay is over.
    RestartDelay {
        #[serde(rename = "restart_delay_remaining_ms")]
        remaining_ms: u64,
    },
    /// It is starting, or refuses INFO.
    Starting,
    /// Nothing answered in time.
    Silent,
    /// There is no connection, or none that can be trusted.
    Unreached { why: String },
}

/// How busy a node is, and what it has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Commands, this question among them.
    pub(super) operations_per_second: u64,
    pub(super) log_bytes: u64,
    /// Changes that are written and not synced.
    pub(super) unsynced: u64,
}

impl ServingState {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }
}

/// Asks the node at `127.0.0.1:port`, with TLS where it is to have a certificate of this authority.
pub(super) async fn ask(port: u16, cacert: Option<&Path>) -> ServingState {
    match timeout(PATIENCE, fetch(port, cacert)).await {
        Ok(Ok(text)) => parse(&text),
        Ok(Err(error)) => ServingState::Unreached {
            why: error.to_string(),
        },
        Err(_) => ServingState::Silent,
    }
}

async fn fetch(port: u16, cacert: Option<&Path>) -> io::Result<String> {
    let tls = cacert.map(|file| TlsOptions::new().ca_file(file));
    let mut stream = local_node::connect(port, tls, PATIENCE).await?;
    stream.write_all(b"*1\r\n$4\r\nINFO\r\n").await?;
    read(stream).await
}

/// Reads an answer to its end. Nonsense is not waited for.
async fn read(stream: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut stream = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    let mut received = Vec::new();
    stream.read_until(b'\n', &mut received).await?;
    let head = String::from_utf8_lossy(&received).into_owned();
    let length = head.trim_end().strip_prefix('$');
    if let Some(length) = length.and_then(|length| length.parse().ok()) {
        stream.take(length).read_to_end(&mut received).await?;
    }
    Ok(String::from_utf8_lossy(&received).into_owned())
}

fn parse(text: &str) -> ServingState {
    if !text.starts_with('$') {
        return ServingState::Starting;
    }
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
    let count = |name: &str| number(name).unwrap_or(0);
    if number("restart_delay") == Some(1) {
        let remaining_ms = count("restart_delay_remaining_ms");
        return ServingState::RestartDelay { remaining_ms };
    }
    if number("loading") == Some(1) {
        return ServingState::Starting;
    }
    let keys = text
        .lines()
        .filter(|line| line.starts_with("db"))
        .filter_map(|line| {
            line.split_once(":keys=")?
                .1
                .split(',')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .fold(0, u64::saturating_add);
    ServingState::Serving {
        keys,
        uptime_seconds: count("uptime_in_seconds"),
        figures: Figures {
            operations_per_second: count("instantaneous_ops_per_sec"),
            log_bytes: count("aof_current_size"),
            unsynced: count("quorlock_log_position").saturating_sub(count("quorlock_log_synced")),
        },
    }
}

const PATIENCE: Duration = Duration::from_millis(800);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_states_of_a_node() {
        let serving = "$9\r\n# Server\r\nuptime_in_seconds:7\r\nloading:0\r\nrestart_delay:0\r\n\
                       quorlock_log_synced:40\r\naof_current_size:2097152\r\nquorlock_log_position:42\r\n\
                       instantaneous_ops_per_sec:9\r\ndb0:keys=3,expires=3\r\ndb9:keys=2,expires=0\r\n\r\n";
        assert_eq!(
            parse(serving),
            ServingState::Serving {
                keys: 5,
                uptime_seconds: 7,
                figures: Figures {
                    operations_per_second: 9,
                    log_bytes: 2_097_152,
                    unsynced: 2,
                },
            }
        );
        let delayed = "$9\r\nloading:0\r\nrestart_delay:1\r\nrestart_delay_remaining_ms:7200\r\n";
        assert_eq!(
            parse(delayed),
            ServingState::RestartDelay {
                remaining_ms: 7_200
            }
        );
        assert_eq!(parse("$9\r\nloading:1\r\n"), ServingState::Starting);
        assert_eq!(
            parse("-NOAUTH Authentication required.\r\n"),
            ServingState::Starting
        );
        assert_eq!(parse(""), ServingState::Starting);
    }

    #[tokio::test]
    async fn an_answer_is_read_to_its_end_and_nonsense_is_not_waited_for() {
        for (bytes, taken) in [
            (&b"$5\r\nhello\r\n"[..], "$5\r\nhello"),
            (b"-ERR x\r\nmore", "-ERR x\r\n"),
            (b"$x\r\nmore", "$x\r\n"),
            (b"$-1\r\nmore", "$-1\r\n"),
            (b"$9\r\ncut", "$9\r\ncut"),
        ] {
            assert_eq!(read(bytes).await.expect("it is in memory"), taken);
        }
    }
}
