//! Connections to a port of a host: names, addresses, options.
//!
//! Invariant: the addresses of a name are tried one after the other, never at once, and the one
//! that answered last is tried first: an entry of the list is one node. One that accepts and does
//! not answer is tried again after all others.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::redis_cluster::KnownServers;
use super::stream::Stream;
use super::tls::Tls;

/// What is known of the addresses of a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    known: Rc<RefCell<Known>>,
    /// The servers of a Redis Cluster to which they lead.
    pub(super) cluster: KnownServers,
}

#[derive(Debug, Default)]
struct Known {
    /// The one that answered last.
    answered: Option<SocketAddr>,
    /// Those that have accepted a connection since and did not answer on it, the latest one last.
    silent: Vec<SocketAddr>,
}

impl Addresses {
    pub(super) fn answered(&self, address: SocketAddr) {
        let mut known = self.known.borrow_mut();
        known.answered = Some(address);
        known.silent.retain(|silent| *silent != address);
    }

    pub(super) fn silent(&self, address: SocketAddr) {
        let mut known = self.known.borrow_mut();
        known.silent.retain(|silent| *silent != address);
        known.silent.push(address);
    }

    /// The one that answered last first, the silent ones last, and the others as the resolver has sorted them.
    pub(super) fn in_order(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        addresses.dedup();
        let mut known = self.known.borrow_mut();
        known.silent.retain(|silent| addresses.contains(silent));
        let rank = |address: &SocketAddr| {
            let silent = known.silent.iter().position(|silent| silent == address);
            match silent {
                Some(place) => 2 + place,
                None => usize::from(known.answered != Some(*address)),
            }
        };
        addresses.sort_by_key(rank);
        addresses
    }
}

/// Connects to a port of a host within this time, of which a handshake is no part.
pub(super) async fn connect(
    host: &str,
    port: u16,
    tls: Option<Tls>,
    known: &Addresses,
    deadline: Duration,
) -> io::Result<Stream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let addresses = known.in_order(addresses);
    // All within the deadline, and none of them takes the others' time.
    let count = u32::try_from(addresses.len().max(1)).expect("a reply of 64 KiB names few");
    let share = deadline / count;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream)?;
                return match tls {
                    None => Ok(Stream::Tcp(stream)),
                    // The rules end a handshake that takes too long.
                    Some(tls) => {
                        let stream = tls.connect(host, stream).await?;
                        Ok(Stream::Tls(Box::new(stream)))
                    }
                };
            }
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(io::ErrorKind::TimedOut, "no connection in time"),
        }
    }
    Err(failed)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(())
}

const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_answered_is_tried_first() {
        let addresses: Vec<SocketAddr> = (1..4).map(|n| ([127, 0, 0, n], 7001).into()).collect();
        let known = Addresses::default();
        let of = |chosen: usize| {
            let other = ([127, 0, 0, 9], 7001).into();
            known.answered(addresses.get(chosen).copied().unwrap_or(other));
            let order = known.in_order(addresses.clone());
            order
                .iter()
                .map(|a| addresses.iter().position(|b| a == b))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(2), [Some(2), Some(0), Some(1)]);
        assert_eq!(of(0), [Some(0), Some(1), Some(2)]);
        // One that the name no longer has is not tried.
        assert_eq!(of(9), [Some(0), Some(1), Some(2)]);
        // Those that accept and stay silent come last, also where one has answered before.
        assert_eq!(of(0), [Some(0), Some(1), Some(2)]);
        known.silent(addresses[0]);
        known.silent(addresses[1]);
        assert_eq!(known.in_order(addresses.clone())[0], addresses[2]);
        known.silent(addresses[2]);
        assert_eq!(known.in_order(addresses.clone())[0], addresses[0]);
        known.answered(addresses[1]);
        assert_eq!(known.in_order(addresses.clone())[0], addresses[1]);
    }

    #[tokio::test]
    async fn the_interface_of_a_link_local_address_is_found_by_its_name() {
        // The loopback's is the first of every machine.
        for host in ["fe80::1%lo", "fe80::1%1"] {
            let found: Vec<_> = lookup_host((host, 7001)).await.unwrap().collect();
            let [SocketAddr::V6(address)] = found[..] else {
                panic!("{found:?}")
            };
            assert_eq!(address.scope_id(), 1, "{host}");
        }
    }
}
