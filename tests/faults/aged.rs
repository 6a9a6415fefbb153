//! A real log made by the real node over two starts, to be damaged.

use std::io;
use std::path::PathBuf;

use crate::check::Bench;
use crate::check_directory::{CheckDirectory, Image};
use crate::phase::{PHASE_MAX, listening, make_segment_ahead};
use crate::segment;
use crate::stream::{SMALL, Stream};
use crate::subject::{Launch, Mode};
use crate::traffic::{Traffic, streams};

/// How the log's last run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Killed,
    Stopped,
}

/// The logs that are damaged. The first two are those of which nothing is missing and which a
/// node may go on with at once: there a damage that is not noticed would do harm.
pub(crate) const KINDS: [(Mode, Last); 3] = [
    (Mode::Always, Last::Killed),
    (Mode::Everysec, Last::Stopped),
    (Mode::Everysec, Last::Killed),
];

/// A node's directory with two segments in use.
pub(crate) struct Aged {
    pub(crate) directory: CheckDirectory,
    pub(crate) launch: Launch,
    pub(crate) streams: Vec<Stream>,
    pub(crate) image: Image,
    pub(crate) last: Last,
    /// The newest segment in use, and where its frames end.
    pub(crate) newest: PathBuf,
    pub(crate) end: u64,
    /// Where it has put on record that it grants.
    pub(crate) serves_from: u64,
}

impl Aged {
    pub(crate) fn make(bench: &Bench, mode: Mode, last: Last) -> io::Result<Self> {
        let directory = CheckDirectory::new(&bench.scratch)?;
        let launch = Launch::new(bench, mode);
        let mut streams = streams(21, SMALL);
        for is_last in [false, true] {
            streams.iter_mut().for_each(Stream::begin_run);
            let mut node = launch.start(&directory)?;
            let address = listening(&mut node, &directory)?;
            let came = Traffic::open(address, &streams)?.run(&mut streams, 5, 3);
            if !came.is_fine() {
                return Err(io::Error::other(format!("preparing failed: {came:?}")));
            }
            make_segment_ahead(address)?;
            if is_last && last == Last::Killed {
                node.kill();
            } else {
                node.terminate();
                node.end(PHASE_MAX);
            }
        }
        let newest = segment::newest(&directory)?;
        let frames = segment::frames(&newest)?;
        let serving = frames.iter().find(|frame| frame.kind == segment::SERVING);
        Ok(Self {
            end: segment::end_of_frames(&newest)?,
            serves_from: serving.map_or(0, |frame| frame.end),
            newest,
            image: directory.take_image("image")?,
            directory,
            launch,
            streams,
            last,
        })
    }
}
