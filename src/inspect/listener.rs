//! What listens where `quorlock agent --check` looks for an agent: an agent says in INFO that it is one, and how it does. What a lock
//! library is answered there.
//!
//! Whatever does not answer INFO is checked all the same, which says what is wrong.

use std::time::Duration;

use quorlock_client::{TlsOptions, Token};
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::inspection::node_reply::{InfoText, NodeReply};
use tokio::time::timeout;

use super::node_link::NodeLink;

/// What something that listens has said of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// An agent.
    Agent {
        /// Why it is not ready although enough nodes vote, if so.
        not_ready: Option<String>,
        /// What is wrong with its list of nodes, if something is.
        warning: Option<String>,
    },
    /// A node, or another server that keeps keys, in words.
    Node(&'static str),
}

impl Listener {
    /// Asks who listens under this address. None if that is not known.
    pub(crate) async fn look(url: &str, tls: TlsOptions) -> Option<Self> {
        let reply = timeout(PATIENCE, ask(url, tls, &[b"INFO"])).await.ok()?;
        Self::of(&InfoText::new(reply.ok()?.text()?))
    }

    fn of(info: &InfoText<'_>) -> Option<Self> {
        let number = |name| info.number::<usize>(name);
        match info.field("agent_ready") {
            Some(ready) => {
                let has_votes = number("agent_nodes_voting") >= number("agent_nodes_needed");
                let is_refused = ready != "1" && has_votes;
                let reason = info.field("agent_not_ready_reason").filter(|_| is_refused);
                Some(Self::Agent {
                    not_ready: reason.map(str::to_owned),
                    warning: info.field("agent_warning").map(str::to_owned),
                })
            }
            None if info.field("quorlock_node_id").is_some() => Some(Self::Node("a Quorlock node")),
            None => info
                .field("run_id")
                .map(|_| Self::Node("a server of Redis or another one like it")),
        }
    }
}

/// Tries to take a lock as a lock library does, and waits for the answer also where an agent holds a try back. Whether it was taken.
///
/// # Errors
/// Why there is no answer, or what is answered besides.
pub(crate) async fn try_lock(
    url: &str,
    tls: TlsOptions,
    name: &str,
    ttl: Duration,
) -> Result<bool, String> {
    let token = Token::fresh();
    let ttl_ms = ttl.as_millis().to_string();
    let words: [&[u8]; 6] = [
        b"SET",
        name.as_bytes(),
        token.as_bytes(),
        b"NX",
        b"PX",
        ttl_ms.as_bytes(),
    ];
    match ask(url, tls, &words).await? {
        NodeReply::Nil => Ok(false),
        NodeReply::Text(_) => Ok(true),
        NodeReply::Error(text) => Err(text),
        other => Err(other.refusal()),
    }
}

async fn ask(url: &str, tls: TlsOptions, words: &[&[u8]]) -> Result<NodeReply, String> {
    let address = NodeAddress::parse(url).map_err(|error| error.to_string())?;
    NodeLink::ask_once(&address, tls, words, PATIENCE).await
}

/// Longer than an agent holds a try back.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_from_a_node_by_its_info() {
        let agent = |not_ready: Option<&str>, warning: Option<&str>| {
            Some(Listener::Agent {
                not_ready: not_ready.map(str::to_owned),
                warning: warning.map(str::to_owned),
            })
        };
        let node = |words| Some(Listener::Node(words));
        for (info, listener) in [
            ("agent_ready:1\r\nagent_warning:\r\n", agent(None, None)),
            (
                "agent_ready:1\r\nagent_warning:two clusters\r\n",
                agent(None, Some("two clusters")),
            ),
            (
                "agent_ready:0\r\nagent_not_ready_reason:two clusters\r\nagent_nodes_needed:2\r\nagent_nodes_voting:2\r\n",
                agent(Some("two clusters"), None),
            ),
            // That too few vote is said by the lock that is not granted.
            (
                "agent_ready:0\r\nagent_not_ready_reason:one\r\nagent_nodes_needed:2\r\nagent_nodes_voting:1\r\n",
                agent(None, None),
            ),
            (
                "run_id:1\r\nquorlock_node_id:1\r\n",
                node("a Quorlock node"),
            ),
            (
                "redis_version:7\r\nrun_id:1\r\n",
                node("a server of Redis or another one like it"),
            ),
            ("something else", None),
        ] {
            let text = InfoText::new(info.as_bytes());
            assert_eq!(Listener::of(&text), listener, "{info}");
        }
    }
}
