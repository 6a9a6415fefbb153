//! How long the commands of a node have taken lately: the difference between two looks at what it has counted since its start.
//!
//! A node counts its calls in any case (LATENCY HISTOGRAM) and knows no intervals: where nobody looks, this costs it nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::reply::NodeReply;

/// Calls by the longest time that they may have taken, in microseconds, as a node has counted them by one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Latencies(BTreeMap<u64, u64>);

impl Latencies {
    /// Reads the reply to LATENCY HISTOGRAM, of all commands together. The questions of those who look are left out.
    pub(super) fn read(reply: &NodeReply) -> Self {
        let mut all = BTreeMap::new();
        for command in reply.parts().unwrap_or_default().chunks_exact(2) {
            let [name, facts] = command else { continue };
            if name.text().is_none_or(is_question) {
                continue;
            }
            let steps = facts.fact("histogram_usec").and_then(NodeReply::parts);
            let mut before = 0;
            for step in steps.unwrap_or_default().chunks_exact(2) {
                let (Some(us), Some(calls)) = (step[0].count(), step[1].count()) else {
                    continue;
                };
                let counted: &mut u64 = all.entry(us).or_default();
                // The node's counts include those of the shorter times.
                *counted = counted.saturating_add(calls.saturating_sub(before));
                before = calls;
            }
        }
        Self(all)
    }

    /// Whether the node has gone on counting since: it was not started again, and its counts were not reset.
    fn continues(&self, earlier: &Self) -> bool {
        let counted = |us| self.0.get(us).copied().unwrap_or(0);
        earlier.0.iter().all(|(us, calls)| counted(us) >= *calls)
    }

    /// 99 of 100 calls since then took no longer than this, which is up to twice as much as they took. None without calls.
    fn p99_since(&self, earlier: &Self) -> Option<Duration> {
        let before = |us: &u64| earlier.0.get(us).copied().unwrap_or(0);
        let since = self.0.iter();
        let since = since.map(|(us, calls)| (*us, calls.saturating_sub(before(us))));
        let all = since
            .clone()
            .fold(0, |sum: u64, (_, calls)| sum.saturating_add(calls));
        let wanted = (all - all / 100).max(1);
        let mut counted: u64 = 0;
        let mut since = since;
        let found = since.find(|(_, calls)| {
            counted = counted.saturating_add(*calls);
            counted >= wanted
        });
        found.map(|(us, _)| Duration::from_micros(us))
    }
}

/// Whether this is a command by which a node is looked at, and which a node without clients executes as well.
fn is_question(name: &[u8]) -> bool {
    name == b"info" || name.starts_with(b"latency")
}

/// What a node had counted at the last looks at it, the newest last.
#[derive(Debug, Default)]
pub(super) struct RecentLatencies(VecDeque<Latencies>);

impl RecentLatencies {
    /// Takes in a look; none where the node has not answered.
    pub(super) fn look(&mut self, latencies: Option<&Latencies>) {
        let Some(latencies) = latencies else {
            return self.0.clear();
        };
        if self.0.back().is_some_and(|last| !latencies.continues(last)) {
            self.0.clear();
        }
        if self.0.len() == LOOKS {
            self.0.pop_front();
        }
        self.0.push_back(latencies.clone());
    }

    /// 99 of 100 calls of these looks took no longer.
    pub(super) fn p99(&self) -> Option<Duration> {
        self.0.back()?.p99_since(self.0.front()?)
    }
}

/// Those of five seconds, at two looks a second.
const LOOKS: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> NodeReply {
        NodeReply::Text(text.as_bytes().to_vec())
    }

    /// A reply with the counts of these commands.
    fn reply(commands: &[(&str, &[(i64, i64)])]) -> NodeReply {
        let command = |(name, steps): &(&str, &[(i64, i64)])| {
            let steps = steps.iter().flat_map(|(us, calls)| [*us, *calls]);
            let steps = NodeReply::Array(steps.map(NodeReply::Integer).collect());
            let calls = NodeReply::Integer(0);
            let facts = vec![text("calls"), calls, text("histogram_usec"), steps];
            [text(name), NodeReply::Array(facts)]
        };
        NodeReply::Array(commands.iter().flat_map(command).collect())
    }

    fn counted(steps: &[(i64, i64)]) -> Latencies {
        Latencies::read(&reply(&[("set", steps)]))
    }

    const fn us(us: u64) -> Option<Duration> {
        Some(Duration::from_micros(us))
    }

    #[test]
    fn the_counts_of_all_commands_are_one_and_questions_are_left_out() {
        let commands: [(&str, &[(i64, i64)]); 4] = [
            ("set", &[(1, 90), (4, 95), (33, 100)]),
            ("info", &[(528, 9)]),
            ("latency|histogram", &[(264, 9)]),
            ("del", &[(4, 7)]),
        ];
        let latencies = Latencies::read(&reply(&commands));
        assert_eq!(latencies.0, BTreeMap::from([(1, 90), (4, 12), (33, 5)]));
        for odd in [
            text("no"),
            NodeReply::Error("ERR".to_owned()),
            NodeReply::Array(vec![text("set"), text("x")]),
            reply(&[("set", &[(-1, 4), (2, -4)])]),
        ] {
            assert_eq!(Latencies::read(&odd), Latencies::default(), "{odd:?}");
        }
    }

    #[test]
    fn a_p99_is_of_the_calls_between_two_looks() {
        let first = counted(&[(2, 1_000), (1_056, 1_500)]);
        assert_eq!(first.p99_since(&Latencies::default()), us(1_056));
        assert_eq!(first.p99_since(&first), None);
        let ninety_nine = counted(&[(2, 1_000), (8, 1_099), (1_056, 1_600)]);
        assert_eq!(ninety_nine.p99_since(&first), us(8));
        let ninety_eight = counted(&[(2, 1_000), (8, 1_098), (1_056, 1_600)]);
        assert_eq!(ninety_eight.p99_since(&first), us(1_056));
        let one = counted(&[(2, 1_001), (1_056, 1_501)]);
        assert_eq!(one.p99_since(&first), us(2));
    }

    #[test]
    fn old_looks_and_those_before_a_restart_do_not_count() {
        let mut recent = RecentLatencies::default();
        assert_eq!(recent.p99(), None);
        recent.look(Some(&counted(&[(1_056, 5)])));
        assert_eq!(recent.p99(), None, "when these were is not known");
        for calls in 0..10 {
            recent.look(Some(&counted(&[(4, calls), (1_056, calls + 9)])));
        }
        assert_eq!(recent.p99(), us(1_056));
        recent.look(Some(&counted(&[(4, 10), (1_056, 19)])));
        assert_eq!(recent.p99(), us(4), "the first look is too old");
        recent.look(Some(&counted(&[(8, 1)])));
        assert_eq!(recent.p99(), None, "it counts anew");
        recent.look(Some(&counted(&[(8, 2)])));
        assert_eq!(recent.p99(), us(8));
        recent.look(None);
        assert_eq!(recent.p99(), None, "it does not answer");
    }
}
