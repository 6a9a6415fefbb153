//! A log that can be written, in three parts, so that the caller decides about locks and threads.
//!
//! Invariant: the three parts belong together; they share one `Space` and come from one `Recovery`.

use crate::appender::Appender;
use crate::preparer::Preparer;
use crate::writer::Writer;

/// The parts of an open log. Each may live under a lock of its own, or on a thread of its own.
#[derive(Debug)]
pub struct Log {
    /// Numbers frames and collects them. Lives where the order of frames is decided.
    pub appender: Appender,
    /// Writes and syncs what was collected.
    pub writer: Writer,
    /// Makes segments ahead. Nothing is ahead yet when a log is opened: call `prepare` soon.
    pub preparer: Preparer,
}
