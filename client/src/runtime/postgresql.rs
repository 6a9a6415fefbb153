//! A connection to PostgreSQL, on which the client's requests are carried out as statements.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_gateway::Gateway;
use quorlock_gateway::postgresql::{self, Login};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::connector::ProgramStream;
use super::stream::Stream;
use super::tcp::{self, Addresses};
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = None;

/// Connects, speaks TLS and logs in, all within this time.
pub(super) async fn connect(
    address: &NodeAddress,
    tls: Option<Tls>,
    known: &Addresses,
    deadline: Duration,
) -> io::Result<Stream> {
    let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let gateway = timeout(deadline, log_in(address, tls, known, deadline))
        .await
        .map_err(silent)??;
    let stream = ProgramStream::new(gateway);
    Ok(Stream::Program(address.to_string(), stream))
}

async fn log_in(
    address: &NodeAddress,
    tls: Option<Tls>,
    known: &Addresses,
    deadline: Duration,
) -> io::Result<Gateway> {
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
    if host.starts_with('/') {
        let socket = UnixStream::connect(format!("{host}/.s.PGSQL.{port}")).await?;
        return postgresql::connect(socket, &login).await;
    }
    let Stream::Tcp(socket) = tcp::connect(host, *port, None, known, deadline).await? else {
        unreachable!("TLS is not asked for")
    };
    match tls {
        None => postgresql::connect(socket, &login).await,
        Some(tls) => {
            let host = host.clone();
            let handshake = move |socket| async move { tls.connect(&host, socket).await };
            postgresql::connect_with_tls(socket, handshake, &login).await
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    /// Why there is no connection, which may take no longer than it is given.
    pub(in crate::runtime) async fn refusal(address: &str, tls: Option<Tls>) -> String {
        let address = NodeAddress::parse(address).expect("it is an address");
        let known = Addresses::default();
        let connecting = connect(&address, tls, &known, Duration::from_millis(50));
        let connected = timeout(Duration::from_secs(60), connecting).await;
        let connected = connected.expect("it takes no longer than it may");
        connected.expect_err("nothing answers").to_string()
    }

    /// Its kernel takes the connections, and nothing reads the login.
    #[tokio::test]
    async fn a_server_that_answers_no_login_is_given_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let server = listener.local_addr().expect("it is bound");
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join(".s.PGSQL.5432");
        let _socket = UnixListener::bind(path).expect("the directory is empty");
        let directory = directory.path().display();
        for address in [
            format!("postgresql://me:secret@{server}/locks"),
            format!("postgresql://me@/locks?host={directory}"),
        ] {
            assert_eq!(refusal(&address, None).await, "no answer in time");
        }
    }
}
