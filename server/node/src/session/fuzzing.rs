//! Doors for the fuzz targets of `tests/fuzz/`: the users of a node, and the file that CONFIG REWRITE writes. They are compiled
//! with `--cfg fuzzing` alone.

use std::path::Path;

use super::named_request::NamedRequest;
use crate::acl;
use crate::config::{Config, Files};

/// The users of a node.
#[derive(Clone, Debug)]
pub struct Users(acl::Users);

impl Default for Users {
    /// The default user alone, who needs no password.
    fn default() -> Self {
        Self(acl::Users::new(None))
    }
}

impl Users {
    /// Those that a node with this configuration begins with.
    pub fn of(config: &Config) -> Self {
        Self(config.initial_users())
    }

    /// ACL SETUSER.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn set(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        self.0.set(name, rules)
    }

    /// ACL LOAD.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(&self, text: &[u8]) -> Result<Self, String> {
        let read = self.0.read("users.acl", text);
        read.map(Self).map_err(|errors| errors.0)
    }

    /// ACL SAVE.
    pub fn write(&self) -> Vec<u8> {
        self.0.write()
    }

    /// ACL USERS.
    pub fn names(&self) -> Vec<Vec<u8>> {
        self.0.all().map(|user| user.name.to_vec()).collect()
    }

    /// Whether a user may send this request.
    pub fn may(&self, name: &[u8], arguments: &[&[u8]]) -> bool {
        let asked = NamedRequest::of(arguments).asked();
        let user = self.0.named(name);
        user.zip(asked)
            .is_some_and(|(user, asked)| user.check(asked).is_ok())
    }

    /// Whether a password lets a user in.
    pub fn accepts(&self, name: &[u8], password: &[u8]) -> bool {
        let user = self.0.named(name);
        user.is_some_and(|user| user.accepts(password))
    }
}

/// CONFIG REWRITE of a node with these users, which was started with another configuration.
///
/// # Errors
/// Why the file is what it was.
pub fn rewrite(
    config: &Config,
    path: &Path,
    files: &dyn Files,
    started: &Config,
    users: &Users,
) -> Result<(), String> {
    config.rewrite(path, files, started, &users.0)
}
