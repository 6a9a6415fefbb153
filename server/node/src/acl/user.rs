//! One user: its passwords, whether it may log in, and what it may do.

use crate::acl::RuleError;
use crate::acl::password::Hash;
use crate::acl::selector::Selector;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// Another number for each user that was ever made: one that is made again under a name is not the same.
    pub(crate) id: u64,
    pub(crate) name: Box<[u8]>,
    is_on: bool,
    /// Every password is right.
    needs_no_password: bool,
    payloads: Payloads,
    passwords: Vec<Hash>,
    /// Its own rules, outside of parentheses.
    pub(super) root: Selector,
    pub(super) selectors: Vec<Selector>,
}

/// Redis's rule about RESTORE, which a node shows and always checks payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payloads {
    Unsaid,
    Sanitized,
    Skipped,
}

impl User {
    /// One that may do nothing, and not log in.
    pub(super) fn new(id: u64, name: &[u8]) -> Self {
        Self {
            id,
            name: name.into(),
            is_on: false,
            needs_no_password: false,
            payloads: Payloads::Unsaid,
            passwords: Vec::new(),
            root: Selector::default(),
            selectors: Vec::new(),
        }
    }

    /// The default user of a node where nothing was said: it may do everything, and needs no password.
    pub(super) fn default_user(id: u64) -> Self {
        Self {
            is_on: true,
            needs_no_password: true,
            root: Selector::all(),
            ..Self::new(id, DEFAULT)
        }
    }

    /// Applies a rule. One that is refused may have changed the user, who is then to be thrown away.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.payloads = Payloads::Skipped,
            b"sanitize-payload" => self.payloads = Payloads::Sanitized,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = Self {
                    payloads: Payloads::Sanitized,
                    ..Self::new(self.id, &self.name)
                };
            }
            _ => return self.apply_other(rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add(Hash::of(password)),
            [b'#', digits @ ..] => self.add(Hash::parse(digits)?),
            [b'<', password @ ..] => self.remove(Hash::of(password)),
            [b'!', digits @ ..] => self.remove(Hash::parse(digits)?),
            [b'(', rules @ .., b')'] => {
                let selector = Selector::parse(rules)?;
                if self.selectors.len() >= SELECTORS_MAX {
                    return Err(RuleError::TooMany);
                }
                self.selectors.push(selector);
                Ok(())
            }
            _ => self.root.apply(rule),
        }
    }

    fn add(&mut self, hash: Hash) -> Result<(), RuleError> {
        if !self.passwords.contains(&hash) {
            if self.passwords.len() >= PASSWORDS_MAX {
                return Err(RuleError::TooMany);
            }
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
        Ok(())
    }

    fn remove(&mut self, hash: Hash) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| *known == hash);
        let place = place.ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(place);
        Ok(())
    }

    /// `requirepass`: this is its only password, and without one it needs none.
    pub(super) fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords = password.map(Hash::of).into_iter().collect();
        self.needs_no_password = password.is_none();
    }

    /// Whether this password lets it in.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        // Hashed first, so that the time does not tell whether there is a password.
        let is_right = Hash::of(password).is_among(&self.passwords);
        self.is_on && (is_right || self.needs_no_password)
    }

    /// Whether every password is right.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether nobody has to log in, if it is the default user.
    pub(crate) fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether it may do everything, so that nothing has to be checked.
    pub(crate) fn may_do_all(&self) -> bool {
        self.selectors_all().any(Selector::allows_all)
    }

    /// All selectors, its own first.
    pub(crate) fn selectors_all(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether it may listen to a channel, or to a pattern of channels.
    pub(crate) fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let mut selectors = self.selectors_all();
        selectors.any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Redis's flags of it.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        match self.payloads {
            Payloads::Unsaid => {}
            Payloads::Sanitized => flags.push("sanitize-payload"),
            Payloads::Skipped => flags.push("skip-sanitize-payload"),
        }
        flags
    }

    /// The SHA-256 of each password, in hexadecimal.
    pub(crate) fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(Hash::show).collect()
    }

    /// All rules, as they can be given again.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let flags = self.flags().into_iter().map(str::to_owned);
        let passwords = self.passwords().into_iter().map(|hash| format!("#{hash}"));
        let words = flags.chain(passwords).map(String::into_bytes);
        let mut rules: Vec<Vec<u8>> = words.collect();
        rules.push(self.root.describe());
        let others = self.selectors.iter();
        rules.extend(others.map(|one| [b"(", &*one.describe(), b")"].concat()));
        rules.join(&b' ')
    }
}

/// The user of a connection that has not logged in as another one. It always exists.
pub(crate) const DEFAULT: &[u8] = b"default";
const PASSWORDS_MAX: usize = 128;
const SELECTORS_MAX: usize = 64;
