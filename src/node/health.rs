//! `quorlock node health`: the health check of an image without a shell, where no other program could ask.
//!
//! It asks the HTTP endpoint (`metrics-port`) on loopback, which needs no password and answers while a sync hangs. `quorlock status`
//! does not do: it counts votes, and a node of five has none for a list of one.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client::TlsOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::exit_code::Failure;
use crate::local_node;
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock node health`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The metrics-port of the node or agent
    #[arg(long, value_name = "PORT", default_value_t = 9121)]
    port: u16,
    /// Ask only whether the process is worth keeping; it is so in its restart delay, which a restart would not end
    #[arg(long)]
    alive: bool,
    /// The endpoint speaks TLS (metrics-tls yes). Its certificate is not looked at: it is this machine that answers
    #[arg(long)]
    tls: bool,
}

/// Asks, and ends with 0 or 1: Docker keeps other codes for itself.
pub(super) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let path = if arguments.alive {
        "/healthz"
    } else {
        "/readyz"
    };
    let port = arguments.port;
    let ask = ask(port, arguments.tls, path);
    let answer = runtime::block_on(async { Ok(timeout(PATIENCE, ask).await) })?;
    let answer = match answer {
        Ok(Ok(bytes)) => parse(&bytes).ok_or_else(|| no_http(arguments.tls)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err("what answers speaks no TLS; without metrics-tls yes, leave --tls out".to_owned())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {PATIENCE:?}")),
    };
    match answer {
        Ok((200, text)) => {
            format.result(&text, &json!({ "healthy": true, "answer": text }));
            Ok(ExitCode::SUCCESS)
        }
        Ok((status, text)) => Err(Failure::failed(format!("{path} answers {status}: {text}"))),
        Err(reason) => Err(Failure::failed(format!(
            "nothing says how the node is at 127.0.0.1:{port}: {reason}"
        ))
        .remedy("start it with metrics-port, and name that with --port if it is not 9121")),
    }
}

fn no_http(tls: bool) -> String {
    match tls {
        true => "what answers speaks no HTTP".to_owned(),
        false => "what answers speaks no HTTP; with metrics-tls yes, add --tls".to_owned(),
    }
}

async fn ask(port: u16, tls: bool, path: &str) -> io::Result<Vec<u8>> {
    let tls = tls.then(|| TlsOptions::new().insecure(true));
    let mut stream = local_node::connect(port, tls, PATIENCE).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .await?;
    Ok(answer)
}

/// The status and the text of an answer, without what a terminal would act on.
fn parse(answer: &[u8]) -> Option<(u16, String)> {
    let answer = String::from_utf8_lossy(answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
    let text = body.trim().chars().filter(|letter| !letter.is_control());
    Some((status.parse().ok()?, text.collect()))
}

const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 16 << 10;

pub(super) const EXAMPLES: &str = "\
Examples:
  quorlock node health                    does it serve locks? for readiness
  quorlock node health --alive            is the process worth keeping? for what restarts it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_a_line_that_a_terminal_can_show() {
        let delayed =
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\n\r\nrestart delay\x1b[2J\n";
        assert_eq!(parse(delayed), Some((503, "restart delay[2J".to_owned())));
        for other in [
            &b""[..],
            b"+PONG\r\n",
            b"HTTP/1.1 x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ] {
            assert_eq!(parse(other), None);
        }
    }
}
