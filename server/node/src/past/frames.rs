//! The frames of a log as a start reads them, no matter who has opened it.

use quorlock_engine::control::{ControlRecord, kind};
use quorlock_engine::restart::History;
use quorlock_engine::{NodeTime, PayloadError};
use quorlock_persistence::{Frame, Inspection, Judgement, LogSummary, Position, Recovery};

use crate::past::{FrameError, Location, PastError};

/// A log that was read and verified.
#[derive(Clone, Copy, Debug)]
pub enum Log<'a> {
    /// By somebody who has the directory, to go on with it.
    Recovered(&'a Recovery),
    /// By somebody who only looks: one segment is in memory at a time.
    Viewed(&'a Inspection, &'a Judgement),
}

impl Log<'_> {
    /// What it holds.
    pub(crate) fn summary(&self) -> &LogSummary {
        match self {
            Self::Recovered(recovery) => recovery.summary(),
            Self::Viewed(_, judgement) => &judgement.summary,
        }
    }

    /// What its control records say of the past; the other frames go to `replay`.
    pub fn history(
        &self,
        mut replay: impl FnMut(Position, &[u8]) -> Result<(), PayloadError>,
    ) -> Result<History, PastError> {
        let mut history = History::default();
        match self {
            Self::Recovered(recovery) => {
                let mut frames = recovery.frames();
                while let Some(frame) = frames.next_frame().map_err(PastError::Log)? {
                    note(&mut history, &frame, &mut replay)
                        .map_err(|error| not_understood(&frame, None, error))?;
                }
            }
            Self::Viewed(inspection, judgement) => {
                for part in &judgement.parts {
                    let content = inspection.read(part).map_err(PastError::Log)?;
                    for inspected in content.frames() {
                        let frame = inspected.frame;
                        note(&mut history, &frame, &mut replay).map_err(|error| {
                            let file = inspection.file_of(part.number);
                            let offset = inspected.offset;
                            not_understood(&frame, Some(Location { file, offset }), error)
                        })?;
                    }
                }
            }
        }
        Ok(history)
    }
}

fn note(
    history: &mut History,
    frame: &Frame<'_>,
    replay: &mut impl FnMut(Position, &[u8]) -> Result<(), PayloadError>,
) -> Result<(), FrameError> {
    let time = NodeTime::from_nanos(frame.node_time_ns);
    match frame.kind {
        kind::GROUP | kind::SNAPSHOT => {
            history.frame(time);
            replay(frame.position, frame.payload)?;
        }
        kind::END => history.frame(time),
        code => history.record(time, &ControlRecord::decode(code, frame.payload)?),
    }
    Ok(())
}

fn not_understood(frame: &Frame<'_>, location: Option<Location>, error: FrameError) -> PastError {
    PastError::NotUnderstood {
        position: frame.position,
        location,
        error,
    }
}
