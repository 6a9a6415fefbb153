//! What a CONFIG SET prepares outside the engine: files that it reads, and sockets that it opens.
//!
//! Both wait for the system, so the engine is not locked meanwhile. Dropped, a prepared change has changed nothing: where the change
//! is refused, sockets that were stopped for it are bound again, with the engine locked.

use crate::config::{Bind, Config, Tls, is_of_tls};
use crate::core::certificates::Installation;
use crate::core::state::NodeState;

/// What is taken into use once the change is made.
#[derive(Default)]
pub(super) struct PreparedChange {
    certificates: Option<(Tls, Installation)>,
    metrics: Option<(MetricsAddress, Installation)>,
}

/// What names where the metrics are.
type MetricsAddress = (Option<u16>, Vec<Bind>);

impl PreparedChange {
    /// Whether a change of these pairs has anything to prepare.
    pub(super) fn is_needed(pairs: &[&[u8]]) -> bool {
        names(pairs).any(|name| is_prepared(&name))
    }

    /// Prepares what the pairs make of the configuration. The files of TLS are read also where nothing but their content is new.
    ///
    /// # Errors
    /// The directive that cannot be carried out, and why.
    pub(super) fn new(
        node: &NodeState,
        before: &Config,
        after: &Config,
        pairs: &[&[u8]],
    ) -> Result<Self, (String, String)> {
        let mut prepared = Self::default();
        if let (Some(files), Some(name)) =
            (&node.certificates, names(pairs).find(|it| is_of_tls(it)))
        {
            let install = files.read(after).map_err(|why| (name, why))?;
            prepared.certificates = Some((after.tls.clone(), install));
        }
        let wanted = metrics_address(after);
        // Also where nothing is new: an address that was lost is bound again.
        if let Some(name) = names(pairs).find(|it| is_of_metrics(it))
            && (node.metrics.is_some() || metrics_address(before) != wanted)
        {
            let endpoint = node.metrics.as_ref();
            let prepare = endpoint.ok_or_else(|| NO_ENDPOINT.to_owned());
            let install = prepare.and_then(|endpoint| endpoint.prepare(after));
            let install = install.map_err(|why| (name, why))?;
            prepared.metrics = Some((wanted, install));
        }
        Ok(prepared)
    }

    /// Whether it is what this configuration needs, which another change may have come before.
    pub(super) fn is_of(&self, after: &Config) -> bool {
        let certificates = self.certificates.as_ref();
        let metrics = self.metrics.as_ref();
        certificates.is_none_or(|(tls, _)| *tls == after.tls)
            && metrics.is_none_or(|(address, _)| *address == metrics_address(after))
    }

    /// Takes files into use, with the engine locked. What is left is to be called once the engine is released, before the reply:
    /// sockets are closed.
    pub(super) fn install(self) -> Option<Installation> {
        if let Some((_, install)) = self.certificates {
            install();
        }
        self.metrics.map(|(_, install)| install)
    }
}

/// Whether a CONFIG SET of this directive, in lower case, waits for files or sockets.
pub(super) fn is_prepared(name: &str) -> bool {
    is_of_tls(name) || is_of_metrics(name)
}

fn names(pairs: &[&[u8]]) -> impl Iterator<Item = String> {
    let names = pairs.iter().step_by(2);
    names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
}

fn is_of_metrics(name: &str) -> bool {
    ["metrics-port", "metrics-bind"].contains(&name)
}

fn metrics_address(config: &Config) -> MetricsAddress {
    (config.metrics_port, config.metrics_bind.clone())
}

const NO_ENDPOINT: &str = "this node has no sockets; nothing was changed";
