//! What one node says of a lock.
//!
//! Invariant: what is not understood is no sight, never a free lock.

use std::time::Duration;

use super::node_reply::NodeReply;
use super::question::Dialect;

/// A key on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// There is none under this name.
    Absent,
    /// It is a lock.
    Lock(LockSight),
    /// It is something else: a list, a set, or a value that is too long for a token.
    NoLock,
}

/// A lock on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSight {
    /// What kind of lock it is.
    pub kind: LockKind,
    /// Those who hold it on this node.
    pub holders: Vec<HolderSight>,
    /// How many more hold it on this node, whom it does not name.
    pub unshown: u64,
    /// How many clients stand in line for it on this node, where the node tells it.
    pub waiters: Option<u64>,
}

/// How a lock is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// A string, as `SET NX PX` and `LOCK.ACQUIRE` make it.
    String,
    /// A hash, as Redisson makes it.
    Hash,
    /// Readers of a lock that is held shared.
    Shared,
}

impl LockKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::Shared => "shared",
        }
    }
}

/// One who holds a lock, as a node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderSight {
    /// The token, or the field of a hash.
    pub token: Vec<u8>,
    /// The time left; none without a deadline.
    pub left: Option<Duration>,
    /// What the node remembers of it, nothing after a restart.
    pub about: About,
}

/// What a node remembers of a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Since when it holds the lock.
    pub held: Option<Duration>,
    /// How often the lock was extended.
    pub extensions: Option<u64>,
    /// What the holder says about itself.
    pub owner: Option<String>,
    /// The name of its connection.
    pub client_name: Option<String>,
    /// Where its connection comes from.
    pub client_address: Option<String>,
    /// Whether that connection is open.
    pub is_connected: Option<bool>,
    /// The library that the connection names.
    pub library: Option<String>,
    /// The fence that the node has taken for it.
    pub fence: Option<u64>,
}

impl Sight {
    /// Reads the reply to a look.
    ///
    /// # Errors
    /// The node's words, where it did not say.
    pub fn read(reply: &NodeReply, dialect: Dialect) -> Result<Self, String> {
        let sight = match (reply, dialect) {
            (NodeReply::Nil, _) => Some(Self::Absent),
            (NodeReply::Error(text), _) if text.starts_with("WRONGTYPE") => Some(Self::NoLock),
            (NodeReply::Array(_), Dialect::Quorlock) => facts(reply).map(Self::Lock),
            (NodeReply::Array(parts), Dialect::Redis) => returned(parts),
            _ => None,
        };
        sight.ok_or_else(|| reply.refusal())
    }
}

/// The reply of LOCK.INFO.
fn facts(reply: &NodeReply) -> Option<LockSight> {
    let left = deadline(reply.fact("ttl-ms")?)?;
    let mut about = about(reply);
    let (kind, holders) = match reply.fact("type")?.text()? {
        b"string" => {
            let token = reply.fact("token")?.text()?.to_vec();
            (LockKind::String, vec![HolderSight { token, left, about }])
        }
        b"hash" => {
            about.fence = None;
            let fields = reply.fact("token")?.parts()?;
            (LockKind::Hash, of_fields(fields, left, &about)?)
        }
        _ => {
            let holders = reply.fact("holders")?.parts()?.iter();
            (
                LockKind::Shared,
                holders.map(reader).collect::<Option<_>>()?,
            )
        }
    };
    let count = |name| reply.fact(name).and_then(NodeReply::count);
    let all = count("holder-count").unwrap_or(0);
    Some(LockSight {
        kind,
        unshown: all.saturating_sub(holders.len() as u64),
        holders,
        waiters: count("waiters"),
    })
}

/// What the script for other servers returns.
fn returned(parts: &[NodeReply]) -> Option<Sight> {
    let [kind, left, rest @ ..] = parts else {
        return None;
    };
    let left = deadline(left)?;
    let about = About::default();
    let (kind, holders) = match (kind.text()?, rest) {
        (b"string", [token]) => {
            let token = token.text()?.to_vec();
            (LockKind::String, vec![HolderSight { token, left, about }])
        }
        (b"hash", [fields]) => (LockKind::Hash, of_fields(fields.parts()?, left, &about)?),
        _ => return Some(Sight::NoLock),
    };
    Some(Sight::Lock(LockSight {
        kind,
        holders,
        unshown: 0,
        waiters: None,
    }))
}

/// Each field is one who holds it; one of Redisson's read-write lock says which of the two it is.
fn of_fields(
    fields: &[NodeReply],
    left: Option<Duration>,
    about: &About,
) -> Option<Vec<HolderSight>> {
    let tokens = fields.chunks_exact(2).map(|pair| pair[0].text());
    let tokens: Vec<&[u8]> = tokens.collect::<Option<_>>()?;
    let holders = tokens.into_iter().filter(|token| *token != MODE);
    let holder = |token: &[u8]| HolderSight {
        token: token.to_vec(),
        left,
        about: about.clone(),
    };
    Some(holders.map(holder).collect())
}

fn reader(reply: &NodeReply) -> Option<HolderSight> {
    Some(HolderSight {
        token: reply.fact("token")?.text()?.to_vec(),
        left: deadline(reply.fact("ttl-ms")?)?,
        about: about(reply),
    })
}

