//! Connections to nodes for programs that ask them other things than about a lock of theirs.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::NodeAddress;
use tokio::io::{AsyncRead, AsyncWrite};

use super::dial::{Addresses, dial};
use super::tls::Tls;
use crate::tls_options::TlsOptions;

/// Connects to nodes as clients do, with TLS where an address says so.
#[derive(Clone, Debug)]
pub struct Dialer {
    tls: Option<Tls>,
}

impl Dialer {
    /// For these addresses. Files of TLS are read where one of them speaks it.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn new(addresses: &[NodeAddress], options: TlsOptions) -> Result<Self, String> {
        let speaks_tls = addresses.iter().any(|address| address.speaks_tls);
        let tls = speaks_tls.then(|| Tls::new(options)).transpose()?;
        Ok(Self { tls })
    }

    /// Connects to a node within this time, of which a handshake is no part.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(
        &self,
        address: &NodeAddress,
        patience: Duration,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let tls = self.tls.clone().filter(|_| address.speaks_tls);
        dial(address.clone(), None, tls, Addresses::default(), patience).await
    }
}
