//! Which server has which hash slot, as the cluster says, and where a server sends a request instead.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use quorlock_client_rules::inspection::node_reply::NodeReply;

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) host: Rc<str>,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = Rc::from(host);
        Self { host, port }
    }

    /// A server as another one names it: one that does not know a host means its own.
    fn named(host: &str, port: u16, by: &Self) -> Option<Self> {
        match host {
            "?" => None,
            "" => Some(Self::new(&by.host, port)),
            host => Some(Self::new(host, port)),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(formatter, "[{host}]:{port}"),
            false => write!(formatter, "{host}:{port}"),
        }
    }
}

/// The master of each slot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    ranges: Vec<(RangeInclusive<u16>, Server)>,
    /// Those of which a server has said since that another one has them.
    moved: HashMap<u16, Server>,
    /// The ids of the masters and of their replicas.
    ids: HashSet<Vec<u8>>,
}

impl Slots {
    /// Reads the reply to CLUSTER SLOTS of this server.
    ///
    /// # Errors
    /// Its words, where it does not tell.
    pub(super) fn read(reply: &NodeReply, by: &Server) -> Result<Self, String> {
        let rows = match reply {
            NodeReply::Array(rows) => rows,
            NodeReply::Error(text) => return Err(text.clone()),
            _ => return Err("ERR it does not tell its slots".to_owned()),
        };
        let range = |row: &NodeReply| {
            let [first, last, master, ..] = row.parts()? else {
                return None;
            };
            let [host, port, ..] = master.parts()? else {
                return None;
            };
            let number = |reply: &NodeReply| u16::try_from(reply.count()?).ok();
            let host = std::str::from_utf8(host.text().unwrap_or_default()).ok()?;
            let master = Server::named(host, number(port)?, by)?;
            Some((number(first)?..=number(last)?, master))
        };
        let servers = rows
            .iter()
            .filter_map(|row| row.parts()?.get(2..))
            .flatten();
        let ids = servers.filter_map(|server| server.parts()?.get(2)?.text());
        Ok(Self {
            ranges: rows.iter().filter_map(range).collect(),
            moved: HashMap::new(),
            ids: ids.map(<[u8]>::to_vec).collect(),
        })
    }

    /// The ids of the masters and of their replicas.
    pub(super) fn ids(&self) -> &HashSet<Vec<u8>> {
        &self.ids
    }

    /// The master of this slot.
    pub(super) fn master(&self, slot: u16) -> Option<&Server> {
        let of_range = |(range, master)| -> Option<&Server> {
            let range: &RangeInclusive<u16> = range;
            range.contains(&slot).then_some(master)
        };
        let mut ranges = self.ranges.iter().map(|(range, master)| (range, master));
        let moved = self.moved.get(&slot);
        moved.or_else(|| ranges.find_map(of_range))
    }

    /// This slot has another master.
    pub(super) fn move_to(&mut self, slot: u16, master: Server) {
        self.moved.insert(slot, master);
    }

    /// All masters.
    pub(super) fn masters(&self) -> Vec<Server> {
        let mut masters: Vec<Server> = Vec::new();
        let all = self.ranges.iter().map(|(_, master)| master);
        for master in all.chain(self.moved.values()) {
            if !masters.contains(master) {
                masters.push(master.clone());
            }
        }
        masters
    }
}

/// What a server says instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another one has the slot.
    Moved(Server),
    /// Another one is getting the slot, and has this name already or gets it first.
    Ask(Server),
    /// Some of the names are on another one already.
    TryAgain,
}

