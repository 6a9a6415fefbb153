//! The users of a node, as all its workers see them: who may do what, and what was refused.
//!
//! Invariant: each change gets the next version while the users are locked. A session that has looked at a version knows
//! whether its rights are still the same.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::acl::{Denials, Denied, User, Users};
use crate::config::{Files, read_file};

/// The users and the log of refusals.
pub struct Access {
    users: Mutex<Users>,
    version: AtomicU64,
    is_open: AtomicBool,
    denials: Mutex<Denials>,
    random: Box<Random>,
    file: Option<UserFile>,
}

/// The file that ACL LOAD reads and ACL SAVE writes.
pub(crate) struct UserFile {
    pub(crate) path: PathBuf,
    files: Arc<dyn Files + Send + Sync>,
    /// Held while the file is read or written, which the users are not: others are checked meanwhile.
    in_use: Mutex<()>,
}

impl UserFile {
    pub(crate) fn new(path: PathBuf, files: Arc<dyn Files + Send + Sync>) -> Self {
        Self {
            path,
            files,
            in_use: Mutex::default(),
        }
    }

    /// What the file holds.
    ///
    /// # Errors
    /// What is wrong, in Redis's words.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let _in_use = self.lock();
        read_file(&*self.files, &self.path)
    }

    /// Writes the users as they are now.
    ///
    /// # Errors
    /// What the system says. Then the file is what it was.
    pub(crate) fn write(&self, users: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
        let _in_use = self.lock();
        self.files.replace(&self.path, &users())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.in_use.lock().expect("no holder of the file can panic")
    }
}

/// Fills with bytes that cannot be guessed; false where there are none.
type Random = dyn Fn(&mut [u8]) -> bool + Send + Sync;

impl Access {
    /// Begins with these users.
    pub(crate) fn new(
        users: Users,
        file: Option<UserFile>,
        random: impl Fn(&mut [u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            is_open: AtomicBool::new(users.default_user().is_open()),
            users: Mutex::new(users),
            version: AtomicU64::new(0),
            denials: Mutex::default(),
            random: Box::new(random),
            file,
        }
    }

    /// Another number after each change.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a new connection may do what the default user may, without a password.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The users, to look at.
    pub(crate) fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().expect("no holder of the users can panic")
    }

    /// The user as it is now, and the version at which it is so; none where it was deleted.
    pub(crate) fn current(&self, user: &User) -> Option<(Arc<User>, u64)> {
        let users = self.users();
        let found = users.named(&user.name).filter(|it| it.id == user.id);
        Some((Arc::clone(found?), self.version()))
    }

    /// Changes the users, or nothing where that fails.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(&mut Users) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut users = self.users();
        change(&mut users)?;
        let is_open = users.default_user().is_open();
        self.is_open.store(is_open, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// What was refused.
    pub(crate) fn denials(&self) -> MutexGuard<'_, Denials> {
        self.denials
            .lock()
            .expect("no holder of the refusals can panic")
    }

    /// Notes a refusal, at this time of the wall clock, and keeps as many.
    pub(crate) fn note(&self, denied: Denied, client: String, wall_us: u64, entries_max: usize) {
        let now_ms = wall_us / 1000;
        self.denials().note(denied, client, now_ms, entries_max);
    }

    /// How much was refused, by INFO's word for the reason.
    pub(crate) fn denied_counts(&self) -> impl IntoIterator<Item = (&'static str, u64)> {
        self.denials().counts()
    }

    /// The file of users, if there is one.
    pub(crate) fn file(&self) -> Option<&UserFile> {
        self.file.as_ref()
    }

    /// Random bytes; false where the system has none.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) -> bool {
        (self.random)(bytes)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").finish_non_exhaustive()
    }
}
