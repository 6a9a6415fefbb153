//! The two ends of a connection, as Redis writes them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a connection.
#[derive(Clone, Debug)]
pub enum Address {
    /// An address of TCP.
    Tcp(SocketAddr),
    /// The path of the node's socket, for both ends.
    Unix(Arc<str>),
    /// It is in the node's process, with no socket between them.
    InProcess,
}

/// As Redis writes it.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{path}:0"),
            Self::InProcess => formatter.write_str("in-process:0"),
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The client's.
    pub client: Address,
    /// The node's.
    pub node: Address,
}

impl Endpoints {
    /// Of a client in the node's process.
    pub const IN_PROCESS: Self = Self {
        client: Address::InProcess,
        node: Address::InProcess,
    };

    /// Of a client without a socket.
    pub const NONE: Self = {
        let nobody = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
        Self {
            client: Address::Tcp(nobody),
            node: Address::Tcp(nobody),
        }
    };
}
