//! What the holder of a lock says about itself, for the people who look at it: 1 to 256 bytes of UTF-8 without control characters.

use std::sync::Arc;

/// Whether nodes take this text.
///
/// # Errors
/// With the reason, if they do not.
pub fn check(text: &str) -> Result<(), Arc<str>> {
    let is_good = (1..=BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    match is_good {
        true => Ok(()),
        false => Err(Arc::from(format!(
            "what a holder or candidate says about itself has 1 to {BYTES_MAX} bytes and no control characters"
        ))),
    }
}

/// As much of it as nodes take; nothing where all of it is control characters.
#[must_use]
pub fn fitted(text: &str) -> String {
    let mut fitted: String = text.chars().filter(|one| !one.is_control()).collect();
    fitted.truncate(fitted.floor_char_boundary(BYTES_MAX));
    fitted
}

const BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fitted_is_taken_whatever_it_was() {
        assert_eq!(fitted("web3: rsync"), "web3: rsync");
        let hostile = format!("\n\u{1b}[2J{}", "\u{10ffff}".repeat(500));
        assert!(check(&hostile).is_err());
        let fitted = fitted(&hostile);
        assert!(fitted.starts_with("[2J") && fitted.len() > 250, "{fitted}");
        assert_eq!(check(&fitted), Ok(()));
        assert!(check("").is_err() && check(&"x".repeat(257)).is_err());
    }
}