impl Redirect {
    /// What this reply of a server says of it, if it does.
    pub(super) fn of(reply: &NodeReply, by: &Server) -> Option<Self> {
        let NodeReply::Error(text) = reply else {
            return None;
        };
        let mut words = text.split(' ');
        let code = words.next()?;
        if code == "TRYAGAIN" {
            return Some(Self::TryAgain);
        }
        let (host, port) = words.nth(1)?.rsplit_once(':')?;
        let server = Server::named(host, port.parse().ok()?, by)?;
        match code {
            "MOVED" => Some(Self::Moved(server)),
            "ASK" => Some(Self::Ask(server)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> NodeReply {
        NodeReply::Text(text.as_bytes().to_vec())
    }

    fn row(first: i64, last: i64, host: NodeReply, port: i64) -> NodeReply {
        let server = |host: NodeReply, port| {
            let id = [b"id of ", host.text().unwrap_or_default()].concat();
            let metadata = NodeReply::Array(Vec::new());
            let port = NodeReply::Integer(port);
            NodeReply::Array(vec![host, port, NodeReply::Text(id), metadata])
        };
        let ends = [NodeReply::Integer(first), NodeReply::Integer(last)];
        let servers = [server(host, port), server(text("replica"), 9)];
        NodeReply::Array(ends.into_iter().chain(servers).collect())
    }

    #[test]
    fn the_master_of_a_slot_is_the_one_that_was_named_last() {
        let asked = Server::new("seed", 7000);
        let rows = vec![
            row(0, 99, text("10.0.0.1"), 7001),
            row(100, 200, text("::1"), 7002),
            row(201, 201, text(""), 7003),
            row(202, 202, NodeReply::Nil, 7004),
            row(203, 203, text("?"), 7005),
            NodeReply::Nil,
        ];
        let mut slots = Slots::read(&NodeReply::Array(rows), &asked).expect("it tells them");
        let shown = |slots: &Slots, slot| slots.master(slot).map(ToString::to_string);
        for (slot, master) in [
            (0, Some("10.0.0.1:7001")),
            (99, Some("10.0.0.1:7001")),
            (100, Some("[::1]:7002")),
            (201, Some("seed:7003")),
            (202, Some("seed:7004")),
            (203, None),
            (16_383, None),
        ] {
            assert_eq!(shown(&slots, slot).as_deref(), master, "{slot}");
        }
        slots.move_to(99, Server::new("other", 1));
        assert_eq!(shown(&slots, 99).as_deref(), Some("other:1"));
        assert_eq!(slots.masters().len(), 5);
        let ids = [
            &b"id of 10.0.0.1"[..],
            b"id of ::1",
            b"id of ",
            b"id of ?",
            b"id of replica",
        ];
        assert_eq!(slots.ids(), &HashSet::from(ids.map(<[u8]>::to_vec)));
        let error = NodeReply::Error("NOAUTH who?".to_owned());
        assert_eq!(Slots::read(&error, &asked), Err("NOAUTH who?".to_owned()));
        assert!(Slots::read(&NodeReply::Nil, &asked).is_err());
    }

    #[test]
    fn a_server_says_where_to_ask_instead() {
        let by = Server::new("10.0.0.1", 7001);
        let of = |text: &str| Redirect::of(&NodeReply::Error(text.to_owned()), &by);
        let there = Server::new("10.0.0.2", 7002);
        assert_eq!(
            of("MOVED 3999 10.0.0.2:7002"),
            Some(Redirect::Moved(there.clone()))
        );
        assert_eq!(of("ASK 3999 10.0.0.2:7002"), Some(Redirect::Ask(there)));
        let there = Server::new("10.0.0.1", 7002);
        assert_eq!(of("MOVED 3999 :7002"), Some(Redirect::Moved(there)));
        let there = Server::new("::1", 7002);
        assert_eq!(of("MOVED 3999 ::1:7002"), Some(Redirect::Moved(there)));
        let again = "TRYAGAIN Multiple keys request during rehashing of slot";
        assert_eq!(of(again), Some(Redirect::TryAgain));
        for other in [
            "MOVED",
            "MOVED 1",
            "MOVED 1 ?:7002",
            "MOVED 1 a:x",
            "ERR 1 a:7",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(Redirect::of(&text("MOVED 1 a:1"), &by), None);
    }
}
