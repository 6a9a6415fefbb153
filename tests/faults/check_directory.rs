//! The directory of one check: a node's data, what the node said, and images of the data.
//!
//! A node rightly takes an older log that was put back for a restored one. So an image is put back
//! file by file into the same directory, where `node.id` stays what it is, and the marker of the
//! start that wrote the log is kept by a second name: the same file, not a copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that is removed when dropped.
pub(crate) struct CheckDirectory {
    folder: PathBuf,
    runs: AtomicU64,
}

/// The log files of a node's directory at some moment.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    folder: PathBuf,
    segments: Vec<String>,
    markers: Vec<String>,
}

impl CheckDirectory {
    /// A fresh directory below `parent`.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("check-{number}"));
        fs::create_dir(&folder)?;
        let directory = Self {
            folder,
            runs: AtomicU64::new(0),
        };
        fs::create_dir(directory.data())?;
        Ok(directory)
    }

    /// The node's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A path beside the data directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The next start's number, for its output.
    pub(crate) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Empties the data directory, so that the next start is a first one.
    pub(crate) fn empty(&self) -> io::Result<()> {
        fs::remove_dir_all(self.data())?;
        fs::create_dir(self.data())
    }

    /// Copies the log's files away. The node must not run.
    pub(crate) fn take_image(&self, name: &str) -> io::Result<Image> {
        let folder = self.file(name);
        fs::create_dir_all(&folder)?;
        let segments = names_with(&self.data(), SEGMENT)?;
        for name in &segments {
            fs::copy(self.data().join(name), folder.join(name))?;
        }
        let markers = names_with(&self.data(), MARKER)?;
        for name in &markers {
            fs::hard_link(self.data().join(name), folder.join(name))?;
        }
        Ok(Image {
            folder,
            segments,
            markers,
        })
    }

    /// Puts an image back.
    pub(crate) fn restore(&self, image: &Image) -> io::Result<()> {
        for prefix in [SEGMENT, MARKER] {
            for name in names_with(&self.data(), prefix)? {
                fs::remove_file(self.data().join(name))?;
            }
        }
        for name in &image.segments {
            fs::copy(image.folder.join(name), self.data().join(name))?;
        }
        for name in &image.markers {
            fs::hard_link(image.folder.join(name), self.data().join(name))?;
        }
        Ok(())
    }

    /// The segments in order, and the length of each.
    pub(crate) fn segments(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut names = names_with(&self.data(), SEGMENT)?;
        names.retain(|name| name.ends_with(".segment"));
        names.sort();
        let paths = names.iter().map(|name| self.data().join(name));
        let measured = paths.map(|path| Ok((path.clone(), fs::metadata(path)?.len())));
        measured.collect()
    }

    /// What the segment is called that the node makes next, until it is made.
    pub(crate) fn next_unfinished_segment(&self) -> io::Result<PathBuf> {
        let newest = self.segments()?.pop();
        let number = newest.and_then(|(path, _)| {
            let name = path.file_stem()?.to_str()?.strip_prefix(SEGMENT)?;
            name.parse::<u64>().ok()
        });
        let number = number.ok_or_else(|| io::Error::other("there is no segment"))?;
        Ok(self.data().join(format!("{SEGMENT}{:010}.new", number + 1)))
    }

    /// Whether the log thread has made the segment ahead, and makes none right now.
    pub(crate) fn is_prepared(&self) -> bool {
        let names = names_with(&self.data(), SEGMENT).unwrap_or_default();
        let is_making = names.iter().any(|name| name.ends_with(".new"));
        let newest = self.segments().ok().and_then(|mut all| all.pop());
        !is_making && newest.is_some_and(|(_, bytes)| bytes >= SEGMENT_BYTES)
    }
}

impl Drop for CheckDirectory {
    fn drop(&mut self) {
        // What is left over is in a temporary directory.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn names_with(data: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Segments, made or being made.
const SEGMENT: &str = "segment-";
/// What tells the directory of a start from a copy.
const MARKER: &str = "incarnation-";

/// The length of all segments but the first of a start.
const SEGMENT_BYTES: u64 = 16 << 20;
