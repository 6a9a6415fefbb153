//! A port that stays free for a program that is started on it, stopped and started again.
//!
//! While nobody listens on a port the system may give it to a connection of any process: the program cannot listen on it then, and one
//! that connects to the port may even get a connection with itself, which sends its requests back to it as replies.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1 that the system gives to nobody who names none. A program that names it listens on it.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// Bound, and never listening: so the port is taken for whoever wants any, and connections to it are refused. Programs that listen may share it, since they
    /// allow addresses to be used again, as all servers do.
    _socket: Socket,
}

impl ReservedPort {
    /// A port nobody uses now.
    ///
    /// # Errors
    ///
    /// If the system has none.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?.as_socket();
        let number = address.map_or(0, |address: SocketAddr| address.port());
        Ok(Self {
            number,
            _socket: socket,
        })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::waiting::eventually;

    #[test]
    fn a_program_listens_on_it_again_and_again_and_nobody_else_gets_it() {
        let port = ReservedPort::new().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        // They allow the address to be used again, as those of the standard library do.
        for _ in 0..3 {
            // A process that another test is starting has a copy of the listener until its program begins.
            eventually("nobody listens", || TcpStream::connect(address).is_err());
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(address).unwrap();
            drop((listener.accept().unwrap(), client));
        }
        // As one that connects from it would.
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let address = SocketAddr::from(address);
        assert!(other.bind(&address.into()).is_err());
    }
}
