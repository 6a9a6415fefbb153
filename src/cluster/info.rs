//! Asks a node how it is, with one INFO command.
//!
//! Bounded in time and size: a node that hangs or babbles is reported as not answering.

use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(super) enum ServingState {
    /// It serves locks.
    Serving {
        /// Keys it holds, locks among them.
        keys: u64,
        uptime_seconds: u64,
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
}

impl ServingState {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }
}

/// Asks the node at `127.0.0.1:port`.
pub(super) async fn ask(port: u16) -> ServingState {
    match timeout(PATIENCE, fetch(port)).await {
        Ok(Ok(text)) => parse(&text),
        Ok(Err(_)) | Err(_) => ServingState::Silent,
    }
}

async fn fetch(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"*1\r\n$4\r\nINFO\r\n").await?;
    let mut received = Vec::new();
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let count = stream.read(&mut chunk).await?;
        received.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if count == 0 || is_complete(&received) || received.len() > ANSWER_BYTES_MAX {
            return Ok(String::from_utf8_lossy(&received).into_owned());
        }
    }
}

/// Whether a whole bulk string, or another kind of answer, has arrived.
fn is_complete(received: &[u8]) -> bool {
    let Some(line_end) = received.windows(2).position(|pair| pair == b"\r\n") else {
        return false;
    };
    let head = received.get(1..line_end).unwrap_or_default();
    if !received.starts_with(b"$") {
        return true;
    }
    let length = std::str::from_utf8(head)
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    length.is_none_or(|length| received.len() >= line_end + 2 + length + 2)
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
    if number("restart_delay") == Some(1) {
        let remaining_ms = number("restart_delay_remaining_ms").unwrap_or(0);
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
        uptime_seconds: number("uptime_in_seconds").unwrap_or(0),
    }
}

const PATIENCE: Duration = Duration::from_millis(800);
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_states_of_a_node() {
        let serving = "$9\r\n# Server\r\nuptime_in_seconds:7\r\nloading:0\r\nrestart_delay:0\r\n\
                       db0:keys=3,expires=3\r\ndb9:keys=2,expires=0\r\n\r\n";
        assert_eq!(
            parse(serving),
            ServingState::Serving {
                keys: 5,
                uptime_seconds: 7
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

    #[test]
    fn knows_when_an_answer_is_whole() {
        let whole = b"$5\r\nhello\r\n";
        for end in 0..whole.len() {
            assert!(!is_complete(&whole[..end]), "{end} bytes");
        }
        assert!(is_complete(whole));
        assert!(is_complete(b"-ERR x\r\n"));
        assert!(is_complete(b"$x\r\n"), "nonsense is not waited for");
        assert!(is_complete(b"$-1\r\n"));
    }
}
