//! Which version a server has, before locks are taken on it.

use std::slice;
use std::time::Duration;

use quorlock_client::{Dialer, TlsOptions};
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::node_facts::NodeFacts;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question;

use super::node_link::NodeLink;

/// The version of the server at this address, with its name.
///
/// # Errors
/// Why it does not say.
pub(crate) async fn version_of(address: &str, tls: TlsOptions) -> Result<String, String> {
    let address = NodeAddress::parse(address).map_err(|error| error.to_string())?;
    let asked = ask(&address, tls).await;
    asked.map_err(|why| format!("{address}: {why}"))
}

async fn ask(address: &NodeAddress, tls: TlsOptions) -> Result<String, String> {
    let dialer = Dialer::new(slice::from_ref(address), tls)?;
    let mut link = NodeLink::open(address, &dialer, PATIENCE).await?;
    let replies = link.ask(&[question::request(&[b"INFO"])]).await?;
    let facts = NodeFacts::read(replies.first().unwrap_or(&NodeReply::Nil))?;
    Ok(facts.version)
}

const PATIENCE: Duration = Duration::from_secs(2);
