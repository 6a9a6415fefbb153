//! Finds the master of a name by its Sentinels.
//!
//! Invariant: they are asked again for each connection, one after the other. The first one that names a master is believed;
//! the login asks the server itself whether it is one.

use std::io;
use std::time::Duration;

use quorlock_client_rules::MasterQuestion;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::tcp::{self, Addresses};
use super::tls::Tls;

/// The host and port of the master. Each Sentinel has this time to answer.
pub(super) async fn master(
    sentinels: &[(String, u16)],
    master: &str,
    tls: Option<&Tls>,
    patience: Duration,
) -> io::Result<(String, u16)> {
    let mut failures = Vec::new();
    for (host, port) in sentinels {
        let asking = ask(host, *port, master, tls.cloned(), patience);
        let error = match timeout(patience, asking).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        failures.push(format!("{host}:{port}: {error}"));
    }
    let failures = failures.join("; ");
    let text = format!("no Sentinel names a master '{master}': {failures}");
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

async fn ask(
    host: &str,
    port: u16,
    master: &str,
    tls: Option<Tls>,
    patience: Duration,
) -> io::Result<(String, u16)> {
    let mut stream = tcp::connect(host, port, tls, &Addresses::default(), patience).await?;
    let mut request = Vec::new();
    let mut question = MasterQuestion::ask(master, &mut request);
    stream.write_all(&request).await?;
    let mut bytes = [0; READ_BYTES];
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it has hung up instead of an answer",
            ));
        }
        if let Some(found) = question
            .receive(&bytes[..count])
            .map_err(io::Error::other)?
        {
            return Ok(found);
        }
    }
}

const READ_BYTES: usize = 512;
