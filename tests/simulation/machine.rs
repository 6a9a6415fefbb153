//! Machines of clients that sleep.

use super::network::What;
use super::world::World;

impl World {
    pub(super) fn suspend(&mut self, client: usize, until_ns: u64) {
        self.machines[client].sleep(self.now_ns, until_ns);
    }

    /// Until when the client sleeps to whom this happens.
    pub(super) fn is_asleep(&self, what: &What) -> Option<u64> {
        let client = match what {
            What::Connected(wire)
            | What::ToClient(wire, _)
            | What::EndAtClient(wire)
            | What::Unacknowledged(wire) => wire.client,
            What::Timer(client, _) | What::GuardGone(client, _) => *client,
            What::Caller(caller) => self.callers.get(*caller)?.client,
            _ => return None,
        };
        let until_ns = self.machines[client].woken_ns();
        (until_ns > self.now_ns).then_some(until_ns)
    }
}
