//! A lock's name, or the names of several locks that are taken together: what may be one, and how it is shown to people.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// What is locked: one name as a rule, or several that are locked together, all or none.
///
/// Invariant: several are in ascending order, and each is there once. So whoever names the same ones, in whichever order,
/// means the same lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(NameParts);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum NameParts {
    One(Bytes),
    /// Two at least, or none.
    Several(Arc<[Bytes]>),
}

impl LockName {
    /// All these names together. One that is there twice counts once.
    pub fn of_all(names: impl IntoIterator<Item = Bytes>) -> Self {
        let mut names: Vec<Bytes> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        match <[Bytes; 1]>::try_from(names) {
            Ok([name]) => Self(NameParts::One(name)),
            Err(names) => Self(NameParts::Several(names.into())),
        }
    }

    /// With this before each name.
    #[must_use]
    pub fn behind(&self, prefix: &[u8]) -> Self {
        // The order of the names stays as it is.
        Self::of_all(self.parts().iter().map(|name| behind(prefix, name)))
    }

    /// The names.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        match &self.0 {
            NameParts::One(name) => std::slice::from_ref(name),
            NameParts::Several(names) => names,
        }
    }

    /// The name, if it is one.
    #[must_use]
    pub fn single(&self) -> Option<&Bytes> {
        match &self.0 {
            NameParts::One(name) => Some(name),
            NameParts::Several(_) => None,
        }
    }

    /// The first of them; nothing where there is none.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        self.parts().first().map_or(&[], |name| &name[..])
    }

    /// Whether a lock may have this name.
    ///
    /// # Errors
    /// When there is none or too many of them, one is empty, or all together are too long.
    pub fn check(&self) -> Result<(), Arc<str>> {
        let names = self.parts();
        if let [name] = names {
            return check_name(name);
        }
        if !(1..=NAMES_MAX).contains(&names.len()) {
            let count = names.len();
            let text = format!("1 to {NAMES_MAX} names are locked together, not {count}");
            return Err(Arc::from(text));
        }
        names.iter().try_for_each(|name| check_name(name))?;
        match names.iter().map(Bytes::len).sum::<usize>() {
            NAME_BYTES_MAX.. => Err(Arc::from(format!(
                "names that are locked together have fewer than {NAME_BYTES_MAX} bytes in all"
            ))),
            _ => Ok(()),
        }
    }

    /// As it is shown to people.
    #[must_use]
    pub fn shown(&self) -> Arc<str> {
        match &self.0 {
            NameParts::One(name) => shown(name),
            NameParts::Several(names) => shown(&names.join(&b", "[..])),
        }
    }
}

impl<T: Into<Bytes>> From<T> for LockName {
    fn from(name: T) -> Self {
        Self(NameParts::One(name.into()))
    }
}

/// A name with this before it.
#[must_use]
pub fn behind(prefix: &[u8], name: &Bytes) -> Bytes {
    match prefix {
        [] => name.clone(),
        prefix => Bytes::from([prefix, name].concat()),
    }
}

/// Whether a lock may have this name.
///
/// # Errors
/// When it is empty or too long.
pub fn check_name(name: &[u8]) -> Result<(), Arc<str>> {
    match name.len() {
        0 => Err(Arc::from("a lock needs a name")),
        NAME_BYTES_MAX.. => Err(Arc::from(format!(
            "a lock's name has fewer than {NAME_BYTES_MAX} bytes"
        ))),
        _ => Ok(()),
    }
}

/// A lock's name as it is shown to people.
#[must_use]
pub fn shown(name: &[u8]) -> Arc<str> {
    struct Shown<'a>(&'a [u8]);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            let cut = &self.0[..self.0.len().min(200)];
            for character in String::from_utf8_lossy(cut).chars() {
                if character.is_control() {
                    write!(formatter, "{}", character.escape_default())?;
                } else {
                    write!(formatter, "{character}")?;
                }
            }
            if cut.len() < self.0.len() {
                formatter.write_str("...")
            } else {
                Ok(())
            }
        }
    }
    Arc::from(Shown(name).to_string())
}

const NAME_BYTES_MAX: usize = 64 * 1024;

/// The most names that are locked together. A node looks at all of them at once.
pub const NAMES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_shown_without_control_characters() {
        assert!(check_name(b"").is_err());
        assert!(check_name(&[b'x'; NAME_BYTES_MAX]).is_err());
        assert!(check_name(&[b'x'; NAME_BYTES_MAX - 1]).is_ok());
        assert_eq!(&*shown(b"a\r\nb\x1b"), "a\\r\\nb\\u{1b}");
        assert!(shown(&[b'x'; 1000]).len() < 210);
    }

    #[test]
    fn a_prefix_is_before_each_of_several_names() {
        let both = LockName::of_all(["b", "a"].map(Bytes::from));
        assert_eq!(both.behind(b"x:").parts(), ["x:a", "x:b"]);
        assert_eq!(both.behind(b""), both);
        assert_eq!(behind(b"x:", &Bytes::from("a")), "x:a");
    }

    #[test]
    fn several_names_are_the_same_in_any_order_and_however_often_they_are_said() {
        let all = |names: &[&'static str]| LockName::of_all(names.iter().copied().map(Bytes::from));
        assert_eq!(all(&["b", "a", "b"]), all(&["a", "b"]));
        assert_eq!(all(&["a", "a"]), LockName::from("a"));
        assert_eq!(&*all(&["b", "a\n"]).shown(), "a\\n, b");
        assert_eq!(all(&["a", "b"]).single(), None);
        assert_eq!(LockName::from("a").parts(), ["a"]);
    }

    #[test]
    fn names_that_are_locked_together_are_bounded_in_number_and_length() {
        let counted = |count: usize| {
            LockName::of_all((0..count).map(|number| Bytes::from(number.to_string())))
        };
        for (count, good) in [
            (0, false),
            (1, true),
            (2, true),
            (NAMES_MAX, true),
            (NAMES_MAX + 1, false),
        ] {
            assert_eq!(counted(count).check().is_ok(), good, "{count}");
        }
        let long = |bytes| LockName::of_all([Bytes::from("a"), Bytes::from(vec![b'x'; bytes])]);
        assert!(long(NAME_BYTES_MAX - 2).check().is_ok());
        assert!(long(NAME_BYTES_MAX - 1).check().is_err());
        assert!(long(0).check().is_err());
    }
}
