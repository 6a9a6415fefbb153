//! The frames of a recovered log, one after the other.
//!
//! Invariant: every frame was verified when the log was read, and positions are consecutive.

use super::scan::Scan;
use crate::frame::Frame;

/// Iterates over the frames to replay.
#[derive(Debug)]
pub struct Frames<'a> {
    run: &'a [Scan],
    offset: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn new(run: &'a [Scan], offset: usize) -> Frames<'a> {
        Frames { run, offset }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            let scan = self.run.first()?;
            if let Some(parsed) = scan.frame_at(self.offset) {
                self.offset = self.offset.saturating_add(parsed.bytes);
                return Some(parsed.frame);
            }
            self.run = &self.run[1..];
            self.offset = self.run.first().map_or(0, Scan::begin);
        }
    }
}
