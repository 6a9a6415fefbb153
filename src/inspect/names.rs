//! The names of the locks that nodes have, each once.
//!
//! Bounded in memory: as many names are kept as are to be shown, and their bytes up to a limit. That there are more is said. Bounded in time:
//! a node whose list does not end is read for a while, and named.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::page_walk::{PageStep, PageWalk};
use quorlock_client_rules::inspection::question::{self, Dialect};
use quorlock_client_rules::inspection::sight::Sight;
use tokio::time::timeout;

use super::nodes::{AskedNode, Nodes};
use crate::clock;
use crate::runtime::all_of;

/// What to look for.
pub(super) struct Wanted<'a> {
    /// As in `KEYS`.
    pub(super) pattern: &'a [u8],
    /// Whether keys without a deadline count.
    pub(super) is_all: bool,
    /// How many names are kept at most.
    pub(super) count_max: usize,
    /// After this time no further page of a node is asked for.
    pub(super) patience: Duration,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// In the order of their bytes.
    pub(super) names: BTreeSet<Vec<u8>>,
    /// Whether there are more.
    pub(super) is_cut: bool,
    /// The nodes whose lists were not read to their ends.
    pub(super) unfinished: Vec<UnfinishedList>,
    /// How many keys without a ttl a node has that may be locks and were not wanted. Those of a Quorlock node are of any name.
    pub(super) without_ttl: u64,
    bytes: usize,
}

/// A list of which something may be missing.
pub(super) struct UnfinishedList {
    /// The address of its node.
    pub(super) label: String,
    pub(super) why: String,
}

impl Found {
    /// Whether each node that answers has named all of its locks.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_cut && self.unfinished.is_empty()
    }

    fn add(&mut self, name: Vec<u8>, count_max: usize) {
        let bytes = self.bytes.saturating_add(name.len());
        if self.names.contains(&name) {
            return;
        }
        if self.names.len() == count_max || bytes > NAMES_BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.bytes = bytes;
        self.names.insert(name);
    }

    /// The nodes have mostly the same ones.
    fn note_without_ttl(&mut self, of_node: u64) {
        self.without_ttl = self.without_ttl.max(of_node);
    }
}

/// Asks all nodes for the names of their locks, page by page. A node that fails is one that does not answer from then on.
pub(super) async fn find(nodes: &mut Nodes, wanted: &Wanted<'_>) -> Found {
    let found = RefCell::new(Found::default());
    let (pattern, prefix) = nodes.full_pattern(wanted.pattern);
    let on_nodes = Wanted {
        pattern: &pattern,
        ..*wanted
    };
    let pages = nodes.all.iter_mut().map(async |node| {
        let Ok(asked) = &mut node.asked else { return };
        if !wanted.is_all {
            let without_ttl = asked.facts.locks_without_ttl.unwrap_or(0);
            found.borrow_mut().note_without_ttl(without_ttl);
        }
        match asked.read_pages(&on_nodes, prefix, &found).await {
            Ok(PageStep::Unfinished(why)) => {
                let label = node.label.clone();
                let list = UnfinishedList { label, why };
                found.borrow_mut().unfinished.push(list);
            }
            Ok(_) => {}
            Err(why) => node.asked = Err(why),
        }
    });
    all_of(pages).await;
    found.into_inner()
}

impl AskedNode {
    /// Reads its list to the end, or as far as it is to be read.
    async fn read_pages(
        &mut self,
        wanted: &Wanted<'_>,
        prefix: usize,
        found: &RefCell<Found>,
    ) -> Result<PageStep, String> {
        let mut without_ttl = 0;
        let mut walk = PageWalk::start(wanted.patience);
        let begun = clock::now();
        loop {
            let page = self.read_page(wanted, walk.cursor());
            let page = match timeout(wanted.patience.max(PAGE_PATIENCE), page).await {
                Ok(page) => page?,
                Err(_) => return Err(self.link.fail(PAGE_TOO_LATE.to_owned())),
            };
            without_ttl += page.without_ttl;
            let mut found = found.borrow_mut();
            found.note_without_ttl(without_ttl);
            for name in page.names {
                // A node says only names that it was asked for, unless it says anything.
                if let Some(said) = name.get(prefix..).filter(|said| !said.is_empty()) {
                    found.add(said.to_vec(), wanted.count_max);
                }
            }
            match walk.read(&page.next, clock::now().saturating_sub(begun)) {
                // More than is wanted was found: the rest is of no use.
                PageStep::Next if found.is_cut => return Ok(PageStep::Whole),
                PageStep::Next => {}
                ended => return Ok(ended),
            }
        }
    }

