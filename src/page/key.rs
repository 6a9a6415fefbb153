//! What the address of a page ends with, so that only who was told it sees the page.

use std::fmt;

use rand::Rng as _;

/// 128 random bits.
#[derive(Clone)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn random() -> Self {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether this is the query of an address that ends with the key. It takes the same time wherever they differ.
    pub(super) fn is_in(&self, query: Option<&str>) -> bool {
        let said = query.and_then(|query| query.strip_prefix("key="));
        let said = said.unwrap_or_default().as_bytes();
        let differences = self.0.bytes().zip(said).map(|(one, other)| one ^ other);
        said.len() == self.0.len() && differences.fold(0, |all, one| all | one) == 0
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key is a secret.
impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_opens() {
        let key = Key::random();
        let text = key.as_str().to_owned();
        assert_eq!(text.len(), 32);
        assert_ne!(text, Key::random().as_str());
        let query = format!("key={text}");
        assert!(key.is_in(Some(&query)));
        for other in [
            None,
            Some(""),
            Some("key="),
            Some(&text[..]),
            Some(&query[..query.len() - 1]),
            Some(&format!("{query}0")),
            Some(&query.replace("key", "kex")),
            Some("key=00000000000000000000000000000000"),
        ] {
            assert!(!key.is_in(other), "{other:?}");
        }
    }
}
