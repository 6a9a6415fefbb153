//! The flags of TLS, under redis-cli's names, and the lines of nodes.conf that say the same.

use std::path::{Path, PathBuf};

use quorlock_client::TlsOptions;

use crate::exit_code::Failure;
use crate::output;

/// How TLS is spoken with the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct TlsFlags {
    /// Speak TLS with all nodes, as with rediss:// in place of redis://
    #[arg(long)]
    pub(crate) tls: bool,
    /// The authorities that may have signed the nodes' certificates, in PEM (default: QUORLOCK_CACERT, those that this machine trusts)
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// The certificate to show to nodes, in PEM (default: QUORLOCK_CERT)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM and not encrypted (default: QUORLOCK_KEY)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// The name that the nodes' certificates have, in place of the host in each address
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// Take any certificate of a node: whoever is in between can pass for it, and grant a lock twice
    #[arg(long)]
    pub(crate) insecure: bool,
}

impl TlsFlags {
    /// What the variables say. They belong to the nodes of a flag, a variable or a file: a local cluster has an authority
    /// of its own, and its clients show no certificate.
    pub(crate) fn of_environment() -> Self {
        let file = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            cacert: file("QUORLOCK_CACERT").map(PathBuf::from),
            cert: file("QUORLOCK_CERT").map(PathBuf::from),
            key: file("QUORLOCK_KEY").map(PathBuf::from),
            ..Self::default()
        }
    }

    /// Takes a line of nodes.conf. Says false where it is none of these; files begin in this folder.
    pub(crate) fn set(&mut self, folder: &Path, name: &str, value: &str) -> Result<bool, String> {
        let file = Some(folder.join(value));
        match (name, value) {
            ("tls", "yes") => self.tls = true,
            ("tls", "no") => self.tls = false,
            ("tls", _) => return Err("the value is yes or no".to_owned()),
            ("cacert", _) => self.cacert = file,
            ("cert", _) => self.cert = file,
            ("key", _) => self.key = file,
            ("sni", _) => self.sni = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These, and from `others` what they do not say.
    pub(crate) fn or(self, others: Self) -> Self {
        let (cert, key) = match (&self.cert, &self.key) {
            (None, None) => (others.cert, others.key),
            _ => (self.cert, self.key),
        };
        Self {
            tls: self.tls || others.tls,
            cacert: self.cacert.or(others.cacert),
            cert,
            key,
            sni: self.sni.or(others.sni),
            insecure: self.insecure || others.insecure,
        }
    }

    /// The address, with TLS where it is wanted of all.
    pub(crate) fn applied_to(&self, address: String) -> String {
        match address.split_once("://") {
            Some(("redis" | "valkey" | "quorlock", rest)) if self.tls => format!("rediss://{rest}"),
            Some(("redis+sentinel" | "valkey+sentinel", rest)) if self.tls => {
                format!("rediss+sentinel://{rest}")
            }
            Some(("redis-cluster" | "valkey-cluster", rest)) if self.tls => {
                format!("rediss-cluster://{rest}")
            }
            Some(("etcd", rest)) if self.tls => format!("etcds://{rest}"),
            Some(("postgresql" | "postgres", rest)) if self.tls && !rest.contains("sslmode=") => {
                let mark = if rest.contains('?') { '&' } else { '?' };
                format!("{address}{mark}sslmode=require")
            }
            _ => address,
        }
    }

    /// Says which of these nodes are spoken to without TLS, where there are files for it.
    pub(crate) fn remark_on_plain(&self, nodes: &[String]) {
        let has_files = self.cacert.is_some() || self.cert.is_some();
        let mut plain = nodes.iter().filter(|node| !node.starts_with("rediss"));
        // Another system says so in its own way.
        let is_remote = |node: &&String| {
            !node.starts_with("unix:")
                && !node.starts_with("postgres")
                && !node.starts_with("etcds:")
        };
        if has_files && let Some(node) = plain.find(is_remote) {
            let node = node.rsplit('@').next().unwrap_or_default();
            output::remark(format_args!(
                "{node} is spoken to without TLS, and everybody in between can read the password: add --tls, or write the \
                 address with TLS (rediss://, etcds://)"
            ));
        }
    }

    /// The same for a client.
    ///
    /// # Errors
    /// Where a certificate has no key, or the reverse.
    pub(crate) fn options(&self) -> Result<TlsOptions, Failure> {
        let mut options = TlsOptions::new().insecure(self.insecure);
        if let Some(file) = &self.cacert {
            options = options.ca_file(file);
        }
        match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => options = options.certificate(certificate, key),
            (None, None) => {}
            _ => {
                return Err(Failure::usage(
                    "a certificate and its private key are needed together",
                )
                .remedy("name both: --cert FILE --key FILE, QUORLOCK_CERT and QUORLOCK_KEY, or cert and key in nodes.conf"));
            }
        }
        Ok(match &self.sni {
            Some(name) => options.server_name(name),
            None => options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_for_all_leaves_no_plain_address_and_sockets_as_they_are() {
        let all = TlsFlags {
            tls: true,
            ..TlsFlags::default()
        };
        for (address, with_tls) in [
            ("redis://:p@db1:1/2", "rediss://:p@db1:1/2"),
            ("valkey://db1", "rediss://db1"),
            ("rediss://db1", "rediss://db1"),
            ("unix:///run/n.sock", "unix:///run/n.sock"),
        ] {
            assert_eq!(all.applied_to(address.to_owned()), with_tls);
            assert_eq!(TlsFlags::default().applied_to(address.to_owned()), address);
        }
    }

    #[test]
    fn flags_hold_over_the_file_and_half_a_certificate_is_refused() {
        let mut file = TlsFlags::default();
        let folder = Path::new("/etc/quorlock");
        for (name, value) in [("cacert", "ca.pem"), ("cert", "c.pem"), ("key", "c.key")] {
            assert_eq!(file.set(folder, name, value), Ok(true));
        }
        assert_eq!(file.set(folder, "node", "db1"), Ok(false));
        file.set(folder, "tls", "maybe").expect_err("yes or no");
        let flags = TlsFlags {
            cacert: Some("other.pem".into()),
            ..TlsFlags::default()
        };
        let both = flags.or(file.clone());
        assert_eq!(both.cacert.as_deref(), Some(Path::new("other.pem")));
        assert_eq!(both.key.as_deref(), Some(Path::new("/etc/quorlock/c.key")));
        assert!(both.options().is_ok());
        file.cert = None;
        assert!(file.clone().options().is_err());
        let half = file.or(both);
        assert!(half.options().is_err(), "{half:?}");
    }
}
