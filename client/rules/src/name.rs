//! A lock's name: what may be one, and how it is shown to people.

use std::fmt;
use std::sync::Arc;

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
}
