//! The certificates of a cluster that speaks TLS: an authority of its own, and one certificate that all of its nodes show.
//!
//! Invariant: the key of the authority is never written, and gone when this has returned. So clients that trust it trust
//! these nodes alone. Where the certificates are near their end, damaged or gone, new ones take their place, the authority too.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::home::Certificates;
use super::manifest::{Issued, Manifest, write_atomically};
use crate::clock;
use crate::exit_code::Failure;

impl Certificates {
    /// Makes them where there are none that last.
    pub(super) fn ensure(&self, manifest: &Manifest) -> Result<Issued, Failure> {
        let now = clock::wall().as_secs();
        match manifest.issued {
            Some(issued) if last(issued, now) && self.are(issued) => Ok(issued),
            _ => self.make(now + LIFETIME.as_secs()),
        }
    }

    fn make(&self, end: u64) -> Result<Issued, Failure> {
        let texts = issued(end)?;
        for (path, text) in self.files().into_iter().zip(&texts) {
            write_atomically(path, text, OWNER_ONLY).map_err(|error| {
                let what = format!(
                    "cannot write {}: {error}; no node was started, and no lock is affected",
                    path.display()
                );
                Failure::failed(what)
                    .remedy("make room, or see who may write there, and start again")
            })?;
        }
        let crc32c = checksum(texts.iter().map(String::as_bytes));
        Ok(Issued { end, crc32c })
    }

    fn are(&self, issued: Issued) -> bool {
        let texts: io::Result<Vec<Vec<u8>>> = self.files().into_iter().map(fs::read).collect();
        texts.is_ok_and(|texts| checksum(texts.iter().map(Vec::as_slice)) == issued.crc32c)
    }

    fn files(&self) -> [&Path; 3] {
        [&self.authority, &self.node, &self.key]
    }
}

/// Whether they are valid for a while. Those that end too late were made by a clock that was ahead.
fn last(issued: Issued, now: u64) -> bool {
    (now + LEFT_MIN.as_secs()..=now + LIFETIME.as_secs()).contains(&issued.end)
}

fn checksum<'a>(texts: impl Iterator<Item = &'a [u8]>) -> u32 {
    texts.fold(0, crc32c::crc32c_append)
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
        // With a name of its own: who trusts another one is told that this one is none of those.
        let name = format!("quorlock cluster up {:016x}", rand::random::<u64>());
        let mut authority = params(&[], &name)?;
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
