//! What users choose of an agent.

use std::time::Duration;

/// What an agent does beside what every agent does.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_agent::Options;
///
/// let options = Options { hold_back: Duration::from_millis(100), ..Options::default() };
/// assert!(!options.releases_on_disconnect);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A try to take a lock that somebody else has is held back for so long at most, instead of being refused at once: it goes on as
    /// soon as the lock may be free. Libraries that poll get locks sooner by that, and a client waits for its answer so long.
    pub hold_back: Duration,
    /// The locks that a connection has taken are released when it ends, as those of a session of Consul or ZooKeeper.
    pub releases_on_disconnect: bool,
}
