//! How a client speaks TLS: which authorities it trusts, and what it shows.

use std::path::{Path, PathBuf};

/// How a client speaks TLS with the nodes whose addresses begin with `rediss://`.
///
/// The files are PEM. They are read when the client is built, and again for each connection, so that files which are replaced
/// are used without a restart; where they cannot be read later, what was read before is used.
///
/// # Example
/// ```
/// use quorlock_client::TlsOptions;
///
/// let tls = TlsOptions::new()
///     .ca_file("/etc/quorlock/ca.pem")
///     .certificate("/etc/quorlock/client.pem", "/etc/quorlock/client.key");
/// # let _ = tls;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "give it to RedlockBuilder::tls"]
pub struct TlsOptions {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) server_name: Option<String>,
    pub(crate) is_insecure: bool,
}

impl TlsOptions {
    /// The authorities that the machine trusts, no certificate of the client, and the host of each address as the node's name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in this file, and no other: where an authority of one's own has signed the nodes' certificates.
    pub fn ca_file(mut self, file: impl AsRef<Path>) -> Self {
        self.ca_file = Some(file.as_ref().to_owned());
        self
    }

    /// Shows this certificate, with those that lead from it to its authority, and proves it with this key.
    pub fn certificate(mut self, certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        let key = key.as_ref().to_owned();
        self.certificate = Some((certificate.as_ref().to_owned(), key));
        self
    }

    /// The name that every node's certificate has to have, in place of the host in its address: where addresses are those of a proxy.
    pub fn server_name(mut self, name: &str) -> Self {
        self.server_name = Some(name.to_owned());
        self
    }

    /// Takes any certificate. Whoever is between the client and a node can then pass for the node, and grant a lock twice.
    pub fn insecure(mut self, is_insecure: bool) -> Self {
        self.is_insecure = is_insecure;
        self
    }
}
