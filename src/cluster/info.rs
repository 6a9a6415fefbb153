//! Asks a node how it is, with one INFO command, and those who watch it with LATENCY HISTOGRAM as well.
//!
//! Bounded in time and size: a node that hangs or babbles is reported as not answering.

use std::io;
use std::path::Path;
use std::time::Duration;

use quorlock_client::TlsOptions;
use serde::Serialize;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::latencies::Latencies;
use crate::clock::Asked;
use crate::local_node;
use crate::reply::{self, InfoText, NodeReply};

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

/// How busy a node is, what it has written, and what its clock shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Commands, this question among them.
    pub(super) operations_per_second: u64,
    pub(super) log_bytes: u64,
    /// Changes that are written and not synced.
    pub(super) unsynced: u64,
    /// Whether its disk has refused space for its log.
    pub(super) is_full: bool,
    /// How far its wall clock is ahead of this machine's, in milliseconds: 0 where the way there and back hides it.
    pub(super) ahead_ms: Option<i128>,
    /// How long its commands have taken since its start, where that was asked.
    pub(super) latencies: Latencies,
}

impl ServingState {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }

    /// Whether it takes locks: one whose disk is full has no room for them, or soon has none.
    pub(super) fn takes_locks(&self) -> bool {
        self.figures().is_some_and(|figures| !figures.is_full)
    }

    pub(super) fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Serving { figures, .. } => Some(figures),
            _ => None,
        }
    }
}

/// Asks the node at `127.0.0.1:port`, with TLS where it is to have a certificate of this authority.
pub(super) async fn ask(port: u16, cacert: Option<&Path>) -> ServingState {
    patiently(fetch(port, cacert, false)).await
}

/// The same, and how long its commands have taken.
pub(super) async fn ask_all(port: u16, cacert: Option<&Path>) -> ServingState {
    patiently(fetch(port, cacert, true)).await
}

async fn patiently(answer: impl Future<Output = io::Result<ServingState>>) -> ServingState {
    match timeout(PATIENCE, answer).await {
        Ok(Ok(state)) => state,
        Ok(Err(error)) => ServingState::Unreached { why: words(&error) },
        Err(_) => ServingState::Silent,
    }
}

/// Why there is no connection, without the system's number.
fn words(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return CONNECTION_REFUSED.to_owned();
    }
    let text = error.to_string();
    let words = text.split(" (os error ").next();
    words.unwrap_or_default().to_owned()
}

async fn fetch(port: u16, cacert: Option<&Path>, with_latencies: bool) -> io::Result<ServingState> {
    let tls = cacert.map(|file| TlsOptions::new().ca_file(file));
    let mut stream = BufReader::new(local_node::connect(port, tls, PATIENCE).await?);
    let mut questions = b"*1\r\n$4\r\nINFO\r\n".to_vec();
    if with_latencies {
        questions.extend(b"*2\r\n$7\r\nLATENCY\r\n$9\r\nHISTOGRAM\r\n");
    }
    let asked = Asked::at_once();
    stream.get_mut().write_all(&questions).await?;
    let info = reply::read(&mut stream, ANSWER_BYTES_MAX).await;
    let round_trip = asked.round_trip();
    let Some(info) = unless_odd(info)? else {
        return Ok(ServingState::Starting);
    };
    let ahead_ms = |there| certain(asked.ahead_ms(there, round_trip), round_trip);
    let mut state = parse(&info, ahead_ms);
    if let ServingState::Serving { figures, .. } = &mut state
        && with_latencies
    {
        let latencies = reply::read(&mut stream, ANSWER_BYTES_MAX).await;
        let latencies = unless_odd(latencies)?.as_ref().map(Latencies::read);
        figures.latencies = latencies.unwrap_or_default();
    }
    Ok(state)
}

/// None where something else than a reply has come, or only a part of one.
fn unless_odd(reply: io::Result<NodeReply>) -> io::Result<Option<NodeReply>> {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    match reply {
        Err(error) if matches!(error.kind(), InvalidData | UnexpectedEof) => Ok(None),
        reply => reply.map(Some),
    }
}

