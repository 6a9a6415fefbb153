//! Connections to a member of etcd, on which the client's requests are carried out.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_gateway::Gateway;
use quorlock_gateway::etcd;
use tokio::time::timeout;

use super::connector::ProgramStream;
use super::stream::Stream;
use super::tcp::{self, Addresses};
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = None;

/// Connects to the first member that can be reached and has a majority, within this time.
pub(super) async fn connect(
    address: &NodeAddress,
    tls: Option<Tls>,
    deadline: Duration,
) -> io::Result<Stream> {
    let Endpoint::Etcd { members } = &address.endpoint else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let count = u32::try_from(members.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let patience = deadline / count;
    let mut reasons = Vec::new();
    for (host, port) in members {
        let connecting = member((host, *port), address.login(), tls.clone(), patience);
        let silent = || Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        match timeout(patience, connecting)
            .await
            .unwrap_or_else(|_| silent())
        {
            Ok(gateway) => {
                let stream = ProgramStream::new(gateway);
                return Ok(Stream::Program(address.to_string(), stream));
            }
            Err(error) => reasons.push(format!("{host}:{port}: {error}")),
        }
    }
    Err(io::Error::other(reasons.join("; ")))
}

async fn member(
    (host, port): (&str, u16),
    (user, password): (Option<&str>, Option<&str>),
    tls: Option<Tls>,
    patience: Duration,
) -> io::Result<Gateway> {
    let known = Addresses::default();
    let requests = tcp::connect(host, port, tls.clone(), &known, patience).await?;
    let watch = tcp::connect(host, port, tls, &known, patience).await?;
    etcd::connect(
        requests,
        watch,
        &format!("{host}:{port}"),
        user.zip(password),
    )
    .await
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Its kernel takes the connections, and nothing reads the login.
    #[tokio::test]
    async fn a_member_that_answers_no_login_is_given_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let member = listener.local_addr().expect("it is bound");
        let address = NodeAddress::parse(&format!("etcd://me:secret@{member}"));
        let address = address.expect("it is an address");
        let connecting = connect(&address, None, Duration::from_millis(50));
        let connected = timeout(Duration::from_secs(60), connecting).await;
        let connected = connected.expect("it takes no longer than it may");
        let error = connected.expect_err("nothing answers").to_string();
        assert!(error.ends_with("no answer in time"), "{error}");
    }
}
