//! The owner's random value: what a node stores under a lock's name.
//!
//! Invariant: a fresh token is drawn for every attempt and never reused, so that a late release
//! of one attempt cannot free the next one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// The value that proves who owns a lock. Keep it as secret as the lock is important: whoever
/// knows it can extend and release the lock.
///
/// # Example
/// ```
/// use quorlock_client::Token;
///
/// let token = Token::from("0123456789abcdef"); // as another program has printed it
/// assert_eq!(token.as_bytes(), b"0123456789abcdef");
/// assert_eq!(format!("{token:?}"), "Token(0123...)"); // what is logged does not release the lock
/// assert_ne!(Token::fresh(), Token::fresh());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(Bytes);

impl Token {
    /// A token of 128 random bits, as 32 hexadecimal digits.
    #[must_use]
    pub fn fresh() -> Self {
        let random: u128 = rand::random();
        Self::from_bits(random)
    }

    /// A token of the next 128 bits of a generator, which must not be guessable.
    pub(crate) fn drawn_from(random: &mut dyn rand::Rng) -> Self {
        Self::from_bits(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()))
    }

    fn from_bits(bits: u128) -> Self {
        Self(Bytes::from(format!("{bits:032x}")))
    }

    /// A token of one attempt of a caller who has named what it begins with. Callers use one name for several attempts, and a
    /// late release of one of those must not free what the next one took.
    ///
    /// Those of readers have another mark: nodes free and extend their locks in another way, and whoever has no more than the
    /// token has to know which.
    pub(crate) fn of_attempt(own: &[u8], is_shared: bool, random: &mut dyn rand::Rng) -> Self {
        let mark = if is_shared { READER_MARK } else { ATTEMPT_MARK };
        let mut token = Vec::with_capacity(own.len() + ATTEMPT_BYTES);
        token.extend_from_slice(own);
        token.extend_from_slice(mark);
        token.extend_from_slice(format!("{:016x}", random.next_u64()).as_bytes());
        Self(Bytes::from(token))
    }

    /// What the caller has named, where the token was made for one attempt of a caller who has named its own; else all of it.
    #[must_use]
    pub fn without_attempt(&self) -> &[u8] {
        self.own_and_mark().map_or(&self.0, |(own, _)| own)
    }

    fn own_and_mark(&self) -> Option<(&[u8], &[u8])> {
        let at = self.0.len().checked_sub(ATTEMPT_BYTES)?;
        let (own, attempt) = self.0.split_at(at);
        let (mark, digits) = attempt.split_at(ATTEMPT_MARK.len());
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_mark = mark == ATTEMPT_MARK || mark == READER_MARK;
        (is_mark && digits.iter().all(is_digit)).then_some((own, mark))
    }

    /// The token of another attempt of the same caller; none where the token is of no attempt, so that who holds it knows all of it.
    #[doc(hidden)]
    #[must_use]
    pub fn next_attempt(&self, random: &mut dyn rand::Rng) -> Option<Self> {
        let own = self.without_attempt();
        (own.len() < self.0.len()).then(|| Self::of_attempt(own, is_of_reader(self), random))
    }

    /// A token that was handed over from elsewhere, byte for byte. Calls refuse one of more than 1024 bytes.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The token's beginning, for texts that are read by others than its owner: enough to tell
    /// two holders apart, too little to release the lock. A quarter of the token at most, and six
    /// characters.
    #[must_use]
    pub fn hint(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let count = text.chars().count();
        let shown = text.chars().take(HINT_CHARACTERS.min(count / 4));
        let mut hint: String = shown
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        if count > 0 {
            hint.push_str("...");
        }
        hint
    }

    /// The token as it is stored on the nodes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether a token may be sent: a node may close a connection on a request that is too long for it, with everything else
/// that is on it.
///
/// # Errors
/// When it is too long.
pub fn check_token(token: &Token) -> Result<(), Arc<str>> {
    if token.as_bytes().len() > TOKEN_BYTES_MAX {
        let text = format!("a token has {TOKEN_BYTES_MAX} bytes at most");
        return Err(Arc::from(text));
    }
    Ok(())
}

