//! One open file of a directory in memory.

use super::faults::{DiskFault, DiskOperation};
use super::state::SharedState;
use crate::disk::File;
use std::io;

#[derive(Debug)]
pub(super) struct MemoryFile {
    pub(super) disk: SharedState,
    pub(super) id: u64,
    /// It takes whole blocks only.
    pub(super) is_direct: bool,
}

impl File for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_direct {
            self.disk.call_direct_write_hook();
        }
        let mut state = self.disk.lock();
        if self.is_direct && !state.takes_blocks(offset, bytes) {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let fault = state.begin(DiskOperation::Write)?;
        let written = match fault {
            None => bytes.len(),
            Some(DiskFault::Short(written, _)) => written.min(bytes.len()),
            Some(fault) => return Err(fault.error()),
        };
        let (offset, bytes) = (index(offset), &bytes[..written]);
        state.make_room(self.id, offset + bytes.len())?;
        let remembers_sync = state.remembers_sync;
        let content = state.content_mut(self.id)?;
        content.write(offset, bytes, remembers_sync);
        let name = state.name_of(self.id);
        state.done(DiskOperation::Write, &name);
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.begin(DiskOperation::Read)?;
        Ok(state.content(self.id)?.read(index(offset), bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call_sync_hook();
        let mut state = self.disk.lock();
        let fault = state.begin(DiskOperation::Sync)?;
        let remembers_sync = state.remembers_sync;
        let content = state.content_mut(self.id)?;
        match fault {
            None if remembers_sync => content.sync(),
            None | Some(DiskFault::Lie) => {}
            Some(_) => content.abandon(),
        }
        let name = state.name_of(self.id);
        state.done(DiskOperation::Sync, &name);
        match fault {
            None | Some(DiskFault::Lie) => Ok(()),
            Some(fault) => Err(fault.error()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.begin(DiskOperation::Length)?;
        Ok(state.content(self.id)?.len() as u64)
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a file in memory is no longer than memory")
}
