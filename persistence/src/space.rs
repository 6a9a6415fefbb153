//! What the three parts of a log share: the segments made ahead, and the error that ended it; and the part that
//! works ahead, the preparer.
//!
//! Invariant: appender and writer place frames by the same rule in the same order, so the appender knows
//! which segment a frame will go to before the writer has seen it. `entered` counts the segments the
//! appender has begun to fill beyond the first one, `made` those that exist; the difference is what is spare.

use crate::block_writer::{DirectFile, LARGEST_BLOCK};
use crate::disk::{Disk, File};
use crate::error::{DiskError, WriteError};
use crate::options::LogOptions;
use crate::segment_name;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Shared by appender, writer and preparer.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) disk: Arc<dyn Disk>,
    segment_bytes: u64,
    allows_direct: bool,
    /// Segments begun from now on are written past the page cache, if they can be.
    writes_direct: AtomicBool,
    made: AtomicU64,
    entered: AtomicU64,
    is_spare_wanted: AtomicBool,
    is_full: AtomicBool,
    /// Why no segment could be made when that was last tried.
    shortage: Mutex<Option<DiskError>>,
    spares: Mutex<VecDeque<Spare>>,
    /// The number of the next segment to make. Held while one is being made, so that there is one maker.
    next_number: Mutex<u64>,
    obsolete: Mutex<VecDeque<u64>>,
    obsolete_count: AtomicUsize,
    /// The largest number of a segment that was removed because it was obsolete.
    removed: AtomicU64,
    /// Why the last segment made cannot be written past the page cache, where that is no plain refusal.
    direct_failure: Mutex<Option<DiskError>>,
    failure: OnceLock<WriteError>,
    /// Held during a sync. The system reports a lost page to one sync only: with two at a time the other one
    /// would call the same data durable.
    pub(crate) syncing: Mutex<()>,
}

/// Makes segments ahead and removes obsolete ones. It never touches a segment that is being written. The caller
/// decides when: `needs_preparing` of appender, writer or preparer says that there is something to do.
#[derive(Debug)]
pub struct Preparer {
    space: Arc<Space>,
}

impl Preparer {
    pub(crate) fn new(space: Arc<Space>) -> Preparer {
        Preparer { space }
    }

    /// Removes obsolete segments and makes the next one, if there is none. `Ok(true)`: a segment is
    /// ready. `Ok(false)`: the disk is full, or there is no descriptor (`is_out_of_files`); try again after a while (a second, say), because no event tells when
    /// space has become free. An error is final for the whole log.
    pub fn prepare(&mut self) -> Result<bool, WriteError> {
        self.space.want_spare();
        self.keep_up()
    }

    /// Removes obsolete segments, and makes the next one where one is wanted ahead: a log that grows little takes little of
    /// the disk. Otherwise as [`Preparer::prepare`].
    pub fn keep_up(&mut self) -> Result<bool, WriteError> {
        self.space.check()?;
        let removed = self.space.remove_obsolete();
        removed
            .and_then(|()| self.space.make_spares())
            .map_err(|error| self.space.fail(error))
    }

    /// Whether the last segment could not be made for want of descriptors, and not of space.
    pub fn is_out_of_files(&self) -> bool {
        self.space.is_out_of_files()
    }

    /// Why a segment made since the last call cannot be written past the page cache, where the disk did not simply refuse:
    /// it is written through the page cache.
    pub fn take_direct_failure(&mut self) -> Option<DiskError> {
        self.space.direct_failure.lock().expect(NO_PANIC).take()
    }

    /// Whether `prepare` has something to do that cannot be put off: until a quarter of the first segment is filled, none is
    /// needed ahead, and a log that grows little takes little of the disk. It stays so while the disk is full.
    pub fn needs_preparing(&self) -> bool {
        self.space.needs_preparing()
    }
}

/// A segment made ahead: zero-filled, synced and named, without a header.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) made: MadeSegment,
}

/// The ways into a new segment.
#[derive(Debug)]
pub(crate) struct MadeSegment {
    pub(crate) file: Arc<dyn File>,
    /// Where the file system takes direct writes.
    pub(crate) direct: Option<DirectFile>,
    /// Why not, where that is no plain refusal.
    pub(crate) direct_failure: Option<DiskError>,
}

impl Space {
    pub(crate) fn new(disk: Arc<dyn Disk>, options: &LogOptions, next_number: u64) -> Space {
        Space {
            disk,
            segment_bytes: options.segment_bytes,
            allows_direct: options.allows_direct,
            writes_direct: AtomicBool::new(options.writes_direct),
            made: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            is_spare_wanted: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            shortage: Mutex::default(),
            spares: Mutex::default(),
            next_number: Mutex::new(next_number),
            obsolete: Mutex::default(),
            obsolete_count: AtomicUsize::new(0),
            removed: AtomicU64::new(0),
            direct_failure: Mutex::default(),
            failure: OnceLock::new(),
            syncing: Mutex::new(()),
        }
    }

