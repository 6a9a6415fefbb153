//! `quorlock page`: a page for a browser that shows nodes and locks, again every second. Agents and local clusters serve it as well.
//!
//! It changes nothing. It is on this machine's loopback alone, and asks the nodes only while somebody looks.

mod key;
mod look;
mod service;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::clusters::NodeList;
use crate::exit_code::Failure;
use crate::inspect::overview::OverviewSource;
use crate::lock_options::NodeOptions;
use crate::output::Format;
use crate::runtime;
use crate::signals::CaughtSignals;
use key::Key;
use service::PageServer;

/// Arguments of `quorlock page`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Port of the page on 127.0.0.1; 0 takes any free one (default: 8701, or the next free one)
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Serves the page until a signal.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    let source = OverviewSource::of(arguments.nodes)?;
    let listener = listen(arguments.port)?;
    runtime::block_on(async {
        source.check().await?;
        let mut ends = CaughtSignals::that_end()
            .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        // Others on this machine can reach the port, and may have no login for the nodes.
        let page = PageServer::serve(listener, source, Some(Key::random()))?;
        let url = page.url();
        format.result(
            format_args!("{url}\nWhoever has this address sees the names of locks and their holders. Ctrl-C ends the page."),
            &json!({ "url": url }),
        );
        ends.next().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Serves a page about the nodes of these options to whoever has its key. Gives its address.
///
/// # Errors
/// When the port is taken, or no nodes are named.
pub(crate) fn serve_with_key(port: u16, nodes: NodeOptions) -> Result<String, Failure> {
    let source = OverviewSource::of(nodes)?;
    let page = PageServer::serve(listen(Some(port))?, source, Some(Key::random()))?;
    Ok(page.url())
}

/// Serves a page to everybody on this machine, about nodes without a password: it shows what their ports show. Gives its address.
///
/// # Errors
/// When the port is taken, or none is free.
pub(crate) fn serve_to_all(
    port: Option<u16>,
    nodes: Vec<String>,
    cacert: Option<PathBuf>,
) -> Result<String, Failure> {
    let mut list = NodeList {
        nodes,
        ..NodeList::default()
    };
    list.tls.cacert = cacert;
    let page = PageServer::serve(listen(port)?, OverviewSource::of_list(list), None)?;
    Ok(page.url())
}

/// The port that was asked for, or the first free one.
fn listen(asked: Option<u16>) -> Result<TcpListener, Failure> {
    let ports = match asked {
        Some(port) => port..=port,
        None => PORT..=PORT + PORTS_TRIED,
    };
    let mut last = None;
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some((port, error)),
        }
    }
    let why = last.map(|(port, error)| format!("cannot listen on 127.0.0.1:{port}: {error}"));
    Err(Failure::failed(why.unwrap_or_default()).remedy("name another port, or 0 for any free one"))
}

const PORT: u16 = 8701;
const PORTS_TRIED: u16 = 99;

const EXAMPLES: &str = "\
Examples:
  quorlock page                               of the nodes that the other commands use
  quorlock page --nodes db1:7001,db2:7001,db3:7001 --port 9000

From another machine: ssh -L 8701:127.0.0.1:8701 HOST, and the address that is printed.";
