//! Of which names the node of a connection tells changes.
//!
//! Invariant: no two prefixes overlap: servers refuse those, and one of them is enough.

use std::collections::BTreeSet;

use bytes::Bytes;

#[derive(Debug, Default)]
pub(super) struct Tracking {
    prefixes: BTreeSet<Bytes>,
    is_refused: bool,
}

/// What the node is to be asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// It is told first to tell of nothing: what it tells of overlaps with this.
    pub(super) begins_anew: bool,
    pub(super) prefixes: Vec<Bytes>,
}

impl Tracking {
    /// What the node is to be asked for so that it tells of this name too. None if it tells of it already, or never does.
    pub(super) fn cover(&mut self, name: &Bytes) -> Option<Wanted> {
        if self.is_refused || self.covers(name) {
            return None;
        }
        let before = self.prefixes.len();
        self.prefixes.retain(|prefix| !prefix.starts_with(name));
        let begins_anew = self.prefixes.len() < before;
        self.prefixes.insert(name.clone());
        let prefixes = match begins_anew {
            true => self.prefixes.iter().cloned().collect(),
            false => vec![name.clone()],
        };
        Some(Wanted {
            begins_anew,
            prefixes,
        })
    }

    pub(super) fn covers(&self, name: &Bytes) -> bool {
        !self.is_refused && self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    pub(super) fn is_used(&self) -> bool {
        !self.prefixes.is_empty()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The node tells of nothing, whatever it is asked.
    pub(super) fn refused(&mut self) {
        self.is_refused = true;
    }

    /// The node was asked to tell of nothing any more.
    pub(super) fn forget(&mut self) {
        self.prefixes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_do_not_overlap_and_a_name_is_asked_for_once() {
        let mut tracking = Tracking::default();
        let mut cover = |name: &'static str| {
            let wanted = tracking.cover(&Bytes::from_static(name.as_bytes()))?;
            Some((wanted.begins_anew, wanted.prefixes))
        };
        assert_eq!(cover("job:1"), Some((false, vec!["job:1".into()])));
        assert_eq!(cover("job:1"), None);
        assert_eq!(cover("job:12"), None, "told by the prefix");
        assert_eq!(cover("other"), Some((false, vec!["other".into()])));
        let all = vec!["job".into(), "other".into()];
        assert_eq!(cover("job"), Some((true, all)));
        assert!(tracking.covers(&"job:2".into()) && !tracking.covers(&"jo".into()));
        tracking.forget();
        assert!(!tracking.covers(&"job".into()) && !tracking.is_used());
        tracking.refused();
        assert_eq!(tracking.cover(&"job".into()), None);
    }
}
