//! Where a node listens, and what it takes from the system.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;

use super::*;

fn config(directives: &[(&str, &[&str])]) -> Config {
    let mut config = Config::default();
    for (name, words) in directives {
        config.set(name, words).unwrap();
    }
    config
}

#[test]
fn two_nodes_and_two_runs_share_no_random_bytes() {
    let mut bytes = [[0; 20]; 2];
    for bytes in &mut bytes {
        system_random(bytes).unwrap();
    }
    assert_ne!(bytes[0], bytes[1]);
}

#[test]
fn an_address_that_is_missing_may_be_optional_and_one_that_is_taken_may_not() {
    let missing = "192.0.2.1";
    let port = |listeners: &[TcpListener]| listeners[0].local_addr().unwrap().port();
    let bound = bind(&config(&[
        ("bind", &["127.0.0.1", "127.0.0.2"]),
        ("port", &["0"]),
    ]))
    .unwrap();
    assert_eq!(bound.len(), 2);
    assert_eq!(port(&bound[..1]), port(&bound[1..]), "one port for all");
    let optional = format!("-{missing}");
    let set = |addresses: &[&str], port: u16| {
        config(&[("bind", addresses), ("port", &[&port.to_string()])])
    };
    assert_eq!(bind(&set(&["127.0.0.1", &optional], 0)).unwrap().len(), 1);
    assert!(matches!(
        bind(&set(&["127.0.0.1", missing], 0)),
        Err(StartError::Bind { .. })
    ));
    assert!(matches!(
        bind(&set(&[&optional], 0)),
        Err(StartError::NoAddress)
    ));
    let taken = set(&["-127.0.0.1"], port(&bound));
    assert!(matches!(bind(&taken), Err(StartError::Bind { .. })));
}

#[test]
fn a_node_knows_its_port() {
    let local = [TcpListener::bind("127.0.0.1:0").unwrap()];
    assert_eq!(reach(&local).port, local[0].local_addr().unwrap().port());
    assert_eq!(reach(&[]).port, 0);
}
