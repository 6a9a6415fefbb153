//! All users of a node: changed by a list of rules, read from the lines of a file, and written as such.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::acl::RuleError;
use crate::acl::selector::has_spaces;
use crate::acl::user::{DEFAULT, User};

/// All users, by their names.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    next_id: u64,
}

/// What is wrong with a file of users: every line, as Redis reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileErrors(pub(crate) String);

impl Users {
    /// The default user alone, who needs this password.
    pub(crate) fn new(password: Option<&[u8]>) -> Self {
        let mut user = User::default_user(0);
        user.set_password(password);
        Self {
            by_name: BTreeMap::from([(DEFAULT.into(), Arc::new(user))]),
            next_id: 1,
        }
    }

    /// The user of this name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The default user.
    pub(crate) fn default_user(&self) -> &Arc<User> {
        &self.by_name[DEFAULT]
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// ACL SETUSER: changes a user, or makes it. With an error nothing has happened.
    ///
    /// # Errors
    /// Redis's text, without the code.
    pub(crate) fn set(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        if has_spaces(name) {
            return Err(b"Usernames can't contain spaces or null characters".to_vec());
        }
        if name.len() > NAME_BYTES_MAX || self.lacks_room_for(name) {
            return Err(TOO_MANY.to_vec());
        }
        let rules = rules_of(rules).map_err(|rule| unmatched(&rule))?;
        let mut user = match self.by_name.get(name) {
            Some(user) => User::clone(user),
            None => User::new(self.next_id, name),
        };
        for rule in &rules {
            user.apply(rule).map_err(|error| modifier(rule, error))?;
        }
        self.insert(user);
        Ok(())
    }

    fn lacks_room_for(&self, name: &[u8]) -> bool {
        self.by_name.len() >= USERS_MAX && !self.by_name.contains_key(name)
    }

    fn insert(&mut self, user: User) {
        self.next_id = self.next_id.max(user.id + 1);
        self.by_name.insert(user.name.clone(), Arc::new(user));
    }

    /// ACL DELUSER of one name, which is not the default user's; says whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT && self.by_name.remove(name).is_some()
    }

    /// `requirepass`.
    pub(crate) fn set_default_password(&mut self, password: Option<&[u8]>) {
        let mut user = User::clone(self.default_user());
        user.set_password(password);
        self.insert(user);
    }

