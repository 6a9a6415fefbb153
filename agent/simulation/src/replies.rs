//! What callers are told, and when it leaves.

use quorlock_agent_rules::{Expiring, RequestId};
use quorlock_clock::saturated_nanos;
use quorlock_engine::Reply;

use crate::{Agents, Answer, Step};

impl Agents {
    /// A request that has come to its end.
    pub fn take_answer(&mut self) -> Option<(RequestId, Answer)> {
        self.replies.pop_first()
    }

    /// Waits for the reply to a request.
    ///
    /// # Panics
    /// If there is none within a minute, or the agent is killed.
    pub fn reply(&mut self, id: RequestId) -> Reply {
        let until_ns = self.cluster.now_ns + 60_000_000_000;
        loop {
            match self.replies.remove(&id) {
                Some(Answer::Reply(reply)) => return reply,
                Some(Answer::Disconnected) => panic!("the agent has ended"),
                None => {}
            }
            assert!(self.advance() && self.cluster.now_ns < until_ns, "no reply");
        }
    }

    pub(crate) fn answer(&mut self, id: RequestId, reply: Reply) {
        self.open.remove(&id);
        let before = self.replies.insert(id, Answer::Reply(reply));
        assert!(before.is_none(), "a request is answered once");
    }

    /// A reply leaves as soon as a worker of the agent comes to it, which may be too late.
    pub(crate) fn answer_before(
        &mut self,
        agent: usize,
        id: RequestId,
        reply: Reply,
        expiring: Expiring,
    ) {
        let most_ns = saturated_nanos(self.setting.late_replies);
        if most_ns == 0 || !self.lateness.chance(1, 16) {
            return self.leave_with(agent, id, reply, expiring);
        }
        let at_ns = self.cluster.now_ns + 1 + self.lateness.below(most_ns);
        self.leaving.insert(id, (agent, reply, expiring));
        self.cluster.at(at_ns, Step::Leaving(id));
    }

    pub(crate) fn leave_late(&mut self, id: RequestId) {
        if let Some((agent, reply, expiring)) = self.leaving.remove(&id) {
            self.leave_with(agent, id, reply, expiring);
        }
    }

    fn leave_with(&mut self, agent: usize, id: RequestId, reply: Reply, expiring: Expiring) {
        let client = self.agents[agent].client;
        let now = self.cluster.machines[client].now(self.cluster.now_ns);
        if !expiring.is_over(now) {
            return self.answer(id, reply);
        }
        if let Some(undo) = expiring.undo {
            self.cluster.call(client, undo);
        }
        self.answer(id, expiring.instead);
    }
}
