//! The certificates of a cluster that speaks TLS: an authority of its own, and one certificate that all of its nodes show.
//!
//! Invariant: the key of the authority is never written, and gone when this has returned. So clients that trust it trust
//! these nodes alone. Where the certificates are near their end, or are gone, new ones take their place, the authority too.

use std::time::Duration;

use super::home::Certificates;
use super::manifest::{Manifest, write_atomically};
use crate::clock;
use crate::exit_code::Failure;

impl Certificates {
    /// Makes them where there are none that last, and says when they end, in seconds since 1970.
    pub(super) fn ensure(&self, manifest: &Manifest) -> Result<u64, Failure> {
        let now = clock::wall().as_secs();
        let are_there = [&self.authority, &self.node, &self.key].map(|file| file.is_file());
        match manifest.certificates_end {
            Some(end) if end > now + LEFT_MIN.as_secs() && are_there == [true; 3] => Ok(end),
            _ => self.make(now + LIFETIME.as_secs()),
        }
    }

    fn make(&self, end: u64) -> Result<u64, Failure> {
        let [authority, node, key] = issued(end)?;
        // The certificate before its key: a node that is started between the two says that they do not belong together.
        for (path, text) in [
            (&self.authority, authority),
            (&self.node, node),
            (&self.key, key),
        ] {
            write_atomically(path, &text, OWNER_ONLY).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        Ok(end)
    }
}

/// An authority, a certificate for the addresses of this machine that it has signed, and the key of that, in PEM.
#[cfg(feature = "tls")]
fn issued(end: u64) -> Result<[String; 3], Failure> {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
        IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
    };
    let issue = || -> Result<[String; 3], rcgen::Error> {
        let params = |names: &[&str], name: &str| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name.push(DnType::CommonName, name);
            let epoch = date_time_ymd(1970, 1, 1);
            // Clocks that are behind this one, such as those of containers, find it valid as well.
            let begin = Duration::from_secs(end) - LIFETIME - DAY;
            params.not_before = epoch + begin;
            params.not_after = epoch + Duration::from_secs(end);
            Ok::<_, rcgen::Error>(params)
        };
        let mut authority = params(&[], "quorlock cluster up")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut node = params(&["localhost", "127.0.0.1"], "localhost")?;
        node.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        node.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // OpenSSL's strict check, as of Python 3.13, asks for it.
        node.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let node = node.signed_by(&key, &authority)?;
        Ok([authority.pem(), node.pem(), key.serialize_pem()])
    };
    issue().map_err(|error| Failure::failed(format!("certificates cannot be made: {error}")))
}

#[cfg(not(feature = "tls"))]
fn issued(_: u64) -> Result<[String; 3], Failure> {
    Err(Failure::usage(
        "--tls was given, but this program was built without TLS; nothing was started",
    )
    .remedy("leave --tls out, or build quorlock with the feature tls"))
}

const OWNER_ONLY: u32 = 0o600;
#[cfg(feature = "tls")]
const DAY: Duration = Duration::from_secs(86_400);
/// Some clients take no certificate that lasts for more than 825 days, and some for more than 398.
const LIFETIME: Duration = Duration::from_secs(365 * 86_400);
/// A cluster that is started runs on for weeks.
const LEFT_MIN: Duration = Duration::from_secs(30 * 86_400);
