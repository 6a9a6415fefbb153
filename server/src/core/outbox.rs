//! What was published and is not on its way, with what the replies of its publishers wait for: who hears of a change
//! must not know more than who made it.

use quorlock_engine::Engine;
use quorlock_engine::channels::Published;

use crate::core::wait::Wait;

/// In the order in which it was published.
#[derive(Default)]
pub(crate) struct Outbox {
    published: Vec<(Published, Wait)>,
    /// The same for what clients are told of prefixes, which the engine puts together.
    broadcasts: Wait,
}

impl Outbox {
    /// Takes in what a command has published.
    pub(crate) fn extend(
        &mut self,
        engine: &mut Engine,
        published: impl Iterator<Item = Published>,
        wait: Wait,
    ) {
        self.published.extend(published.map(|one| (one, wait)));
        if engine.tracking().has_broadcasts() {
            self.broadcasts.raise(wait);
        }
    }

    /// Takes all that is here.
    pub(crate) fn take(&mut self, engine: &mut Engine) -> Vec<(Published, Wait)> {
        if engine.tracking().has_broadcasts() {
            let wait = std::mem::take(&mut self.broadcasts);
            let mut broadcasts = Vec::new();
            engine.tracking().take_broadcasts(&mut broadcasts);
            let broadcasts = broadcasts.into_iter().map(|one| (one, wait));
            self.published.extend(broadcasts);
        }
        std::mem::take(&mut self.published)
    }
}