fn about(reply: &NodeReply) -> About {
    let text = |name| {
        let bytes = reply.fact(name).and_then(NodeReply::text);
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let count = |name| reply.fact(name).and_then(NodeReply::count);
    About {
        held: count("held-ms").map(Duration::from_millis),
        extensions: count("extensions"),
        owner: text("owner"),
        client_name: text("client-name"),
        client_address: text("client-address"),
        is_connected: count("client-connected").map(|flag| flag != 0),
        library: text("library-name"),
        fence: count("fence"),
    }
}

/// None is a key that stays.
fn deadline(left_ms: &NodeReply) -> Option<Option<Duration>> {
    match left_ms {
        NodeReply::Integer(-1) => Some(None),
        NodeReply::Integer(_) => left_ms.count().map(|ms| Some(Duration::from_millis(ms))),
        _ => None,
    }
}

/// The field of Redisson's read-write lock that is no holder.
const MODE: &[u8] = b"mode";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> NodeReply {
        NodeReply::Text(text.as_bytes().to_vec())
    }

    fn pairs(pairs: &[(&str, NodeReply)]) -> NodeReply {
        let parts = pairs.iter();
        let parts = parts.flat_map(|(name, value)| [text(name), value.clone()]);
        NodeReply::Array(parts.collect())
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn a_node_of_quorlock_says_who_holds_a_lock_of_each_kind() {
        let number = NodeReply::Integer;
        let string = pairs(&[
            ("type", text("string")),
            ("token", text("t")),
            ("ttl-ms", number(28_000)),
            ("held-ms", number(2_000)),
            ("owner", text("rack 4")),
            ("client-name", NodeReply::Nil),
            ("fence", number(42)),
        ]);
        let Ok(Sight::Lock(lock)) = Sight::read(&string, Dialect::Quorlock) else {
            panic!("it is a lock")
        };
        assert_eq!(lock.kind, LockKind::String);
        let [holder] = &lock.holders[..] else {
            panic!("one holds it")
        };
        assert_eq!((&holder.token[..], holder.left), (&b"t"[..], seconds(28)));
        assert_eq!(holder.about.held, seconds(2));
        assert_eq!(holder.about.owner.as_deref(), Some("rack 4"));
        assert_eq!(
            (&holder.about.client_name, holder.about.fence),
            (&None, Some(42))
        );

        let fields = pairs(&[("mode", text("write")), ("c:1", text("2"))]);
        let hash = pairs(&[
            ("type", text("hash")),
            ("token", fields),
            ("ttl-ms", number(-1)),
        ]);
        let Ok(Sight::Lock(lock)) = Sight::read(&hash, Dialect::Quorlock) else {
            panic!("it is a lock")
        };
        let holders: Vec<_> = lock
            .holders
            .iter()
            .map(|one| (&one.token[..], one.left))
            .collect();
        assert_eq!(
            (lock.kind, holders),
            (LockKind::Hash, vec![(&b"c:1"[..], None)])
        );

        let reader = |token| pairs(&[("token", text(token)), ("ttl-ms", number(1_000))]);
        let readers = NodeReply::Array(vec![reader("a"), reader("b")]);
        let shared = pairs(&[
            ("type", text("quorlock-shared-lock")),
            ("ttl-ms", number(1_000)),
            ("holders", readers),
            ("holder-count", number(1_500)),
        ]);
        let Ok(Sight::Lock(lock)) = Sight::read(&shared, Dialect::Quorlock) else {
            panic!("it is a lock")
        };
        assert_eq!(lock.unshown, 1_498);
        assert_eq!((lock.kind, lock.holders.len()), (LockKind::Shared, 2));
    }

    #[test]
    fn redis_says_it_by_a_script() {
        let number = NodeReply::Integer;
        let read = |parts: Vec<NodeReply>| Sight::read(&NodeReply::Array(parts), Dialect::Redis);
        let string = read(vec![text("string"), number(5_000), text("t")]);
        assert!(matches!(string, Ok(Sight::Lock(lock)) if lock.holders[0].left == seconds(5)));
        let fields = NodeReply::Array(vec![text("c:1"), text("1")]);
        let hash = read(vec![text("hash"), number(-1), fields]);
        assert!(matches!(hash, Ok(Sight::Lock(lock)) if lock.holders[0].token == b"c:1"));
        assert_eq!(read(vec![text("other"), number(-1)]), Ok(Sight::NoLock));
        assert_eq!(read(vec![text("list"), number(-1)]), Ok(Sight::NoLock));
    }

    #[test]
    fn what_is_not_understood_is_no_free_lock() {
        let error = |text: &str| NodeReply::Error(text.to_owned());
        for dialect in [Dialect::Quorlock, Dialect::Redis] {
            assert_eq!(Sight::read(&NodeReply::Nil, dialect), Ok(Sight::Absent));
            let other = error("WRONGTYPE this key is no lock");
            assert_eq!(Sight::read(&other, dialect), Ok(Sight::NoLock));
            for odd in [
                NodeReply::Array(vec![]),
                NodeReply::Integer(1),
                text("t"),
                error("RESTARTDELAY 5 s left"),
                pairs(&[("type", text("string")), ("ttl-ms", NodeReply::Integer(5))]),
                NodeReply::Array(vec![text("string"), NodeReply::Integer(-7), text("t")]),
            ] {
                assert!(Sight::read(&odd, dialect).is_err(), "{odd:?}");
            }
        }
    }
}
