//! Locks and atomics: those of the standard library, or with the feature `shuttle` those that try orders of threads.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, atomic};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, atomic};
