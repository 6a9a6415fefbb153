//! TLS on a whole node: who gets in with which certificate, what a handshake may cost, and certificates that change while
//! clients are connected.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::Node;
use quorlock_server::clock::SettableClock;
use quorlock_testkit::{Certificates, Wire, certificate, eventually, free_port};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::machine::{configured, serve};

/// A node that speaks TLS, and plainly on another port.
struct Speaking<'a> {
    node: &'a Node,
    clock: &'a SettableClock,
    address: SocketAddr,
    certificates: Certificates,
}

fn with_tls(more: &[(&str, &[&str])], test: impl FnOnce(&Speaking<'_>)) {
    let home = tempfile::tempdir().unwrap();
    let certificates = Certificates::write_to(home.path());
    let port = free_port();
    let clock = Arc::new(SettableClock::new());
    let mut builder = configured(&[
        ("port", &[&free_port().to_string()]),
        ("tls-port", &[&port.to_string()]),
        ("tls-cert-file", &[&certificates.path("node.pem")]),
        ("tls-key-file", &[&certificates.path("node.key")]),
        ("tls-ca-cert-file", &[&certificates.path("authority.pem")]),
    ]);
    for (name, values) in more {
        builder = builder.directive(name, values);
    }
    serve(builder.clock(clock.clone()), |node| {
        test(&Speaking {
            node,
            clock: &clock,
            address: SocketAddr::new(node.address().ip(), port),
            certificates,
        });
    });
}

/// A connection of a client with this certificate, or with none.
pub(crate) struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    pub(crate) fn connect(address: SocketAddr, shows: Option<&str>) -> Self {
        let mut roots = RootCertStore::empty();
        let pem = |name: &str| CertificateDer::from_pem_slice(certificate(name).as_bytes());
        roots.add(pem("authority.pem").unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = certificate(&format!("{name}.key")).as_bytes();
                let key = PrivateKeyDer::from_pem_slice(key).unwrap();
                let chain = vec![pem(&format!("{name}.pem")).unwrap()];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(StreamOwned::new(connection, stream)))
    }

    /// The reply's first line; an error where the node does not let it in.
    fn ask(&mut self, request: &str) -> std::io::Result<String> {
        write!(self.0.get_mut(), "{request}\r\n")?;
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// What carries its bytes.
    pub(crate) fn stream(&mut self) -> &mut StreamOwned<ClientConnection, TcpStream> {
        self.0.get_mut()
    }

    /// The certificate that the node has shown.
    pub(crate) fn seen(&self) -> Vec<u8> {
        let shown = self.0.get_ref().conn.peer_certificates().unwrap();
        shown[0].to_vec()
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn der(name: &str) -> Vec<u8> {
    let pem = CertificateDer::from_pem_slice(certificate(name).as_bytes());
    pem.unwrap().to_vec()
}

#[test]
fn clients_get_in_with_a_certificate_of_the_authority_and_no_other() {
    with_tls(&[], |tls| {
        let mut client = Client::connect(tls.address, Some("client"));
        assert_eq!(client.ask("SET a 1 NX PX 30000").unwrap(), "+OK");
        assert_eq!(client.ask("CONFIG GET tls-auth-clients").unwrap(), "*2");
        for shows in [None, Some("other-client"), Some("expired-client")] {
            let refused = Client::connect(tls.address, shows).ask("PING");
            assert!(refused.is_err(), "{shows:?}");
        }
        let mut plain = Wire::connect(tls.node.address());
        assert_eq!(plain.ask("SET a 2 NX PX 30000"), "nil", "it is one node");
        for (asked, stranger) in [
            ("optional", Ok("+PONG")),
            ("no", Ok("+PONG")),
            ("yes", Err(())),
        ] {
            let set = format!("CONFIG SET tls-auth-clients {asked}");
            assert_eq!(plain.ask(&set), "+OK");
            let reply = Client::connect(tls.address, None).ask("PING");
            assert_eq!(reply.as_deref().map_err(drop), stranger, "{asked}");
            let bad = Client::connect(tls.address, Some("other-client")).ask("PING");
            assert_eq!(bad.is_ok(), asked == "no", "{asked}");
        }
    });
}

#[test]
fn new_connections_use_new_files_and_others_stay() {
    with_tls(&[], |tls| {
        let mut first = Client::connect(tls.address, Some("client"));
        assert_eq!(first.ask("PING").unwrap(), "+PONG");
        assert_eq!(first.seen(), der("node.pem"));
        let mut plain = Wire::connect(tls.node.address());
        let path = |name: &str| tls.certificates.path(name);
        // Half of a change is none.
        let half = format!("CONFIG SET tls-cert-file {}", path("second-node.pem"));
        let refused = plain.ask(&half);
        assert!(refused.contains("not that of the certificate"), "{refused}");
        let refused = plain.ask("CONFIG SET tls-cert-file /nowhere.pem");
        assert!(refused.contains("tls-cert-file /nowhere.pem"), "{refused}");
        let shown = plain.ask("CONFIG GET tls-cert-file");
        assert!(
            shown.contains(&path("node.pem")),
            "nothing has changed: {shown}"
        );
        let both = format!("{half} tls-key-file {}", path("second-node.key"));
        assert_eq!(plain.ask(&both), "+OK");
        let mut second = Client::connect(tls.address, Some("client"));
        assert_eq!(second.ask("PING").unwrap(), "+PONG");
        assert_eq!(second.seen(), der("second-node.pem"));
        assert_eq!(first.ask("PING").unwrap(), "+PONG", "it stays");
        // Files that were replaced under their names.
        let replace = |to: &str, from: &str| std::fs::copy(path(from), path(to)).unwrap();
        replace("second-node.pem", "node.pem");
        let refused = tls.node.reload_certificates().unwrap_err();
        assert!(refused.contains("not that of the certificate"), "{refused}");
        replace("second-node.key", "node.key");
        assert_eq!(tls.node.reload_certificates(), Ok(true));
        let mut third = Client::connect(tls.address, Some("client"));
        assert_eq!(third.ask("PING").unwrap(), "+PONG");
        assert_eq!(third.seen(), der("node.pem"));
    });
}

/// Waits until the node has closed this connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    let mut buffer = [0; 1024];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn a_handshake_that_does_not_end_is_ended_though_there_is_no_password() {
    with_tls(&[("authentication-timeout", &["10s"])], |tls| {
        let mut plain = Wire::connect(tls.node.address());
        let silent = TcpStream::connect(tls.address).unwrap();
        let mut slow = TcpStream::connect(tls.address).unwrap();
        // The beginning of a hello of 508 bytes.
        slow.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]).unwrap();
        plain.await_info("connected_clients", "3");
        plain.await_info("quorlock_unauthenticated_clients", "2");
        // Each byte gains no time.
        for _ in 0..9 {
            tls.clock.advance(Duration::from_secs(1));
            slow.write_all(&[0]).unwrap();
            assert_eq!(plain.ask("PING"), "+PONG");
        }
        plain.await_info("connected_clients", "3");
        tls.clock.advance(Duration::from_secs(2));
        assert!(is_closed(&silent) && is_closed(&slow));
        plain.await_info("quorlock_closed_unauthenticated_clients", "2");
        let mut client = Client::connect(tls.address, Some("client"));
        assert_eq!(client.ask("PING").unwrap(), "+PONG");
        plain.await_info("quorlock_unauthenticated_clients", "0");
        tls.clock.advance(Duration::from_secs(60));
        assert_eq!(client.ask("PING").unwrap(), "+PONG", "it has no limit");
    });
}