    /// Somebody is to be told of this.
    pub(crate) fn note_direct_failure(&self, failure: Option<DiskError>) {
        if failure.is_some() {
            *self.direct_failure.lock().expect(NO_PANIC) = failure;
        }
    }

    /// The length of the segments made ahead.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Whether segments are to be written past the page cache.
    pub(crate) fn writes_direct(&self) -> bool {
        self.writes_direct.load(Ordering::Acquire)
    }

    /// Sets it for the segments begun from now on; says whether that is a change.
    pub(crate) fn set_writes_direct(&self, writes_direct: bool) -> bool {
        self.writes_direct.swap(writes_direct, Ordering::AcqRel) != writes_direct
    }

    /// The appender has begun to fill its n-th segment made ahead.
    pub(crate) fn enter(&self, entered: u64) {
        self.entered.store(entered, Ordering::Release);
    }

    /// From now on there is to be a segment ahead.
    pub(crate) fn want_spare(&self) {
        self.is_spare_wanted.store(true, Ordering::Release);
    }

    /// The log begins on a full disk: more room is asked for from now on, and none is known to come.
    pub(crate) fn begin_full(&self) {
        self.is_full.store(true, Ordering::Release);
        self.want_spare();
    }

    /// The segments that exist and that the appender has not begun to fill.
    pub(crate) fn spare_count(&self, entered: u64) -> u64 {
        self.made.load(Ordering::Acquire).saturating_sub(entered)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Whether it is for want of descriptors that no segment could be made.
    pub(crate) fn is_out_of_files(&self) -> bool {
        let shortage = self.shortage.lock().expect(NO_PANIC);
        let is_out_of_files = shortage.as_ref().is_some_and(DiskError::is_out_of_files);
        self.is_full() && is_out_of_files
    }

    pub(crate) fn needs_preparing(&self) -> bool {
        self.is_spare_wanted() && self.lacks_spare()
            || self.obsolete_count.load(Ordering::Acquire) > 0
    }

    fn is_spare_wanted(&self) -> bool {
        self.is_spare_wanted.load(Ordering::Acquire)
    }

    fn lacks_spare(&self) -> bool {
        self.spare_count(self.entered.load(Ordering::Acquire)) == 0
    }

    /// The error that ended the log, if one did.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Ends the log. The first error stays the one that is reported.
    pub(crate) fn fail(&self, error: WriteError) -> WriteError {
        self.failure.get_or_init(|| error).clone()
    }

    /// Makes segments until one is spare, where one is wanted. `Ok(false)` if the disk is full, or there is no descriptor.
    fn make_spares(&self) -> Result<bool, WriteError> {
        let mut next_number = self.next_number.lock().expect(NO_PANIC);
        while self.is_spare_wanted() && self.lacks_spare() {
            if !self.make_one(&mut next_number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next segment made ahead, for the writer. Made here and now if the preparer was not fast enough.
    pub(crate) fn take_spare(&self) -> Result<Spare, WriteError> {
        loop {
            if let Some(spare) = self.pop_spare() {
                return Ok(spare);
            }
            // Waits for a segment that is just being made; only if there is still none, make one.
            let mut next_number = self.next_number.lock().expect(NO_PANIC);
            if self.spares.lock().expect(NO_PANIC).is_empty() && !self.make_one(&mut next_number)? {
                let shortage = self.shortage.lock().expect(NO_PANIC).clone();
                let shortage = shortage.expect("a segment that could not be made leaves its cause");
                return Err(WriteError::full_or(shortage, WriteError::Segment));
            }
        }
    }

    /// These segments are needed no more.
    pub(crate) fn add_obsolete(&self, numbers: impl Iterator<Item = u64>) {
        let mut obsolete = self.obsolete.lock().expect(NO_PANIC);
        obsolete.extend(numbers);
        self.obsolete_count.store(obsolete.len(), Ordering::Release);
    }

    /// Removes the segments that are needed no more, oldest first. The directory is synced after each one,
    /// so that a power loss cannot leave an older segment without a newer one.
    pub(crate) fn remove_obsolete(&self) -> Result<(), WriteError> {
        let mut obsolete = self.obsolete.lock().expect(NO_PANIC);
        while let Some(&number) = obsolete.front() {
            self.removed.fetch_max(number, Ordering::AcqRel);
            match self.disk.remove(&segment_name::segment(number)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let failed = DiskError::at_segment(&*self.disk, "remove", number);
                    return Err(WriteError::Segment(failed(error)));
                }
                _ => {}
            }
            let synced = self.disk.sync_dir();
            let synced = synced.map_err(DiskError::at(&*self.disk, "sync", ""));
            synced.map_err(WriteError::Segment)?;
            obsolete.pop_front();
            self.obsolete_count.store(obsolete.len(), Ordering::Release);
        }
        Ok(())
    }

    /// Whether this segment may be gone because it was obsolete.
    pub(crate) fn has_removed(&self, number: u64) -> bool {
        number <= self.removed.load(Ordering::Acquire)
    }

    fn pop_spare(&self) -> Option<Spare> {
        self.spares.lock().expect(NO_PANIC).pop_front()
    }

    fn make_one(&self, next_number: &mut u64) -> Result<bool, WriteError> {
        let (disk, number) = (&*self.disk, *next_number);
        match make_segment(disk, number, self.segment_bytes, &[], self.allows_direct) {
            Ok(mut made) => {
                self.note_direct_failure(made.direct_failure.take());
                let spare = Spare {
                    number: *next_number,
                    made,
                };
                *next_number = next_number.saturating_add(1);
                self.spares.lock().expect(NO_PANIC).push_back(spare);
                self.made.fetch_add(1, Ordering::AcqRel);
                self.is_full.store(false, Ordering::Release);
                Ok(true)
            }
            // Nothing was written, so nothing is less trusted: it is tried again later.
            Err(error) if error.is_no_space() || error.is_out_of_files() => {
                *self.shortage.lock().expect(NO_PANIC) = Some(error);
                self.is_full.store(true, Ordering::Release);
                Ok(false)
            }
            Err(error) => Err(WriteError::Segment(error)),
        }
    }
}

/// Makes segment `number`: `start`, then zeros, synced before it gets its name, and the name synced before
/// it is used. So a segment that has its name has its length, and writing it later changes no metadata.
pub(crate) fn make_segment(
    disk: &dyn Disk,
    number: u64,
    length: u64,
    start: &[u8],
    allows_direct: bool,
) -> Result<MadeSegment, DiskError> {
    let unfinished = segment_name::unfinished(number);
    let made = fill_segment(disk, number, length, start, allows_direct);
    if made.is_err() {
        // Gives the space back. If this fails as well, the next start removes the file.
        let _ = disk.remove(&unfinished);
    }
    made
}

fn fill_segment(
    disk: &dyn Disk,
    number: u64,
    length: u64,
    start: &[u8],
    allows_direct: bool,
) -> Result<MadeSegment, DiskError> {
    let unfinished = segment_name::unfinished(number);
    let failed = |operation| DiskError::at(disk, operation, &unfinished);
    let file = disk.create(&unfinished).map_err(failed("create"))?;
    let zeros = vec![0; FILL_BYTES];
    let mut offset = 0;
    while offset < length {
        let left = length.saturating_sub(offset);
        let chunk =
            usize::try_from(left.min(FILL_BYTES as u64)).expect("no more than the zeros at hand");
        file.write_at(offset, &zeros[..chunk])
            .map_err(failed("write"))?;
        offset = offset.saturating_add(chunk as u64);
    }
    if !start.is_empty() {
        file.write_at(0, start).map_err(failed("write"))?;
    }
    file.sync().map_err(failed("sync"))?;
    let used = start.len() as u64;
    let probed = match allows_direct {
        true => DirectFile::probe(disk, &unfinished, length, used),
        false => Ok(None),
    };
    let (direct, direct_failure) = match probed {
        Ok(direct) => (direct, None),
        Err(error) if error.is_no_space() || error.is_out_of_files() => return Err(error),
        Err(error) => {
            // Only a disk that fails refuses the same block through the page cache as well.
            let tried_from = length.saturating_sub(LARGEST_BLOCK as u64).max(used);
            let tried = usize::try_from(length.saturating_sub(tried_from));
            let tried = tried.expect("no more than the zeros at hand");
            file.write_at(tried_from, &zeros[..tried])
                .map_err(failed("write"))?;
            file.sync().map_err(failed("sync"))?;
            (None, Some(error))
        }
    };
    disk.rename(&unfinished, &segment_name::segment(number))
        .map_err(failed("rename"))?;
    disk.sync_dir().map_err(failed("sync the directory of"))?;
    Ok(MadeSegment {
        file,
        direct,
        direct_failure,
    })
}

const FILL_BYTES: usize = 1 << 18;
pub(crate) const NO_PANIC: &str = "nothing panics while this lock is held";
