//! A plain RESP2 connection: requests out, replies in, nothing retried and nothing interpreted.
//!
//! Deliberately not the client of this project: what is checked must not be checked by itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The words of one command.
pub(crate) type Request = Vec<Vec<u8>>;

/// A reply as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a bulk reply; empty for anything else.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }
}

/// A connection to a node.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, REPLY_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        stream.set_write_timeout(Some(REPLY_MAX))?;
        Ok(Self {
            reader: BufReader::new(stream),
        })
    }

    /// Sends several requests in one write.
    pub(crate) fn send(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in requests {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.reader.get_mut().write_all(&bytes)
    }

    /// Reads the next reply.
    pub(crate) fn read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(malformed)?;
        let number = || rest.parse::<i64>().map_err(|_| malformed());
        match kind {
            "+" => Ok(Reply::Status(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" => self.bulk(number()?),
            "*" => {
                let count = usize::try_from(number()?).unwrap_or(0);
                let items = (0..count).map(|_| self.read());
                Ok(Reply::Array(items.collect::<io::Result<_>>()?))
            }
            _ => Err(malformed()),
        }
    }

    /// One command and its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.send(&[words])?;
        self.read()
    }

    fn bulk(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Bulk(None));
        };
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Bulk(Some(bytes)))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a reply that is not RESP")
}

/// Longer than the slowest sync that is injected, by far.
const REPLY_MAX: Duration = Duration::from_secs(30);
