//! The seam to the files of TLS: what CONFIG SET asks of whoever has opened them.

use std::fmt::Debug;

use crate::config::Config;

/// What a node shows to clients that speak TLS, and what it asks of them.
pub trait CertificateSource: Send + Sync + Debug {
    /// Reads the files that a configuration names, all of them, and changes nothing: connections are made with them once
    /// the result is called.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    fn read(&self, config: &Config) -> Result<Installation, String>;

    /// When the node's certificate that is in use ends, in seconds since 1970. `None` where its bytes do not say so.
    fn end(&self) -> Option<i64>;
}

/// Takes the files into use that were read. Connections that stand keep what they have.
pub type Installation = Box<dyn FnOnce() + Send>;
