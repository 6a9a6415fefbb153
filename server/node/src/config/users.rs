//! The users of a configuration: `user` lines, or the file that `aclfile` names. Both at once are refused, as by Redis.
//!
//! Invariant: no password is in a message. A file is taken whole, or the node does not start.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::directive::Directive;
use super::times::{path, show_path};
use super::value::one;
use super::{Config, Files, Problem};
use crate::acl::{DEFAULT, Users};

/// What `user` lines or a file say.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfiguredUsers {
    users: Option<Users>,
    names: Vec<String>,
}

/// The directive of their file.
pub(super) const FILE: Directive = Directive::used(
    "aclfile",
    "\"\"",
    "a path",
    "A file of `user` lines in their place. A relative path begins in `dir`. ACL LOAD reads it again, ACL SAVE writes it.",
    |c, v| path(one(v)?).map(|path| c.aclfile = path),
    |c| show_path(&c.aclfile),
);

/// That of one of them.
pub(super) const LINE: Directive = Directive::adds(
    "user",
    "a name and rules, as ACL SETUSER",
    "A user, one line each. A user that is `default` begins with no rights and no password.",
    set,
);

/// A `user` line.
fn set(config: &mut Config, values: &[String]) -> Result<(), Problem> {
    let Some((name, rules)) = values.split_first() else {
        return Err(Problem::wrong_number_of_arguments());
    };
    let configured = &mut config.users;
    if configured.names.contains(name) {
        return Err(Problem::new(
            "Duplicate user found. A user can only be defined once in config files",
        ));
    }
    let mut users = configured.users.clone().unwrap_or_else(|| Users::new(None));
    let rules: Vec<&[u8]> = rules.iter().map(String::as_bytes).collect();
    users
        .add_line(name.as_bytes(), &rules)
        .map_err(Problem::new)?;
    configured.users = Some(users);
    configured.names.push(name.clone());
    Ok(())
}

impl Config {
    /// Whether users are defined by lines of their own.
    pub fn has_user_lines(&self) -> bool {
        !self.users.names.is_empty()
    }

    /// Reads the file that `aclfile` names, if one does.
    ///
    /// # Errors
    /// When there are `user` lines as well, the file cannot be read, or a line of it is wrong. The text names file and line.
    pub fn read_users(&mut self, files: &dyn Files) -> Result<(), Problem> {
        let Some(path) = self.users_file() else {
            return Ok(());
        };
        if !self.users.names.is_empty() {
            return Err(Problem::new(
                "users are defined by user lines and by an ACL file. This is very likely to lead to configuration \
                 errors and security holes: define them in one place and not in both",
            ));
        }
        let text = read_file(files, &path).map_err(Problem::new)?;
        let name = path.display().to_string();
        let users = self.initial_users().read(&name, &text);
        self.users.users = Some(users.map_err(|errors| Problem::new(errors.0))?);
        let notice = files.is_public(&path).then(|| PUBLIC_FILE.to_owned());
        self.replace_notice("aclfile", notice);
        Ok(())
    }

    /// Where `aclfile` is: a relative path begins in `dir`.
    pub(crate) fn users_file(&self) -> Option<PathBuf> {
        self.aclfile.as_ref().map(|path| self.dir.join(path))
    }

    /// The users that a node begins with. `requirepass` is about the default user, unless a line is.
    pub(crate) fn initial_users(&self) -> Users {
        let password = self.requirepass.as_ref();
        let password = password.map(|password| password.as_str().as_bytes());
        let is_said = self.users.names.iter().any(|it| it.as_bytes() == DEFAULT);
        match &self.users.users {
            None => Users::new(password),
            Some(users) => {
                let mut users = users.clone();
                if !is_said && !self.users.names.is_empty() {
                    users.set_default_password(password);
                }
                users
            }
        }
    }
}

/// Reads a file of users.
///
/// # Errors
/// What Redis says of it.
pub(crate) fn read_file(files: &dyn Files, path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    if files.is_special(path) {
        return Err(format!(
            "Error loading ACLs, opening file '{name}': it is no file"
        ));
    }
    let mut text = Vec::new();
    let read = files.open(path).and_then(|file| {
        let length = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        match length as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("it is larger than 16 MiB")),
            false => Ok(()),
        }
    });
    read.map_err(|error| format!("Error loading ACLs, opening file '{name}': {error}"))?;
    Ok(text)
}

const PUBLIC_FILE: &str = "every user of this machine can read the file, and with it try passwords as quickly as a machine \
    can: take away their permission with chmod o-r";
const FILE_BYTES_MAX: u64 = 16 << 20;
