//! A connection to PostgreSQL, on which the client's requests are carried out as statements.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_gateway::postgresql::{self, Login};
use tokio::net::UnixStream;

use super::connector::ProgramStream;
use super::stream::Stream;
use super::tcp::{self, Addresses};
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = None;

/// Connects and logs in, within this time and that of a handshake, which the rules bound.
pub(super) async fn connect(
    address: &NodeAddress,
    tls: Option<Tls>,
    known: &Addresses,
    deadline: Duration,
) -> io::Result<Stream> {
    let Endpoint::Postgresql {
        host,
        port,
        database,
        schema,
    } = &address.endpoint
    else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (user, password) = address.login();
    let login = Login {
        user: user.unwrap_or_default().to_owned(),
        password: password.map(str::to_owned),
        database: database.clone(),
        schema: schema.clone(),
    };
    let gateway = if host.starts_with('/') {
        let socket = UnixStream::connect(format!("{host}/.s.PGSQL.{port}")).await?;
        postgresql::connect(socket, &login).await?
    } else {
        let Stream::Tcp(socket) = tcp::connect(host, *port, None, known, deadline).await? else {
            unreachable!("TLS is not asked for")
        };
        match tls {
            None => postgresql::connect(socket, &login).await?,
            Some(tls) => {
                let host = host.clone();
                let handshake = move |socket| async move { tls.connect(&host, socket).await };
                postgresql::connect_with_tls(socket, handshake, &login).await?
            }
        }
    };
    Ok(Stream::Program(
        address.to_string(),
        ProgramStream::new(gateway),
    ))
}
