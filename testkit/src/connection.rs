//! A blocking connection to a node, or to whatever else speaks RESP: bytes out, typed replies in, nothing retried.
//!
//! What is no RESP is an error. [`Wire`](crate::Wire) is the same for tests in which every error is a failure.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use socket2::Socket;

use crate::reply::Reply;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Socket>,
}

/// A request of these words, as clients send it.
pub fn request(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If the address cannot be resolved, or nothing listens there.
    pub fn open(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::open_within(address, REPLY_MAX)
    }

    /// The same; connecting, each write and each read fail where they take longer than `max`.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn open_within(address: impl ToSocketAddrs, max: Duration) -> io::Result<Self> {
        let address = address.to_socket_addrs()?.next();
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, max)?;
        stream.set_nodelay(true)?;
        Self::over(stream.into(), max)
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    ///
    /// If nothing listens there.
    pub fn open_unix(path: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(path)?.into(), REPLY_MAX)
    }

    fn over(socket: Socket, max: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(max))?;
        socket.set_write_timeout(Some(max))?;
        Ok(Self {
            stream: BufReader::new(socket),
        })
    }

    /// Sends bytes, whatever they are.
    ///
    /// # Errors
    ///
    /// If the connection is closed, or the other side does not take them in time.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request of these words, and reads one reply.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send) and [`reply`](Self::reply).
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(&request(words))?;
        self.reply()
    }

    /// Reads the next reply.
    ///
    /// # Errors
    ///
    /// If it does not come in time or whole, or what comes is no RESP.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let reply = self.reply_unless_closed()?;
        reply.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The same, and `None` if the connection was closed or reset in front of the reply.
    ///
    /// # Errors
    ///
    /// As for [`reply`](Self::reply).
    pub fn reply_unless_closed(&mut self) -> io::Result<Option<Reply>> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        let line = line.strip_suffix("\r\n").ok_or_else(|| no_resp(&line))?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| no_resp(line))?;
        let number = || rest.parse::<i64>().map_err(|_| no_resp(line));
        let length = || rest.parse::<usize>().map_err(|_| no_resp(line));
        let text = || rest.to_owned();
        Ok(Some(match kind {
            "+" => Reply::Status(text()),
            "-" => Reply::Error(text()),
            ":" => Reply::Integer(number()?),
            "," => Reply::Double(text()),
            "(" => Reply::BigNumber(text()),
            "#" if matches!(rest, "t" | "f") => Reply::Boolean(rest == "t"),
            "_" if rest.is_empty() => Reply::Null,
            "$" if rest == "-1" => Reply::Bulk(None),
            "*" if rest == "-1" => Reply::Array(None),
            "$" => Reply::Bulk(Some(self.string(length()?)?)),
            "=" => Reply::Verbatim(self.string(length()?)?),
            "*" => Reply::Array(Some(self.replies(length()?)?)),
            "~" => Reply::Set(self.replies(length()?)?),
            ">" => Reply::Push(self.replies(length()?)?),
            "%" => Reply::Map(self.replies(length()?.saturating_mul(2))?),
            _ => return Err(no_resp(line)),
        }))
    }

    /// Reads so many bytes, whatever they are.
    ///
    /// # Errors
    ///
    /// If they do not come in time, or the connection is closed before.
    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads all that comes until the other side closes.
    ///
    /// # Errors
    ///
    /// If nothing comes for too long, or the connection is reset.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// What has been received and not been read.
    pub fn buffered(&self) -> &[u8] {
        self.stream.buffer()
    }

    /// The socket, for what is no request and no reply.
    pub fn socket(&self) -> &Socket {
        self.stream.get_ref()
    }

    fn string(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.bytes(length.saturating_add(2))?;
        if !bytes.ends_with(b"\r\n") {
            return Err(no_resp(&String::from_utf8_lossy(&bytes)));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    fn replies(&mut self, count: usize) -> io::Result<Vec<Reply>> {
        (0..count).map(|_| self.reply()).collect()
    }
}

fn no_resp(text: &str) -> io::Error {
    let what = format!("not RESP: {text:?}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Longer than the slowest sync that a test injects, by far.
pub(crate) const REPLY_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    /// A connection whose other side has sent these bytes and closed.
    fn receiving(bytes: &[u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        other.write_all(bytes).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
        connection
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let bytes = b"+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n*0\r\n*-1\r\n_\r\n#t\r\n,1.5\r\n\
            (12\r\n=5\r\ntxt:a\r\n%1\r\n+k\r\n:1\r\n~1\r\n:2\r\n>1\r\n:3\r\n";
        let mut connection = receiving(bytes);
        let mut texts = Vec::new();
        while let Some(reply) = connection.reply_unless_closed().unwrap() {
            texts.push(reply.to_string());
        }
        let expected = [
            "+OK",
            "-ERR no",
            ":-7",
            "a\r\nb",
            "nil",
            "[[], nil array]",
            "_",
            "#t",
            ",1.5",
            "(12",
            "txt:a",
            "[+k, :1]",
            "[:2]",
            "[:3]",
        ];
        assert_eq!(texts, expected);
        let end = connection.reply().unwrap_err().kind();
        assert_eq!(end, io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_cut_or_no_reply_is_an_error() {
        let wrong: [&[u8]; 9] = [
            b"+OK",
            b"+OK\n",
            b"$3\r\nab",
            b"$1\r\nabc",
            b"*2\r\n:1\r\n",
            b":one\r\n",
            b"#x\r\n",
            b"hello\r\n",
            b"\r\n",
        ];
        for bytes in wrong {
            let reply = receiving(bytes).reply_unless_closed();
            assert!(reply.is_err(), "{}: {reply:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_request_has_the_lengths_of_its_words() {
        let words: [&[u8]; 3] = [b"SET", b"", b"a\r\nb"];
        assert_eq!(
            request(&words),
            b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"
        );
    }
}
