//! Whether a directory may be released to be moved, and whether it may be adopted where it is: what `quorlock node release`
//! and `quorlock node adopt` decide. They and the start read the same log through the same judge.
//!
//! Invariant: only what stopped cleanly, in the place of its last run, is released. So a log that ends with the release holds
//! all that the node has granted, and a copy from before the release does not end with it. Nothing is written here.

use std::fmt;
use std::str::FromStr;

use quorlock_engine::relocation::Relocation;
use quorlock_engine::restart::{History, Stop};
use quorlock_persistence::hexadecimal;
use sha2::{Digest, Sha256};

use crate::clock::Reading;
use crate::config::Config;
use crate::past::{self, Directory, Past, PastError, newest_incarnation};

/// What a release gives out and an adoption wants back. The log holds its digest only: whoever adopts has it from the
/// release, and a log cannot be adopted by what is read in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt([u8; 16]);

impl Receipt {
    /// Of these bytes, which must be random.
    pub(crate) const fn of(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// What the log holds of it.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hexadecimal(&self.0))
    }
}

/// A text that is no receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a receipt is the 32 hexadecimal digits that quorlock node release has printed")]
pub struct NoReceipt;

impl FromStr for Receipt {
    type Err = NoReceipt;

    fn from_str(text: &str) -> Result<Self, NoReceipt> {
        // Digits only: a sign would be read as part of a number.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoReceipt);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NoReceipt)?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// Why a directory is not released, or not adopted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelocationRefusal {
    /// It stopped otherwise than cleanly.
    #[error(
        "the node in {directory} cannot be released, because its last stop does not count as a clean one: {reason}. Nothing was \
         changed. Start the node here, wait until it serves, and stop it in order (SIGTERM); then release it"
    )]
    NotClean {
        /// The directory.
        directory: String,
        /// How it stopped, for people.
        reason: &'static str,
    },
    /// It has never run.
    #[error(
        "the node in {directory} has never run, so it has granted nothing: move it as it is. Nothing was changed"
    )]
    NeverRan {
        /// The directory.
        directory: String,
    },
    /// It was released before.
    #[error(
        "the node in {directory} was released already. Nothing was changed. Adopt it where it is to go on: quorlock node adopt \
         DIR --receipt RECEIPT, or with --wait if the receipt is lost"
    )]
    AlreadyReleased {
        /// The directory.
        directory: String,
    },
    /// It was not released, or was adopted since.
    #[error(
        "the node in {directory} is not released, so there is nothing to adopt: either it was adopted already, or this is a copy \
         from before the release. Nothing was changed. It can be started; the start waits for restart-delay-max where this \
         directory is not the one of its last run"
    )]
    NotReleased {
        /// The directory.
        directory: String,
    },
    /// It was released under another receipt.
    #[error(
        "this receipt is not that of the release in {directory}, so this may be a copy from an earlier move. Nothing was \
         changed. Check the receipt and the directory; if this is the node to go on with, adopt it with --wait: its next \
         start serves no locks for restart-delay-max"
    )]
    OtherReceipt {
        /// The directory.
        directory: String,
    },
    /// Something lies behind the release.
    #[error(
        "the log in {directory} does not end with its release: something that cannot be read follows it, as after a power \
         failure during an adoption. Nothing was changed. Copy the released directory again, or adopt it with --wait: its next \
         start serves no locks for restart-delay-max"
    )]
    NotAtItsEnd {
        /// The directory.
        directory: String,
    },
    /// Its past cannot be read.
    #[error("the log cannot be read")]
    Past(PastError),
}

impl From<PastError> for RelocationRefusal {
    fn from(error: PastError) -> Self {
        match error {
            PastError::Released { directory } => Self::AlreadyReleased { directory },
            other => Self::Past(other),
        }
    }
}

/// The number under which the directory is released: its next incarnation, which never starts.
pub(crate) fn release(
    directory: &Directory<'_>,
    history: History,
    now: &Reading,
) -> Result<u64, RelocationRefusal> {
    let policy = past::policy(&Config::default());
    let past = Past::judge(directory, history, now, &policy)?;
    let directory = directory.disk.describe("");
    match past.verdict.stop {
        Stop::Clean => Ok(past.newest_incarnation.saturating_add(1)),
        Stop::NeverRan => Err(RelocationRefusal::NeverRan { directory }),
        stop => Err(RelocationRefusal::NotClean {
            directory,
            reason: stop.reason(),
        }),
    }
}

/// The newest incarnation of a directory that may be adopted. Without a receipt any that is released may, and its next
/// start waits.
pub(crate) fn adopt(
    directory: &Directory<'_>,
    history: &History,
    shown: Option<&Receipt>,
) -> Result<u64, RelocationRefusal> {
    let name = || directory.disk.describe("");
    let Relocation::Released(digest) = history.relocation else {
        return Err(RelocationRefusal::NotReleased { directory: name() });
    };
    if let Some(receipt) = shown {
        if receipt.digest() != digest {
            return Err(RelocationRefusal::OtherReceipt { directory: name() });
        }
        let is_whole = directory.log.summary().only_zeros_follow;
        if !(history.is_shut_down && is_whole) {
            return Err(RelocationRefusal::NotAtItsEnd { directory: name() });
        }
    }
    Ok(newest_incarnation(directory, history)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_printed_and_nothing_else_is_one() {
        let receipt = Receipt::of(std::array::from_fn(|at| u8::try_from(at * 17).unwrap()));
        let text = receipt.to_string();
        assert_eq!(text, "00112233445566778899aabbccddeeff");
        assert_eq!(text.parse::<Receipt>(), Ok(receipt));
        assert_eq!(text.to_uppercase().parse::<Receipt>(), Ok(receipt));
        for other in [
            "",
            &text[1..],
            &format!("{text}0"),
            &format!("+{}", &text[1..]),
            &format!("{}g", &text[1..]),
        ] {
            assert_eq!(other.parse::<Receipt>(), Err(NoReceipt), "{other}");
        }
    }

    #[test]
    fn what_the_log_holds_of_a_receipt_is_its_sha_256() {
        // printf '\0%.0s' {1..16} | sha256sum
        let digest = Receipt::of([0; 16]).digest();
        assert_eq!(
            hexadecimal(&digest),
            "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb"
        );
    }
}
