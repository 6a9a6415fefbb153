//! Nodes under clocks that are set, steered, stopped and replaced, running and restarted: no lock
//! ends early, no restart delay gets shorter, and TIME is never stepped.
//!
//! Nodes are whole, with sockets and a log on a memory disk; only the clocks are a test's own.

mod absolute;
mod boots;
mod extremes;
mod machine;
mod oracle;
mod property;
mod rates;
mod ticks;
mod wall;
