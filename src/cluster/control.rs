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

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::home::Home;
use super::view::ClusterView;
use crate::exit_code::{FAILED, Failure};

/// What a command asks of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ControlRequest {
    Status,
    Kill { node: u16 },
    Restart { node: u16 },
    Pause { node: u16 },
    Resume { node: u16 },
    Down,
}

/// What the supervisor answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum ControlReply {
    /// Done; `text` says what, for people.
    Done {
        text: String,
        cluster: Box<ClusterView>,
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
pub(super) fn listen(home: &Home) -> Result<UnixListener, Failure> {
    let open = || -> io::Result<UnixListener> {
        let directory = File::open(home.directory())?;
        let path = socket_path(&directory, home);
        // Left behind by a supervisor that was killed: this process holds the directory's lock.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
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
            let (sender, receiver) = oneshot::channel();
            if calls
                .send(Call {
                    request,
                    answer: sender,
                })
                .await
                .is_err()
            {
                return;
            }
            let Ok(answer) = receiver.await else { return };
            answer
        }
    };
    if let Ok(mut text) = serde_json::to_string(&answer) {
        text.push('\n');
        let _caller_went_away = writer.write_all(text.as_bytes()).await;
    }
}

/// Asks the supervisor of `home` and waits for its answer.
pub(super) fn ask(home: &Home, request: &ControlRequest) -> Result<(String, ClusterView), Failure> {
    let answer = exchange(home, request).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(home),
        _ => Failure::failed(format!(
            "the supervisor of {} does not answer: {error}",
            home.name()
        ))
        .remedy("look for its process; killing it stops its nodes"),
    })?;
    match answer {
        ControlReply::Done { text, cluster } => Ok((text, *cluster)),
        ControlReply::Refused { code, what, remedy } => {
            Err(Failure::new(code, what).remedy(remedy))
        }
    }
}

/// The failure of every request to a cluster that is stopped.
pub(super) fn not_running(home: &Home) -> Failure {
    let shown = home.directory().display();
    Failure::failed(format!("the cluster in {shown} is not running"))
        .remedy(format!("start it with: quorlock cluster up --dir {shown}"))
}

fn exchange(home: &Home, request: &ControlRequest) -> io::Result<ControlReply> {
    let directory = File::open(home.directory())?;
    let mut stream = BlockingStream::connect(socket_path(&directory, home))?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended"));
    }
    Ok(serde_json::from_str(&line)?)
}

fn socket_path(directory: &File, home: &Home) -> PathBuf {
    PathBuf::from(format!(
        "/proc/self/fd/{}/{}",
        directory.as_raw_fd(),
        home.socket_name()
    ))
}

const LINE_BYTES_MAX: u64 = 1 << 20;
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Stopping waits for the nodes' last sync, so this is long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