    /// A `user` line of a configuration, without its first word.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn add_line(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), String> {
        if has_spaces(name) {
            return Err("Spaces not allowed in ACL usernames".to_owned());
        }
        if name.len() > NAME_BYTES_MAX || self.lacks_room_for(name) {
            return Err(String::from_utf8_lossy(TOO_MANY).into_owned());
        }
        let rules = rules_of(rules).map_err(|rule| shown(&unmatched(&rule)))?;
        let mut user = match name == DEFAULT {
            true => {
                let mut user = User::clone(self.default_user());
                let _ = user.apply(b"reset");
                user
            }
            false => User::new(self.next_id, name),
        };
        for rule in &rules {
            let name = String::from_utf8_lossy(name);
            user.apply(rule).map_err(|error| {
                let rule = shown_rule(rule);
                format!("Error loading ACL rule '{rule}' for the user named '{name}': {error}")
            })?;
        }
        self.insert(user);
        Ok(())
    }

    /// The users of a file, in place of these. A user whose rules and passwords are what they were stays the same one.
    ///
    /// # Errors
    /// What is wrong in which lines: then nothing is to be changed. `file` is its name, for the texts.
    pub(crate) fn read(&self, file: &str, text: &[u8]) -> Result<Users, FileErrors> {
        let mut users = Users {
            by_name: BTreeMap::new(),
            next_id: self.next_id,
        };
        let mut errors = String::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let place = format!("{file}:{}", index + 1);
            users.read_line(&place, line.trim_ascii(), &mut errors);
            if errors.len() > ERROR_BYTES_MAX {
                errors.push_str("More follow. ");
                break;
            }
        }
        if !errors.is_empty() {
            errors.push_str(
                "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
            );
            return Err(FileErrors(errors));
        }
        if !users.by_name.contains_key(DEFAULT) {
            // Redis would let everybody in as a default user that needs no password.
            users.insert(User::clone(self.default_user()));
        }
        users.keep_unchanged(self);
        Ok(users)
    }

    /// A user that is the same as before keeps its number, and the default user always does.
    fn keep_unchanged(&mut self, before: &Users) {
        for user in self.by_name.values_mut() {
            let Some(old) = before.by_name.get(&user.name) else {
                continue;
            };
            if *user.name == *DEFAULT || old.describe() == user.describe() {
                Arc::make_mut(user).id = old.id;
            }
        }
    }

    fn read_line(&mut self, place: &str, line: &[u8], errors: &mut String) {
        if line.is_empty() {
            return;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // Writing to a String cannot fail.
        let _ = match &*words {
            [b"user", name, rules @ ..] => match self.read_user(name, rules, place) {
                Ok(()) => Ok(()),
                Err(error) => write!(errors, "{error}"),
            },
            _ => write!(
                errors,
                "{place} should start with user keyword followed by the username. "
            ),
        };
    }

    fn read_user(&mut self, name: &[u8], rules: &[&[u8]], place: &str) -> Result<(), String> {
        let shown_name = String::from_utf8_lossy(name);
        if has_spaces(name) || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "{place}: username '{shown_name}' contains invalid characters. "
            ));
        }
        if self.by_name.contains_key(name) {
            let line = place.rsplit(':').next().unwrap_or_default();
            return Err(format!(
                "WARNING: Duplicate user '{shown_name}' found on line {line}. "
            ));
        }
        if self.lacks_room_for(name) {
            return Err(format!("{place}: {}. ", String::from_utf8_lossy(TOO_MANY)));
        }
        let rules = rules_of(rules)
            .map_err(|_| format!("{place}: Unmatched parenthesis in selector definition."))?;
        let mut user = User::new(self.next_id, name);
        let (mut wrong, mut is_described) = (String::new(), false);
        for rule in &rules {
            // Writing to a String cannot fail.
            let _ = match user.apply(rule.trim_ascii()) {
                Ok(()) => continue,
                // A command's name is no secret; other rules may hold a password.
                Err(error @ RuleError::Unknown) => {
                    let rule = shown_rule(rule);
                    write!(
                        wrong,
                        "{place}: Error in applying operation '{rule}': {error}. "
                    )
                }
                // Those behind it may be wrong because of it.
                Err(_) if is_described => continue,
                Err(error) => {
                    is_described = true;
                    write!(wrong, "{place}: {error}. ")
                }
            };
            if wrong.len() > ERROR_BYTES_MAX {
                break;
            }
        }
        // Where a line is wrong nothing of the file counts, but a second user of the name is one too many.
        self.insert(user);
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// The lines of a file with these users.
    pub(crate) fn write(&self) -> Vec<u8> {
        let line = |user: &Arc<User>| [&*line_of(user), b"\n"].concat();
        self.all().flat_map(line).collect()
    }
}

/// A user in the form of a configuration file.
pub(crate) fn line_of(user: &User) -> Vec<u8> {
    [b"user ", &*user.name, b" ", &*user.describe()].concat()
}

/// Rules, with those of a selector joined that stand in several words.
///
/// # Errors
/// The word in which a parenthesis opens that none closes.
pub(super) fn rules_of(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut rules = Vec::with_capacity(words.len());
    let mut open: Option<(Vec<u8>, &[u8])> = None;
    for &word in words {
        if let Some((mut rule, first)) = open.take() {
            rule.push(b' ');
            rule.extend_from_slice(word);
            match word.ends_with(b")") {
                true => rules.push(rule),
                false => open = Some((rule, first)),
            }
        } else if word.starts_with(b"(") && !word.ends_with(b")") {
            open = Some((word.to_owned(), word));
        } else {
            rules.push(word.to_owned());
        }
    }
    match open {
        Some((_, first)) => Err(first.to_owned()),
        None => Ok(rules),
    }
}

fn unmatched(word: &[u8]) -> Vec<u8> {
    let begin = b"Unmatched parenthesis in acl selector starting at '";
    [&begin[..], word, b"'."].concat()
}

fn modifier(rule: &[u8], error: RuleError) -> Vec<u8> {
    let error = error.to_string();
    let begin = b"Error in ACL SETUSER modifier '";
    let rule = &rule[..rule.len().min(RULE_BYTES_SHOWN)];
    [&begin[..], rule, b"': ", error.as_bytes()].concat()
}

/// A rule as a message may show it: without a password.
fn shown_rule(rule: &[u8]) -> String {
    match rule {
        [sign @ (b'>' | b'<' | b'#' | b'!'), ..] => format!("{}(hidden)", char::from(*sign)),
        rule => shown(&rule[..rule.len().min(RULE_BYTES_SHOWN)]),
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

const USERS_MAX: usize = 1000;
const NAME_BYTES_MAX: usize = 512;
const RULE_BYTES_SHOWN: usize = 1024;
const ERROR_BYTES_MAX: usize = 16 << 10;
const TOO_MANY: &[u8] = b"A node has at most 1000 users, with names of up to 512 bytes";
