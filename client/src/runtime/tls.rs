//! TLS with nodes: the client's files, the handshake, and in words why one failed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage,
    RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;

use crate::tls_options::TlsOptions;

/// What a client speaks TLS with.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    options: Arc<TlsOptions>,
    /// What was read last.
    last: Arc<Mutex<Arc<ClientConfig>>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, String> {
        let last = Arc::new(Mutex::new(Arc::new(read(&options)?)));
        let options = Arc::new(options);
        Ok(Self { options, last })
    }

    /// Speaks TLS on a connection to this host.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream> {
        let name = self.options.server_name.as_deref().unwrap_or(host);
        // Which interface an address is reached by is no part of its name.
        let name = name.split('%').next().unwrap_or_default().to_owned();
        let parsed = ServerName::try_from(name.clone());
        let parsed = parsed.map_err(|_| invalid(format!("'{name}' is no name of TLS")))?;
        let options = Arc::clone(&self.options);
        // Files may wait for the disk, and this thread renews locks.
        let read = spawn_blocking(move || read(&options)).await;
        let config = {
            let mut last = self.last.lock().expect("none of its holders can panic");
            if let Ok(Ok(config)) = read {
                *last = Arc::new(config);
            }
            Arc::clone(&last)
        };
        let connecting = TlsConnector::from(config).connect(parsed, stream).await;
        let explain = |error| explained(error, &self.options, &name);
        let stream = connecting.map_err(explain)?;
        let options = Arc::clone(&self.options);
        Ok(TlsStream {
            stream,
            options,
            name,
        })
    }
}

/// A connection that speaks TLS.
#[derive(Debug)]
pub(super) struct TlsStream {
    stream: tokio_rustls::client::TlsStream<TcpStream>,
    options: Arc<TlsOptions>,
    name: String,
}

impl TlsStream {
    /// The connection below.
    pub(super) fn tcp(&self) -> &TcpStream {
        self.stream.get_ref().0
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        // In TLS 1.3 a client learns only here that its certificate was refused.
        polled.map_err(|error| explained(error, &self.options, &self.name))
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn read(options: &TlsOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match (options.is_insecure, &options.ca_file) {
        (true, _) => {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        }
        (false, file) => builder.with_root_certificates(authorities(file.as_deref())?),
    };
    let Some((certificate, key)) = &options.certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(certificate)?;
    let shown = key.display();
    let text = contents(key)?;
    let private = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        format!(
            "{shown} has no private key that can be read; write it in PEM, whole and not encrypted"
        )
    })?;
    builder
        .with_client_auth_cert(chain, private)
        .map_err(|error| {
            format!(
                "the key in {shown} cannot be used with the certificate in {}: {error}",
                certificate.display()
            )
        })
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        // Some of a machine's may be of a kind that nothing reads.
        None => {
            let _counts =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = contents(file)?;
    let shown = file.display();
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(format!("{shown} has no certificate in it; write it in PEM")),
        Err(_) => Err(format!(
            "{shown} has a certificate that is cut off or damaged; write the file again, whole"
        )),
    }
}

fn contents(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// What happened and what to do, in place of the words of a protocol.
fn explained(error: io::Error, options: &TlsOptions, name: &str) -> io::Error {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let Some(inner) = inner else {
        return error;
    };
    let trusted = |file: &PathBuf| file.display().to_string();
    let trusted = options.ca_file.as_ref().map_or_else(
        || "the authorities that this machine trusts: name a file with its authority".to_owned(),
        trusted,
    );
    let what = match inner {
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: replace it, and send the node SIGHUP".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: is a clock wrong?".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is not for the name '{name}': connect by a name that it has, or name that besides")
            }
            CertificateError::UnknownIssuer => {
                format!("its certificate is of no authority in {trusted}")
            }
            _ => format!("its certificate is not accepted: {reason}"),
        },
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what answers there speaks no TLS: name its tls-port, or write redis:// for a plain port".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a certificate of the client: name one, and its key".to_owned()
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => match &options.certificate {
            Some((file, _)) => format!(
                "it does not accept the client's certificate in {} ({inner})",
                file.display()
            ),
            None => format!("it wants a certificate of the client: name one, and its key ({inner})"),
        },
        _ => inner.to_string(),
    };
    invalid(format!("TLS: {what}"))
}

/// Takes whatever a node shows, as it was asked for. Signatures are checked: the node has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
