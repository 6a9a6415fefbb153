//! The directives of TLS, under Redis's names. What they say is read here; files are opened by whoever speaks TLS.

use std::path::PathBuf;

use super::directive::Directive;
use super::times::{path, show_path};
use super::value::{integer, name_of, one, one_of};
use super::{Config, Problem};

/// Where TLS is spoken, and with what. Relative paths begin in the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The port on which clients speak TLS; 0: none.
    pub port: u16,
    /// The node's certificate, with those that lead from it to its authority.
    pub cert_file: Option<PathBuf>,
    /// Its private key.
    pub key_file: Option<PathBuf>,
    /// The authorities whose certificates of clients are accepted.
    pub ca_cert_file: Option<PathBuf>,
    /// A directory of such authorities.
    pub ca_cert_dir: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub auth_clients: ClientCertificates,
    /// The versions of TLS that are spoken.
    pub protocols: TlsProtocols,
}

/// Whether clients have to show a certificate (`tls-auth-clients`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// A client without one is refused.
    #[default]
    Required,
    /// None is asked for.
    NotAsked,
    /// One that is shown must be good.
    Optional,
}

impl ClientCertificates {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("yes", Self::Required),
        ("no", Self::NotAsked),
        ("optional", Self::Optional),
    ];
}

/// The versions of TLS that are spoken (`tls-protocols`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsProtocols {
    /// TLS 1.2.
    pub has_1_2: bool,
    /// TLS 1.3.
    pub has_1_3: bool,
}

impl Default for TlsProtocols {
    fn default() -> Self {
        Self {
            has_1_2: true,
            has_1_3: true,
        }
    }
}

impl TlsProtocols {
    /// An empty value is the default, as in Redis.
    fn parse(text: &str) -> Result<Self, Problem> {
        let mut protocols = Self {
            has_1_2: false,
            has_1_3: false,
        };
        for word in text.split_ascii_whitespace() {
            match word.to_ascii_lowercase().as_str() {
                "tlsv1.2" => protocols.has_1_2 = true,
                "tlsv1.3" => protocols.has_1_3 = true,
                "tlsv1" | "tlsv1.1" => {
                    return Err(Problem::new(format!(
                        "{word} is not spoken: it is broken (RFC 8996); use TLSv1.2 or TLSv1.3"
                    )));
                }
                _ => {
                    return Err(Problem::new(
                        "argument must be TLSv1.2, TLSv1.3 or both, separated by a blank",
                    ));
                }
            }
        }
        let is_any = protocols.has_1_2 || protocols.has_1_3;
        Ok(if is_any { protocols } else { Self::default() })
    }

    fn show(self) -> String {
        let names = [(self.has_1_2, "TLSv1.2"), (self.has_1_3, "TLSv1.3")];
        let names = names.into_iter().filter(|(is_spoken, _)| *is_spoken);
        names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    }
}

/// See the file's header.
pub(super) const USED: &[Directive] = &[
    Directive::used(
        "tls-port",
        "0",
        "0 to 65535",
        "Port on which clients speak TLS. 0: none. Where there is one, `port 0` is no plain port.",
        |c, v| integer(one(v)?, 0, u16::MAX).map(|port| c.tls.port = port),
        |c| c.tls.port.to_string(),
    ),
    Directive::live(
        "tls-cert-file",
        "\"\"",
        "a path",
        "The node's certificate and those between it and its authority, in PEM.",
        |c, v| path(one(v)?).map(|path| c.tls.cert_file = path),
        |c| show_path(&c.tls.cert_file),
    ),
    Directive::live(
        "tls-key-file",
        "\"\"",
        "a path",
        "Its private key, in PEM and not encrypted.",
        |c, v| path(one(v)?).map(|path| c.tls.key_file = path),
        |c| show_path(&c.tls.key_file),
    ),
    Directive::live(
        "tls-ca-cert-file",
        "\"\"",
        "a path",
        "The authorities whose certificates of clients are accepted, in PEM.",
        |c, v| path(one(v)?).map(|path| c.tls.ca_cert_file = path),
        |c| show_path(&c.tls.ca_cert_file),
    ),
    Directive::live(
        "tls-ca-cert-dir",
        "\"\"",
        "a path",
        "A directory of such files: all that end with `.pem`, `.crt` or `.0`.",
        |c, v| path(one(v)?).map(|path| c.tls.ca_cert_dir = path),
        |c| show_path(&c.tls.ca_cert_dir),
    ),
    Directive::live(
        "tls-auth-clients",
        "yes",
        "`yes`, `no`, `optional`",
        "Whether clients must show a certificate of such an authority; `optional`: one that is shown must be good.",
        |c, v| one_of(ClientCertificates::NAMES, one(v)?).map(|asked| c.tls.auth_clients = asked),
        |c| name_of(ClientCertificates::NAMES, &c.tls.auth_clients).to_owned(),
    ),
    Directive::live(
        "tls-protocols",
        "TLSv1.2 TLSv1.3",
        "`TLSv1.2`, `TLSv1.3`, both",
        "The versions of TLS that are spoken.",
        |c, v| TlsProtocols::parse(&v.join(" ")).map(|spoken| c.tls.protocols = spoken),
        |c| c.tls.protocols.show(),
    ),
];

/// Whether a directive, in any case, is one of TLS.
pub(crate) fn is_of_tls(name: &str) -> bool {
    USED.iter().any(|directive| directive.is_named(name))
}

impl Config {
    /// What TLS is spoken with, where clients speak it.
    pub fn spoken_tls(&self) -> Option<&Tls> {
        (self.tls.port != 0).then_some(&self.tls)
    }

    /// Whether the endpoint of the metrics speaks TLS.
    pub fn has_metrics_with_tls(&self) -> bool {
        self.metrics_tls && self.metrics_port.is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn versions_are_read_as_redis_writes_them_and_broken_ones_are_refused() {
        for (text, shown) in [
            ("", "TLSv1.2 TLSv1.3"),
            ("TLSv1.3", "TLSv1.3"),
            ("tlsv1.2", "TLSv1.2"),
            ("TLSv1.3 TLSv1.2", "TLSv1.2 TLSv1.3"),
        ] {
            assert_eq!(TlsProtocols::parse(text).unwrap().show(), shown);
        }
        for text in ["TLSv1", "TLSv1.1 TLSv1.2", "SSLv3", "TLSv1.2,TLSv1.3"] {
            assert!(TlsProtocols::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn certificates_of_clients_are_required_unless_it_is_said() {
        let mut config = Config::default();
        assert_eq!(config.tls.auth_clients, ClientCertificates::Required);
        config.set("tls-auth-clients", &["Optional"]).unwrap();
        assert_eq!(config.tls.auth_clients, ClientCertificates::Optional);
        config.set("tls-auth-clients", &["maybe"]).unwrap_err();
        assert!(config.spoken_tls().is_none());
    }
}
