//! Ports for nodes that start more than once.

use std::io;
use std::net::TcpListener;

use rand::RngExt as _;

/// So many ports of this machine that nobody uses now, no two alike. They lie below those that the kernel gives to
/// outgoing connections, so that none of these takes the port of a node while it is down; where none is free there, any
/// are taken. Another program may take one before the node does; the node then ends with a word about it.
pub(crate) fn free(count: usize) -> io::Result<Vec<u16>> {
    let mut random = rand::rng();
    // Held until all are chosen.
    let mut listeners = Vec::new();
    for _ in 0..TRIES {
        if listeners.len() == count {
            break;
        }
        let port = random.random_range(PORTS);
        listeners.extend(TcpListener::bind(("127.0.0.1", port)).ok());
    }
    while listeners.len() < count {
        listeners.push(TcpListener::bind(("127.0.0.1", 0))?);
    }
    let ports = listeners.iter().map(|listener| listener.local_addr());
    ports.map(|address| Ok(address?.port())).collect()
}

/// Below the range of Linux for outgoing connections, which begins with 32768.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
const TRIES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ports_are_alike() {
        let mut ports = free(200).expect("there are so many");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 200);
    }
}