/// Whether the token is that of one attempt of a reader who has named its own.
#[must_use]
pub fn is_of_reader(token: &Token) -> bool {
    let marked = token.own_and_mark();
    marked.is_some_and(|(_, mark)| mark == READER_MARK)
}

/// The longest token that is sent, and that is shown of another holder. Those of all known clients have less than 100.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;
/// Between what a caller has named and the number of its attempt, which is random.
const ATTEMPT_MARK: &[u8] = b"~attempt-";
/// The same where the lock is held beside others who read: as long as the other one.
const READER_MARK: &[u8] = b"~sharing-";
const ATTEMPT_DIGITS: usize = 16;
const ATTEMPT_BYTES: usize = ATTEMPT_MARK.len() + ATTEMPT_DIGITS;
/// The longest that a caller may name: with the number of its attempt it is no longer than a token may be.
pub const OWN_TOKEN_BYTES_MAX: usize = TOKEN_BYTES_MAX - ATTEMPT_BYTES;
const HINT_CHARACTERS: usize = 6;

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token({})", self.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_tokens_are_long_and_differ() {
        let (first, second) = (Token::fresh(), Token::fresh());
        assert_ne!(first, second);
        assert_eq!(first.as_bytes().len(), 32);
    }

    #[test]
    fn every_digit_of_a_token_is_drawn() {
        use rand::SeedableRng as _;
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let drawn = (0..200).map(|_| Token::drawn_from(&mut random));
        let drawn: Vec<Token> = drawn.collect();
        let fresh: Vec<Token> = (0..200).map(|_| Token::fresh()).collect();
        for tokens in [drawn, fresh] {
            for digit in 0..32 {
                // Of 16 values, less than 8 in 200 draws are less likely than 1 in 10^55.
                let values = tokens.iter().map(|token| token.as_bytes()[digit]);
                let values: std::collections::BTreeSet<u8> = values.collect();
                assert!(values.len() >= 8, "digit {digit} is one of {values:?}");
            }
        }
    }

    #[test]
    fn each_attempt_of_a_caller_has_a_token_of_its_own_that_shows_the_callers() {
        use rand::SeedableRng as _;
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let longest = vec![b'x'; OWN_TOKEN_BYTES_MAX];
        for own in [&b"job-7"[..], b"", b"a~attempt-0123456789abcdef", &longest] {
            let first = Token::of_attempt(own, false, &mut random);
            let second = Token::of_attempt(own, false, &mut random);
            let reader = Token::of_attempt(own, true, &mut random);
            assert_eq!(reader.without_attempt(), own);
            assert!(is_of_reader(&reader) && !is_of_reader(&first));
            assert_ne!(first, second);
            assert_eq!(
                (first.without_attempt(), second.without_attempt()),
                (own, own)
            );
            assert_eq!(check_token(&first), Ok(()));
            let third = first
                .next_attempt(&mut random)
                .expect("it is of an attempt");
            assert_ne!(third, first);
            assert_eq!(third.without_attempt(), own);
        }
        for plain in [
            "",
            "job-7",
            "a~attempt-0123456789abcdeg",
            "~attempt-0123",
            "a~reading-0123456789abcdef",
            "a~attempt-0123456789ABCDEF",
        ] {
            let token = Token::from(plain);
            assert_eq!(token.without_attempt(), plain.as_bytes());
            assert_eq!(token.next_attempt(&mut random), None);
            assert!(!is_of_reader(&token));
        }
    }

    #[test]
    fn what_is_written_about_a_token_does_not_release_the_lock() {
        for (token, hint) in [
            ("0123456789abcdef0123456789abcdef", "012345..."),
            ("worker-7", "wo..."),
            ("t1", "..."),
            ("", ""),
            ("\x1b[2Jabcdefgh", "?[2..."),
        ] {
            let token = Token::from(token);
            assert_eq!(token.hint(), hint);
            assert_eq!(format!("{token:?}"), format!("Token({hint})"));
        }
    }

    #[test]
    fn a_token_is_shown_as_it_is_stored() {
        let token = Token::from_bits(0xab);
        assert_eq!(token.to_string().as_bytes(), token.as_bytes());
        assert!(token.to_string().ends_with("00ab"));
        assert_eq!(Token::from("t1").to_string(), "t1");
    }
}
