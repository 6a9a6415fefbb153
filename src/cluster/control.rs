//! The conversation between a supervisor and the commands of other terminals.
//!
//! One JSON line each way over a Unix socket in the cluster's directory. The socket is reached
//! through an open handle of that directory, because the address of a Unix socket may only be
//! about a hundred bytes long while the path of a directory may be longer.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::home::ClusterHome;
use super::no_answer::{NoAnswer, is_stopped};
use super::ownership::remove_if_there;
use super::view::LocalCluster;
use crate::clock;
use crate::exit_code::{FAILED, Failure};

/// What a command asks of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ControlRequest {
    Status,
    Kill {
        node: u16,
    },
    Stop {
        node: u16,
    },
    Restart {
        node: u16,
    },
    Pause {
        node: u16,
    },
    Resume {
        node: u16,
    },
    LosePower {
        node: u16,
    },
    Cut {
        node: u16,
    },
    Slow {
        node: u16,
        delay: Duration,
    },
    /// Of one node, or of all.
    Heal {
        node: Option<u16>,
    },
    DiskFull {
        node: u16,
    },
    /// Of one node, or of all.
    Advance {
        node: Option<u16>,
        by: Duration,
    },
    Down,
}

/// What the supervisor answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum ControlReply {
    /// Done; `text` says what, for people.
    Done {
        text: String,
        cluster: Box<LocalCluster>,
    },
    /// Not done, and why.
    Refused {
        code: u8,
        what: String,
        remedy: String,
    },
}

/// A request on its way to the supervisor, with the way back.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: ControlRequest,
    pub(super) answer: oneshot::Sender<ControlReply>,
}

/// Opens the socket of a cluster this process owns.
pub(super) fn listen(home: &ClusterHome) -> Result<UnixListener, Failure> {
    let open = || -> io::Result<UnixListener> {
        let directory = File::open(home.directory())?;
        let path = socket_path(&directory, home);
        // Left behind by a supervisor that was killed: this process holds the directory's lock.
        remove_if_there(&path)?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    open().map_err(|error| home.failure("cannot open a control socket in", &error))
}

/// Serves one connection: reads a line, has it answered, writes a line. `calls` stays open until
/// the answer is written, by which the supervisor knows when it may end.
pub(super) async fn converse(stream: UnixStream, calls: mpsc::Sender<Call>) {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(LINE_BYTES_MAX));
    let read = tokio::time::timeout(REQUEST_PATIENCE, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(count)) if count > 0) {
        return;
    }
    let answer = match serde_json::from_str::<ControlRequest>(&line) {
        Err(error) => ControlReply::Refused {
            code: FAILED,
            what: format!("the supervisor does not understand this request: {error}"),
            remedy: "use the version of quorlock that started the cluster".to_owned(),
        },
        Ok(request) => {
            let (answer, answered) = oneshot::channel();
            if calls.send(Call { request, answer }).await.is_err() {
                return;
            }
            let Ok(answer) = answered.await else { return };
            answer
        }
    };
    if let Ok(mut text) = serde_json::to_string(&answer) {
        text.push('\n');
        let _caller_went_away = writer.write_all(text.as_bytes()).await;
    }
}

/// Asks the supervisor of `home` and waits for its answer.
pub(super) fn ask(
    home: &ClusterHome,
    request: &ControlRequest,
) -> Result<(String, LocalCluster), Failure> {
    understood(exchange(home, request).map_err(|unanswered| unanswered.failure(home))?)
}

/// Asks for the end of a cluster that runs. Gives nothing if it ended before it answered, as when another command has asked
/// for its end as well.
pub(super) fn ask_to_end(home: &ClusterHome) -> Result<Option<(String, LocalCluster)>, Failure> {
    if !home.is_running() {
        return Err(NoAnswer::Absent.failure(home));
    }
    match exchange(home, &ControlRequest::Down) {
        Ok(answer) => understood(answer).map(Some),
        Err(NoAnswer::Ended | NoAnswer::Absent) => Ok(None),
        Err(unanswered) => Err(unanswered.failure(home)),
    }
}

fn understood(answer: ControlReply) -> Result<(String, LocalCluster), Failure> {
    match answer {
        ControlReply::Done { text, cluster } => Ok((text, *cluster)),
        ControlReply::Refused { code, what, remedy } => {
            Err(Failure::new(code, what).remedy(remedy))
        }
    }
}

fn exchange(home: &ClusterHome, request: &ControlRequest) -> Result<ControlReply, NoAnswer> {
    let directory = File::open(home.directory())?;
    let mut stream = BlockingStream::connect(socket_path(&directory, home))?;
    let supervisor = socket_peercred(&stream).map_err(io::Error::from)?.pid;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let mut text = serde_json::to_string(request).map_err(io::Error::from)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let patience = match request {
        ControlRequest::Status => STATUS_PATIENCE,
        _ => ANSWER_PATIENCE,
    };
    let (began, mut times_stopped) = (clock::now(), 0);
    let (mut reader, mut line) = (BufReader::new(stream.take(LINE_BYTES_MAX)), Vec::new());
    // What has arrived before a timeout stays in the line.
    while let Err(error) = reader.read_until(b'\n', &mut line) {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(error.into());
        }
        times_stopped = if is_stopped(supervisor) {
            times_stopped + 1
        } else {
            0
        };
        let waited = clock::now().saturating_sub(began);
        if times_stopped == STOPPED_TIMES {
            return Err(NoAnswer::Stopped(supervisor));
        }
        if waited >= patience {
            return Err(NoAnswer::Silent(supervisor, waited));
        }
    }
    if line.is_empty() {
        return Err(NoAnswer::Ended);
    }
    Ok(serde_json::from_slice(&line).map_err(io::Error::from)?)
}

fn socket_path(directory: &File, home: &ClusterHome) -> PathBuf {
    PathBuf::from(format!(
        "/proc/self/fd/{}/{}",
        directory.as_raw_fd(),
        home.socket_name()
    ))
}

const LINE_BYTES_MAX: u64 = 1 << 20;
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// How often a supervisor that does not answer is looked at, and how often it must be found stopped.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const STOPPED_TIMES: u32 = 3;
/// It carries out one request after the other, and a node that is stopped may take a while.
const STATUS_PATIENCE: Duration = Duration::from_secs(4);
/// Stopping waits for the nodes' last sync, so this is long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
