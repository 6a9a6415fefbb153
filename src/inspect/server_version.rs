//! Which version a server has, before locks are taken on it.

use std::time::Duration;

use quorlock_client::TlsOptions;
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::node_facts::NodeFacts;

use super::node_link::NodeLink;

/// The version of the server at this address, with its name.
///
/// # Errors
/// Why it does not say.
pub(crate) async fn version_of(address: &str, tls: TlsOptions) -> Result<String, String> {
    let address = NodeAddress::parse(address).map_err(|error| error.to_string())?;
    let info = NodeLink::ask_once(&address, tls, &[b"INFO"], PATIENCE).await;
    let facts = info.and_then(|info| NodeFacts::read(&info));
    let version = facts.map(|facts| facts.version);
    version.map_err(|why| format!("{address}: {why}"))
}

const PATIENCE: Duration = Duration::from_secs(2);