/// What of a difference of clocks the way there and back cannot be.
fn certain(ahead_ms: i128, round_trip: Duration) -> i128 {
    let doubt_ms = (round_trip / 2).as_millis() + 1;
    match ahead_ms.unsigned_abs() <= doubt_ms {
        true => 0,
        false => ahead_ms,
    }
}

fn parse(reply: &NodeReply, ahead_ms: impl FnOnce(Duration) -> i128) -> ServingState {
    let Some(text) = reply.text() else {
        return ServingState::Starting;
    };
    let info = InfoText::new(text);
    let number = |name: &str| info.number::<u64>(name);
    let count = |name: &str| number(name).unwrap_or(0);
    if number("restart_delay") == Some(1) {
        let remaining_ms = count("restart_delay_remaining_ms");
        return ServingState::RestartDelay { remaining_ms };
    }
    if number("loading") == Some(1) {
        return ServingState::Starting;
    }
    let keys = info
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
            is_full: info.field("aof_last_write_status") == Some("err"),
            ahead_ms: number("server_time_usec")
                .map(Duration::from_micros)
                .map(ahead_ms),
            latencies: Latencies::default(),
        },
    }
}

const PATIENCE: Duration = Duration::from_millis(800);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Nothing listens on the port.
pub(super) const CONNECTION_REFUSED: &str = "connection refused";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServingState {
        let to_ms = |there: Duration| i128::try_from(there.as_millis()).expect("it is short");
        parse(&NodeReply::Text(text.as_bytes().to_vec()), to_ms)
    }

    #[test]
    fn reads_the_states_of_a_node() {
        let serving = "# Server\r\nuptime_in_seconds:7\r\nloading:0\r\nrestart_delay:0\r\n\
                       server_time_usec:31000\r\naof_last_write_status:ok\r\n\
                       quorlock_log_synced:40\r\naof_current_size:2097152\r\nquorlock_log_position:42\r\n\
                       instantaneous_ops_per_sec:9\r\ndb0:keys=3,expires=3\r\ndb9:keys=2,expires=0\r\n\r\n";
        let state = read(serving);
        assert!(state.takes_locks());
        assert_eq!(
            state,
            ServingState::Serving {
                keys: 5,
                uptime_seconds: 7,
                figures: Figures {
                    operations_per_second: 9,
                    log_bytes: 2_097_152,
                    unsynced: 2,
                    is_full: false,
                    ahead_ms: Some(31),
                    latencies: Latencies::default(),
                },
            }
        );
        let full = read(&serving.replace("status:ok", "status:err"));
        assert!(full.is_serving() && !full.takes_locks());
        let delayed = "loading:0\r\nrestart_delay:1\r\nrestart_delay_remaining_ms:7200\r\n";
        assert_eq!(
            read(delayed),
            ServingState::RestartDelay {
                remaining_ms: 7_200
            }
        );
        assert_eq!(read("loading:1\r\n"), ServingState::Starting);
        let refusal = NodeReply::Error("NOAUTH Authentication required.".to_owned());
        assert_eq!(parse(&refusal, |_| 0), ServingState::Starting);
    }

    #[tokio::test]
    async fn nonsense_is_not_waited_for_and_a_refusal_has_no_number() {
        for (mut bytes, is_odd) in [
            (&b"$5\r\nhello\r\n"[..], false),
            (b"-ERR x\r\nmore", false),
            (b"$x\r\nmore", true),
            (b"$9\r\ncut", true),
            (b"", true),
        ] {
            let reply = reply::read(&mut bytes, ANSWER_BYTES_MAX).await;
            assert_eq!(
                unless_odd(reply).expect("it is in memory").is_none(),
                is_odd
            );
        }
        let error = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        assert_eq!(words(&error), "connection refused");
        let error = io::Error::from_raw_os_error(rustix::io::Errno::CONNRESET.raw_os_error());
        assert_eq!(words(&error), "Connection reset by peer");
    }

    #[test]
    fn a_clock_is_ahead_only_by_more_than_the_way_can_be() {
        let ms = Duration::from_millis;
        assert_eq!(certain(20, ms(40)), 0);
        assert_eq!(certain(-21, ms(40)), 0);
        assert_eq!(certain(22, ms(40)), 22);
        assert_eq!(certain(-31_000, ms(40)), -31_000);
    }
}
