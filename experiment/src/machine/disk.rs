//! A directory of which a power cut takes everything that was not synced: bytes and names.
//!
//! Bytes that were not synced, and names that were made, changed or removed without a sync of the directory, are kept in
//! the process's memory. So `kill -9` takes from it exactly what a power cut may take at most. A power cut may also
//! leave a part of it; that is what the simulation and the crash states of the test suite try.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorlock_persistence::{DirectoryEntry, Disk, DiskLock, File, OpenError, RealDisk};

use super::MachineControls;
use super::file::VolatileFile;

/// Such a directory.
#[derive(Debug)]
pub struct VolatileDisk {
    real: Arc<RealDisk>,
    machine: Arc<MachineControls>,
    names: Mutex<NameTable>,
}

#[derive(Debug, Default)]
struct NameTable {
    /// Files that were opened or made since the start, under the names that a reader sees.
    open: BTreeMap<String, Arc<VolatileFile>>,
    /// What has happened to names since the last sync of the directory.
    pending: Vec<DirectoryChange>,
}

#[derive(Debug)]
enum DirectoryChange {
    Create(String, Arc<VolatileFile>),
    Rename(String, String),
    Remove(String),
}

impl VolatileDisk {
    pub(super) fn new(real: Arc<RealDisk>, machine: Arc<MachineControls>) -> VolatileDisk {
        VolatileDisk {
            real,
            machine,
            names: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, NameTable> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameTable {
    /// The name under which the disk of this machine knows what a reader knows as `name`; `None` where it knows it not
    /// yet or where a reader knows it no more.
    fn real_name(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for change in self.pending.iter().rev() {
            match change {
                DirectoryChange::Create(made, _) if *made == name => return None,
                DirectoryChange::Rename(from, to) if *to == name => name.clone_from(from),
                DirectoryChange::Rename(from, _) if *from == name => return None,
                DirectoryChange::Remove(removed) if *removed == name => return None,
                _ => {}
            }
        }
        Some(name)
    }

    fn file(&mut self, disk: &VolatileDisk, name: &str) -> io::Result<Arc<VolatileFile>> {
        if let Some(file) = self.open.get(name) {
            return Ok(Arc::clone(file));
        }
        let real = self.real_name(name).ok_or(io::ErrorKind::NotFound)?;
        let file = VolatileFile::existing(Arc::clone(&disk.machine), disk.real.open(&real)?)?;
        let file = Arc::new(file);
        self.open.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// What a reader sees, of what the disk of this machine knows.
    fn list(&self, real: Vec<DirectoryEntry>) -> BTreeMap<String, DirectoryEntry> {
        let known = real.into_iter().map(|entry| (entry.name.clone(), entry));
        let mut seen: BTreeMap<String, DirectoryEntry> = known.collect();
        for change in &self.pending {
            match change {
                DirectoryChange::Create(name, _) => {
                    let entry = DirectoryEntry {
                        name: name.clone(),
                        is_file: true,
                    };
                    seen.insert(name.clone(), entry);
                }
                DirectoryChange::Rename(from, to) => {
                    if let Some(mut entry) = seen.remove(from) {
                        entry.name.clone_from(to);
                        seen.insert(to.clone(), entry);
                    }
                }
                DirectoryChange::Remove(name) => {
                    seen.remove(name);
                }
            }
        }
        seen
    }
}

impl Disk for VolatileDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.machine.check_space()?;
        let names = &mut *self.names();
        if names.list(self.real.list()?).contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(VolatileFile::new(Arc::clone(&self.machine)));
        names.open.insert(name.to_owned(), Arc::clone(&file));
        let change = DirectoryChange::Create(name.to_owned(), Arc::clone(&file));
        names.pending.push(change);
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.names().file(self, name)?)
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        let entries = self.names().list(self.real.list()?);
        Ok(entries.into_values().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let names = &mut *self.names();
        let file = names.file(self, from)?;
        names.open.remove(from);
        if let Some(replaced) = names.open.insert(to.to_owned(), file) {
            replaced.remove();
        }
        let change = DirectoryChange::Rename(from.to_owned(), to.to_owned());
        names.pending.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let names = &mut *self.names();
        names.file(self, name)?.remove();
        names.open.remove(name);
        names.pending.push(DirectoryChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let names = &mut *self.names();
        for change in names.pending.drain(..) {
            match change {
                DirectoryChange::Create(name, file) => file.name(self.real.create(&name)?)?,
                DirectoryChange::Rename(from, to) => self.real.rename(&from, &to)?,
                DirectoryChange::Remove(name) => self.real.remove(&name)?,
            }
        }
        self.real.sync_dir()
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.real.make_folder(name)
    }

    fn sync_folder(&self, name: &str) -> io::Result<()> {
        self.real.sync_folder(name)
    }

    fn hold(&self) -> Result<DiskLock, OpenError> {
        self.real.hold()
    }

    fn random(&self) -> io::Result<u64> {
        self.real.random()
    }

    fn describe(&self, name: &str) -> String {
        self.real.describe(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a start after the power cut finds.
    fn after_power_loss(directory: &std::path::Path) -> VolatileDisk {
        let machine = Arc::new(MachineControls::default());
        let real = RealDisk::open(directory).expect("the disk before is gone");
        VolatileDisk::new(real, machine)
    }

    fn content(disk: &dyn Disk, name: &str) -> Option<Vec<u8>> {
        let file = disk.open(name).ok()?;
        let mut bytes = vec![0; 64];
        let read = file.read_at(0, &mut bytes).expect("it is in memory");
        bytes.truncate(read);
        Some(bytes)
    }

    #[test]
    fn what_is_not_synced_is_read_and_is_gone_after_the_power_cut() {
        let home = tempfile::tempdir().expect("a directory");
        let disk = after_power_loss(home.path());
        let file = disk.create("a").expect("there is none");
        disk.sync_dir().expect("it has a name");
        file.write_at(0, b"kept").expect("there is room");
        file.sync().expect("it is synced");
        file.write_at(2, b"gone, all of it").expect("there is room");
        assert_eq!(
            content(&disk, "a").as_deref(),
            Some(&b"kegone, all of it"[..])
        );
        drop((disk, file));
        let disk = after_power_loss(home.path());
        assert_eq!(content(&disk, "a").as_deref(), Some(&b"kept"[..]));
    }

    #[test]
    fn a_file_without_a_durable_name_is_gone_however_often_it_was_synced() {
        let home = tempfile::tempdir().expect("a directory");
        let disk = after_power_loss(home.path());
        let file = disk.create("a").expect("there is none");
        file.write_at(0, b"synced").expect("there is room");
        file.sync().expect("it is synced");
        assert!(disk.create("a").is_err() && disk.list().expect("it is read").len() == 2);
        drop((disk, file));
        let disk = after_power_loss(home.path());
        assert_eq!(content(&disk, "a"), None);
        let file = disk.create("a").expect("there is none");
        file.write_at(0, b"synced").expect("there is room");
        file.sync().expect("it is synced");
        disk.sync_dir().expect("it has a name");
        drop((disk, file));
        let disk = after_power_loss(home.path());
        assert_eq!(content(&disk, "a").as_deref(), Some(&b"synced"[..]));
    }

    #[test]
    fn names_change_for_the_disk_when_the_directory_is_synced() {
        let home = tempfile::tempdir().expect("a directory");
        let disk = after_power_loss(home.path());
        for (name, text) in [("a", b"1"), ("b", b"2"), ("c", b"3")] {
            let file = disk.create(name).expect("there is none");
            file.write_at(0, text).expect("there is room");
            file.sync().expect("it is synced");
        }
        disk.sync_dir().expect("they have names");
        let change = |disk: &VolatileDisk| {
            disk.rename("a", "b").expect("it is there");
            disk.remove("c").expect("it is there");
            assert_eq!(content(disk, "b").as_deref(), Some(&b"1"[..]));
            assert_eq!((content(disk, "a"), content(disk, "c")), (None, None));
        };
        change(&disk);
        drop(disk);
        let disk = after_power_loss(home.path());
        let found = ["a", "b", "c"].map(|name| content(&disk, name));
        assert_eq!(
            found,
            [
                Some(b"1".to_vec()),
                Some(b"2".to_vec()),
                Some(b"3".to_vec())
            ]
        );
        change(&disk);
        disk.sync_dir().expect("the names are synced");
        drop(disk);
        let disk = after_power_loss(home.path());
        let found = ["a", "b", "c"].map(|name| content(&disk, name));
        assert_eq!(found, [None, Some(b"1".to_vec()), None]);
    }

    #[test]
    fn a_full_disk_takes_nothing_until_it_has_space_again() {
        let home = tempfile::tempdir().expect("a directory");
        let machine = Arc::new(MachineControls::default());
        let disk = machine.disk(home.path()).expect("it is made");
        let file = disk.create("a").expect("there is room");
        file.write_at(0, b"x").expect("there is room");
        machine.obey("disk-full yes").expect("an order");
        let error = file.write_at(0, b"xy").expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(0, b"y").expect("it has this byte already");
        assert!(disk.create("b").is_err());
        machine.obey("disk-full no\n").expect("an order");
        file.write_at(0, b"xy").expect("there is room");
        for nonsense in ["", "disk-full maybe", "sync-delay -1", "reboot 1"] {
            assert!(machine.obey(nonsense).is_err(), "{nonsense}");
        }
    }
}