#[test]
fn handshakes_make_room_at_maxclients() {
    with_tls(&[("maxclients", &["4"])], |tls| {
        let mut plain = Wire::connect(tls.node.address());
        let silent: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(tls.address).unwrap())
            .collect();
        plain.await_info("connected_clients", "4");
        let mut client = Client::connect(tls.address, Some("client"));
        assert_eq!(client.ask("PING").unwrap(), "+PONG");
        assert!(is_closed(&silent[0]), "the oldest has gone");
        assert_eq!(plain.ask("PING"), "+PONG");
    });
}

#[test]
fn plain_bytes_on_the_port_of_tls_and_the_reverse_end_the_connection_and_nothing_else() {
    with_tls(&[], |tls| {
        for plain in ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n"] {
            let mut stream = TcpStream::connect(tls.address).unwrap();
            stream.write_all(plain.as_bytes()).unwrap();
            assert!(is_closed(&stream), "{plain:?}");
        }
        let reversed = Client::connect(tls.node.address(), None).ask("PING");
        assert!(reversed.is_err());
        let mut client = Client::connect(tls.address, Some("client"));
        assert_eq!(client.ask("PING").unwrap(), "+PONG");
    });
}

#[test]
fn a_client_that_never_reads_its_replies_is_bounded_as_a_plain_one() {
    with_tls(&[("send-timeout", &["10s"])], |tls| {
        let mut plain = Wire::connect(tls.node.address());
        let value = "v".repeat(100_000);
        assert_eq!(plain.ask(&format!("SET long {value}")), "+OK");
        let mut client = Client::connect(tls.address, Some("client"));
        assert_eq!(client.ask("PING").unwrap(), "+PONG");
        for _ in 0..200 {
            write!(client.0.get_mut(), "GET long\r\n").unwrap();
        }
        eventually("replies wait", || {
            let list = plain.ask("CLIENT LIST");
            list.lines().any(|line| !line.contains(" omem=0 "))
        });
        tls.clock.advance(Duration::from_secs(11));
        plain.await_info("connected_clients", "1");
        plain.await_info("quorlock_timed_out_clients", "1");
    });
}

#[test]
fn a_node_without_its_files_does_not_start_and_one_with_tls_alone_says_where_it_is() {
    let home = tempfile::tempdir().unwrap();
    let certificates = Certificates::write_to(home.path());
    let start = |folder: &Path, more: &[(&str, &str)]| {
        let port = free_port().to_string();
        let mut builder = configured(&[
            ("port", &["0"]),
            ("tls-port", &[&port]),
            ("tls-auth-clients", &["no"]),
            (
                "tls-cert-file",
                &[&folder.join("node.pem").display().to_string()],
            ),
        ]);
        for (name, value) in more {
            builder = builder.directive(name, &[value]);
        }
        (crate::machine::run(builder.ephemeral().start()), port)
    };
    let refused = start(home.path(), &[]).0.err().unwrap().to_string();
    assert!(refused.contains("tls-key-file names no file"), "{refused}");
    let key = certificates.path("node.key");
    let (node, port) = start(home.path(), &[("tls-key-file", &key)]);
    let node = node.unwrap();
    assert_eq!(node.url(), format!("rediss://127.0.0.1:{port}"));
    let mut client = Client::connect(node.address(), None);
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
}
