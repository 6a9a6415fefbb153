//! Who is the master, as a Sentinel says: <https://redis.io/docs/latest/develop/reference/sentinel-clients/>.

use redis_protocol::resp2::types::OwnedFrame;

use super::node_reply::{InfoText, NodeReplies, NodeReply};
use super::{meaning, request};

/// A question to a Sentinel, and its answer as it comes in.
#[derive(Debug)]
pub struct MasterQuestion {
    master: String,
    replies: NodeReplies,
}

impl MasterQuestion {
    /// Asks for the master of this name.
    pub fn ask(master: &str, out: &mut Vec<u8>) -> Self {
        let arguments = [
            b"SENTINEL".as_slice(),
            b"GET-MASTER-ADDR-BY-NAME",
            master.as_bytes(),
        ];
        request::write(out, &arguments);
        Self {
            master: master.to_owned(),
            replies: NodeReplies::new(REPLY_BYTES_MAX),
        }
    }

    /// Takes in what was read. None while more is to come.
    ///
    /// # Errors
    /// Why the answer names no master.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<(String, u16)>, String> {
        let read = self.replies.read(&mut bytes);
        let reply = read.map_err(|why| format!("protocol error: {why}"))?;
        reply.map(|reply| self.meaning(&reply)).transpose()
    }

    fn meaning(&self, reply: &NodeReply) -> Result<(String, u16), String> {
        let text = |reply: &NodeReply| String::from_utf8(reply.text()?.to_vec()).ok();
        match reply {
            NodeReply::Nil => Err(format!("it watches no master '{}'", self.master)),
            NodeReply::Error(error) => Err(format!("it says: {}", meaning::shown(error))),
            NodeReply::Array(parts) if let [host, port] = parts.as_slice() => {
                let port = text(port).and_then(|port| port.parse().ok());
                match text(host).zip(port) {
                    Some((host, port)) if is_host(&host) && port != 0 => Ok((host, port)),
                    _ => Err("its answer names no host and port".to_owned()),
                }
            }
            _ => Err("its answer names no host and port".to_owned()),
        }
    }
}

/// Whether a server is a master, by its reply to `INFO replication`. None where it does not say.
pub(crate) fn is_master(reply: &OwnedFrame) -> Option<bool> {
    let (OwnedFrame::BulkString(text) | OwnedFrame::SimpleString(text)) = reply else {
        return None;
    };
    Some(InfoText::new(text).field("role")? == "master")
}

fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= HOST_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// RFC 1035, and more than an IPv6 address takes.
const HOST_BYTES_MAX: usize = 255;
/// More than a host and a port take, and the error of a server.
const REPLY_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_names_the_master_or_says_why_it_does_not() {
        let answered = |bytes: &[u8]| {
            let mut out = Vec::new();
            let mut question = MasterQuestion::ask("m", &mut out);
            let asked = "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$1\r\nm\r\n";
            assert_eq!(out, asked.as_bytes());
            // Byte by byte, as a slow network brings it.
            let (last, first) = bytes.split_last().expect("an answer");
            for byte in first {
                assert_eq!(question.receive(&[*byte]), Ok(None));
            }
            question.receive(&[*last])
        };
        let master = Ok(Some(("db1".to_owned(), 6379)));
        assert_eq!(answered(b"*2\r\n$3\r\ndb1\r\n$4\r\n6379\r\n"), master);
        for (bytes, part) in [
            (&b"*-1\r\n"[..], "watches no master 'm'"),
            (b"$-1\r\n", "watches no master 'm'"),
            (b"-NOAUTH Authentication required.\r\n", "NOAUTH"),
            (b"*2\r\n$3\r\ndb1\r\n$5\r\n66379\r\n", "no host and port"),
            (b"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", "no host and port"),
            (b"*2\r\n$3\r\nd\x1b1\r\n$4\r\n6379\r\n", "no host and port"),
            (b"-A \x1b[31mb\r\n", "it says: A  [31mb"),
            (b":1\r\n", "no host and port"),
        ] {
            let error = answered(bytes).expect_err("no master");
            assert!(error.contains(part), "{error}");
        }
    }
}
