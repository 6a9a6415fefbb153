//! Passwords as they are kept: as their SHA-256.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::acl::RuleError;

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; HASH_BYTES]);

impl Hash {
    /// That of a password.
    pub(super) fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// Reads 64 hexadecimal digits in lower case, as Redis wants them.
    pub(super) fn parse(digits: &[u8]) -> Result<Self, RuleError> {
        let (pairs, []) = digits.as_chunks::<2>() else {
            return Err(RuleError::NotAHash);
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(|pair| byte(*pair)).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(RuleError::NotAHash)
    }

    /// The digits of it.
    pub(super) fn show(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it is among others: takes the same time wherever it is, and whatever it shares with them.
    pub(super) fn is_among(&self, others: &[Hash]) -> bool {
        let is_any = others.iter().fold(Choice::from(0), |is_any, other| {
            is_any | self.0.ct_eq(&other.0)
        });
        is_any.into()
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hash(hidden)")
    }
}

fn byte([high, low]: [u8; 2]) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const HASH_BYTES: usize = 32;