    async fn read_page(&mut self, wanted: &Wanted<'_>, cursor: &[u8]) -> Result<Page, String> {
        let uses_list = self.facts.dialect == Dialect::Quorlock && !wanted.is_all;
        let question = match uses_list {
            true => question::list(wanted.pattern, cursor),
            false => question::scan(wanted.pattern, cursor),
        };
        let reply = self.link.ask_one(question).await?;
        let Some([next, rows]) = reply.parts() else {
            return Err(reply.refusal());
        };
        let (Some(next), Some(rows)) = (next.text(), rows.parts()) else {
            return Err(reply.refusal());
        };
        let name = |row: &NodeReply| match uses_list {
            true => row
                .fact("name")
                .and_then(NodeReply::text)
                .map(<[u8]>::to_vec),
            false => row.text().map(<[u8]>::to_vec),
        };
        let mut page = Page {
            next: next.to_vec(),
            names: rows.iter().filter_map(name).collect(),
            without_ttl: 0,
        };
        if !uses_list {
            let looked = self.locks_of(page.names, wanted.is_all).await?;
            (page.names, page.without_ttl) = (looked.names, looked.without_ttl);
        }
        Ok(page)
    }

    /// Those of these keys that can be locks.
    async fn locks_of(&mut self, names: Vec<Vec<u8>>, is_all: bool) -> Result<LocksFound, String> {
        if names.len() > PAGE_NAMES_MAX {
            return Err("a page of its list has more names than were asked for".to_owned());
        }
        let dialect = self.facts.dialect;
        let questions = names.iter().map(|name| question::look(name, dialect));
        let questions: Vec<_> = questions.collect();
        let replies = self.link.ask(&questions).await?;
        let mut looked = LocksFound::default();
        for (name, reply) in names.into_iter().zip(&replies) {
            if let Ok(Sight::Lock(lock)) = Sight::read(reply, dialect) {
                match is_all || lock.holders.iter().any(|one| one.left.is_some()) {
                    true => looked.names.push(name),
                    false => looked.without_ttl += 1,
                }
            }
        }
        Ok(looked)
    }
}

/// A part of a node's list.
struct Page {
    /// The cursor of the next one.
    next: Vec<u8>,
    names: Vec<Vec<u8>>,
    without_ttl: u64,
}

/// Keys that can be locks, and how many more there are that have no ttl.
#[derive(Default)]
struct LocksFound {
    names: Vec<Vec<u8>>,
    without_ttl: u64,
}

/// Names of 1 MB each are looked at, one after the other, and not all of a million of them are kept.
const NAMES_BYTES_MAX: usize = 64 << 20;
/// A node is asked for 1,000 names, and has some more where its table grows.
const PAGE_NAMES_MAX: usize = 100_000;
/// A page is given the time of the whole list, and no less than this. A look at each of 1,000 names needs some round trips.
const PAGE_PATIENCE: Duration = Duration::from_secs(10);
const PAGE_TOO_LATE: &str = "does not answer in time: a page of its list of locks took too long";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_up_to_a_count_and_a_size() {
        let mut found = Found::default();
        for name in ["b", "a", "b", "a"] {
            found.add(name.as_bytes().to_vec(), 2);
        }
        assert!(!found.is_cut);
        found.add(b"c".to_vec(), 2);
        assert!(found.is_cut);
        assert_eq!(
            found.names.iter().next().map(Vec::as_slice),
            Some(&b"a"[..])
        );

        let mut found = Found::default();
        for first in 0..80_u8 {
            let mut name = vec![b'x'; 1 << 20];
            name[0] = first;
            found.add(name, usize::MAX);
        }
        assert!(found.is_cut);
        assert_eq!(found.names.len(), 64);
    }
}
