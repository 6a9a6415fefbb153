//! The endpoint of the metrics over TLS: with which certificate, until when that is good, and what a connection costs that
//! does not end its handshake.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use quorlock_server::Node;
use quorlock_testkit::{Certificates, Wire, free_port, observed_now};

use crate::machine::{configured, run, serve};
use crate::tls::{Client, der};

/// A node that has certificates, and plain clients.
fn with_certificates(more: &[(&str, &str)], test: impl FnOnce(&Node, SocketAddr, &Certificates)) {
    let home = tempfile::tempdir().unwrap();
    let certificates = Certificates::write_to(home.path());
    let mut builder = configured(&[
        ("port", &[&free_port().to_string()]),
        ("metrics-port", &["0"]),
        ("tls-cert-file", &[&certificates.path("node.pem")]),
        ("tls-key-file", &[&certificates.path("node.key")]),
        ("tls-ca-cert-file", &[&certificates.path("authority.pem")]),
    ]);
    for (name, value) in more {
        builder = builder.directive(name, &[value]);
    }
    serve(builder, |node| {
        test(node, node.metrics_address().unwrap(), &certificates);
    });
}

const HTTPS: (&str, &str) = ("metrics-tls", "yes");

fn get(address: SocketAddr, path: &str) -> String {
    let mut client = Client::connect(address, None);
    answer(&mut client, path)
}

fn answer(client: &mut Client, path: &str) -> String {
    exchange(client.stream(), path)
}

fn exchange(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// When the certificate ends, as this page of metrics says it.
fn end_in(page: &str) -> Option<f64> {
    let name = "quorlock_tls_certificate_expiry_timestamp_seconds ";
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.map(|value| value.parse().unwrap())
}

/// `date -u -d 2120-01-01 +%s`, and the same of 2021.
const GOOD: f64 = 4_733_510_400.0;
const EXPIRED: f64 = 1_609_459_200.0;

fn named(certificates: &Certificates, name: &str) -> String {
    format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        certificates.path(&format!("{name}.pem")),
        certificates.path(&format!("{name}.key"))
    )
}

#[test]
fn it_shows_the_certificate_in_use_to_clients_that_have_none() {
    let port = free_port().to_string();
    // Also where no client speaks TLS, and where clients have to show a certificate.
    for port in ["0", &port] {
        with_certificates(
            &[HTTPS, ("tls-port", port)],
            |node, address, certificates| {
                let mut client = Client::connect(address, None);
                let ready = answer(&mut client, "/readyz");
                assert!(ready.starts_with("HTTP/1.1 200 OK"), "{ready}");
                assert!(ready.ends_with("serving\n"), "{ready}");
                assert_eq!(client.seen(), der("node.pem"));
                let mut plain = Wire::connect(node.address());
                assert_eq!(plain.ask(&named(certificates, "second-node")), "+OK");
                let mut client = Client::connect(address, None);
                let page = answer(&mut client, "/metrics");
                assert_eq!(client.seen(), der("second-node.pem"));
                assert_eq!(end_in(&page), Some(GOOD));
                let refused = plain.ask("CONFIG SET metrics-tls no");
                assert!(refused.contains("restart the node"), "{refused}");
            },
        );
    }
}

#[test]
fn the_metrics_say_when_the_certificate_in_use_ends() {
    let page = |address| exchange(&mut TcpStream::connect(address).unwrap(), "/metrics");
    with_certificates(&[], |_, address, _| {
        assert_eq!(end_in(&page(address)), None, "it speaks no TLS");
    });
    let port = free_port().to_string();
    with_certificates(&[("tls-port", &port)], |node, address, certificates| {
        assert_eq!(end_in(&page(address)), Some(GOOD));
        let mut plain = Wire::connect(node.address());
        assert_eq!(plain.ask(&named(certificates, "expired-node")), "+OK");
        assert_eq!(end_in(&page(address)), Some(EXPIRED));
        for end in ["pem", "key"] {
            let path = |name| certificates.path(&format!("{name}.{end}"));
            std::fs::copy(path("node"), path("expired-node")).unwrap();
        }
        assert_eq!(
            end_in(&page(address)),
            Some(EXPIRED),
            "it is not read again"
        );
        assert_eq!(node.reload_certificates(), Ok(true));
        assert_eq!(end_in(&page(address)), Some(GOOD));
    });
}

#[test]
fn plain_bytes_and_half_a_handshake_are_closed_in_time_and_keep_nobody_out() {
    with_certificates(&[HTTPS], |_, address, _| {
        let began = observed_now();
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(PATIENCE)).unwrap();
        plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        // It may be a reset.
        let _ended = plain.read_to_end(&mut bytes);
        assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
        // The beginning of a hello of 508 bytes, and nothing at all; of each more than there are places.
        let mut halves: Vec<_> = (0..40)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for half in halves.iter_mut().step_by(2) {
            let _closed = half.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc]);
        }
        let page = get(address, "/metrics");
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
        for mut half in halves {
            half.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut byte = [0];
            assert!(!matches!(half.read(&mut byte), Ok(1)));
        }
        assert!(observed_now() - began < PATIENCE, "their time is a second");
    });
}

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_node_whose_metrics_are_to_be_https_does_not_start_without_certificates() {
    let builder = configured(&[("metrics-port", &["0"]), ("metrics-tls", &["yes"])]);
    let started = run(builder.ephemeral().start());
    let refused = started.err().unwrap().to_string();
    assert!(refused.contains("tls-cert-file names no file"), "{refused}");
    // Without the endpoint there is nothing to speak it with.
    serve(configured(&[("metrics-tls", &["yes"])]), |node| {
        assert_eq!(node.metrics_address(), None);
    });
}
