//! What an operation came to: typed, with each node's answer, in words a person can act on.
//!
//! Invariant: "busy", "no quorum" and "out of time" are never the same value, and every text says
//! what happened, what that means for the lock, and what to do.

mod acquire_error;
mod build_error;
mod cause;
mod connection_error;
mod loss;
mod node_fences;
mod permanent;
mod publish_error;
mod reading;
mod release;

pub use acquire_error::{AcquireError, TooShort};
pub use build_error::BuildError;
pub use cause::{Cause, NodeAnswer, NodeReport};
pub(crate) use cause::{FENCE_MAX, lines, owner};
pub use connection_error::ConnectionError;
pub use loss::{ExtendError, Loss};
pub use node_fences::{FenceState, NodeFences};
pub use publish_error::PublishError;
pub use reading::{ListedLock, LockPage, Looked, ReadError, Reading};
pub use release::{NodeRelease, Release};
