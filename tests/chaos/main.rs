//! Five nodes as processes, callers that lock and unlock, and `kill -9`.
//!
//! The fault model is the death of a process: what it wrote is in the page cache and survives.
//! That a machine loses power is shown elsewhere, on a disk in memory.

mod callers;
mod delay;
