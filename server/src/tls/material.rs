//! The files of TLS, read into what handshakes need.
//!
//! Invariant: every error names the directive and the file. A file is read whole and within a bound, and nothing is read that
//! may never end.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use crate::config::{ClientCertificates, Config, Tls};
use crate::tls::validity;

/// What handshakes need.
pub(super) struct Material {
    /// With clients. Where none speaks TLS it is not used.
    pub(super) clients: Arc<ServerConfig>,
    /// With what asks for the metrics, of which no certificate is asked.
    pub(super) metrics: Arc<ServerConfig>,
    /// When the node's certificate ends, in seconds since 1970, if its bytes say so.
    pub(super) end: Option<i64>,
}

/// Reads all files that the configuration names.
pub(super) fn read(config: &Config) -> Result<Arc<Material>, String> {
    let tls = &config.tls;
    let provider = Arc::new(ring::default_provider());
    let chain_file = named(config, "tls-cert-file", tls.cert_file.as_ref())?;
    let key_file = named(config, "tls-key-file", tls.key_file.as_ref())?;
    let chain = certificates("tls-cert-file", &chain_file)?;
    let key = private_key(&key_file)?;
    let end = chain.first().and_then(|own| validity::end_of(own));
    let build = |verifier: Option<Arc<dyn ClientCertVerifier>>| {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(tls))
            .map_err(|error| format!("tls-protocols: {error}"))?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let built = builder.with_single_cert(chain.clone(), key.clone_key());
        let mut server = built.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                "the private key in {} (tls-key-file) is not that of the certificate in {} (tls-cert-file); change both in \
                 one CONFIG SET",
                key_file.display(),
                chain_file.display()
            ),
            error => format!("tls-cert-file {}: {error}", chain_file.display()),
        })?;
        // Each handshake checks the client's certificate, also where it was good some hours ago.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok::<_, String>(Arc::new(server))
    };
    let metrics = build(None)?;
    let clients = match config.spoken_tls() {
        Some(_) => build(verifier(config, Arc::clone(&provider))?)?,
        None => Arc::clone(&metrics),
    };
    let now = i64::try_from(UnixTime::now().as_secs()).ok();
    let remark = end
        .zip(now)
        .and_then(|(end, now)| validity::remark(end, now));
    if let Some(words) = remark {
        tracing::warn!("tls-cert-file {}: {words}", chain_file.display());
    }
    Ok(Arc::new(Material {
        clients,
        metrics,
        end,
    }))
}

fn versions(tls: &Tls) -> Vec<&'static SupportedProtocolVersion> {
    let versions = [
        (tls.protocols.has_1_3, &version::TLS13),
        (tls.protocols.has_1_2, &version::TLS12),
    ];
    let spoken = versions.into_iter().filter(|(is_spoken, _)| *is_spoken);
    spoken.map(|(_, version)| version).collect()
}

/// What looks at the certificates of clients, where they are asked for any.
fn verifier(
    config: &Config,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let tls = &config.tls;
    if tls.auth_clients == ClientCertificates::NotAsked {
        return Ok(None);
    }
    let roots = authorities(config)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match tls.auth_clients {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    let verifier = builder.build();
    verifier
        .map(|verifier| Some(verifier as Arc<dyn ClientCertVerifier>))
        .map_err(|error| format!("tls-ca-cert-file: {error}"))
}

fn authorities(config: &Config) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let mut add = |directive: &str, file: &Path| {
        for certificate in certificates(directive, file)? {
            let added = roots.add(certificate);
            added.map_err(|error| format!("{directive} {}: {error}", file.display()))?;
        }
        Ok::<(), String>(())
    };
    if let Some(file) = &config.tls.ca_cert_file {
        add("tls-ca-cert-file", &config.dir.join(file))?;
    }
    if let Some(directory) = &config.tls.ca_cert_dir {
        for file in files_in(&config.dir.join(directory))? {
            add("tls-ca-cert-dir", &file)?;
        }
    }
    if roots.is_empty() {
        return Err(
            "clients have to show a certificate (tls-auth-clients), and neither tls-ca-cert-file nor tls-ca-cert-dir says whose \
             is good: name the authority, or set tls-auth-clients no"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// In an order that does not change.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |error| format!("tls-ca-cert-dir {}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let is_certificate = path
            .extension()
            .is_some_and(|it| it == "pem" || it == "crt" || it == "0");
        if is_certificate {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            let shown = directory.display();
            return Err(format!(
                "tls-ca-cert-dir {shown} has more than {FILES_MAX} certificates"
            ));
        }
    }
    files.sort();
    Ok(files)
}

fn named(config: &Config, directive: &str, file: Option<&PathBuf>) -> Result<PathBuf, String> {
    let file = file.ok_or_else(|| {
        format!("{directive} names no file, and TLS is to be spoken (tls-port, metrics-tls)")
    })?;
    Ok(config.dir.join(file))
}

fn certificates(directive: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = contents(directive, file)?;
    let shown = file.display();
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(read) if read.is_empty() => Err(format!(
            "{directive} {shown}: there is no certificate in it; write it in PEM"
        )),
        Ok(read) => Ok(read),
        Err(_) => Err(format!("{directive} {shown}: {DAMAGED}")),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = contents("tls-key-file", file)?;
    let shown = file.display();
    if is_encrypted(&bytes) {
        return Err(format!(
            "tls-key-file {shown}: the key is encrypted; decrypt it into a file that others may not read: openssl pkey -in {shown}"
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!("tls-key-file {shown}: there is no private key in it; write it in PEM")
        }
        _ => format!("tls-key-file {shown}: {DAMAGED}"),
    })?;
    if std::fs::metadata(file).is_ok_and(|about| about.mode() & 0o004 != 0) {
        tracing::warn!(
            "tls-key-file: every user of this machine can read {shown}, and with it pass for this node: take away their \
             permission with chmod o-r"
        );
    }
    Ok(key)
}

fn is_encrypted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("ENCRYPTED")
}

/// Reads a file. A pipe, or a device, could make the caller wait for ever, and a client may name the file.
fn contents(directive: &str, file: &Path) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let problem = |error: std::io::Error| format!("{directive} {shown}: {error}");
    let opened = File::options()
        .read(true)
        .custom_flags(NOT_WAITING)
        .open(file)
        .map_err(problem)?;
    if !opened.metadata().map_err(problem)?.is_file() {
        return Err(format!("{directive} {shown}: this is no file"));
    }
    let mut bytes = Vec::new();
    let read = opened.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(problem)?;
    if bytes.len() as u64 > BYTES_MAX {
        let most = BYTES_MAX / 1024;
        return Err(format!("{directive} {shown} has more than {most} KiB"));
    }
    Ok(bytes)
}

/// A pipe is opened at once, and refused.
const NOT_WAITING: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// All authorities of a distribution take a quarter of it.
const BYTES_MAX: u64 = 1024 * 1024;

const FILES_MAX: usize = 1024;

/// Said in place of the reason, which lists bytes.
const DAMAGED: &str = "the PEM in it is cut off or damaged; write the file again, whole";
