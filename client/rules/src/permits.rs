//! A semaphore: so many permits, each a lock of its own under a name of its own.
//!
//! Invariant: a permit is held by the votes for its name alone. No node counts permits, so no more are held than there
//! are names.

use std::sync::Arc;

use bytes::Bytes;

use crate::name::check_name;

/// The name of the lock that is the permit of this index.
#[must_use]
pub fn permit_name(semaphore: &[u8], index: u32) -> Bytes {
    let index = index.to_string();
    Bytes::from([semaphore, INFIX, index.as_bytes()].concat())
}

/// The semaphore and the index, if a lock of this name is a permit. A lock that a program has named like one counts as it.
pub(crate) fn permit_of(name: &Bytes) -> Option<(Bytes, u32)> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let (before, index) = name.split_at(name.len() - digits.count());
    let semaphore = before.strip_suffix(INFIX)?.len();
    let index = std::str::from_utf8(index).ok()?.parse().ok()?;
    let semaphore = name.slice(..semaphore);
    (permit_name(&semaphore, index) == *name).then_some((semaphore, index))
}

/// Whether a semaphore may have this name and so many permits.
///
/// # Errors
/// When there are no permits or too many, or the names of its permits would be too long.
pub fn check_permits(semaphore: &[u8], permits: u32) -> Result<(), Arc<str>> {
    if !(1..=PERMITS_MAX).contains(&permits) {
        return Err(Arc::from(format!(
            "a semaphore has 1 to {PERMITS_MAX} permits, not {permits}"
        )));
    }
    check_name(semaphore)?;
    check_name(&permit_name(semaphore, PERMITS_MAX))
}

/// The most permits of a semaphore. A caller that does not wait asks for each of them where nodes do not say which ones they have.
pub const PERMITS_MAX: u32 = 1_024;

const INFIX: &[u8] = b":permit:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_permits_only_if_it_is_spelled_like_one() {
        assert_eq!(&permit_name(b"a", 0)[..], b"a:permit:0");
        for (semaphore, index) in [("a", 0), ("a", 1_023), ("a:permit:2", 17), ("", 3)] {
            let name = permit_name(semaphore.as_bytes(), index);
            let expected = (Bytes::from_static(semaphore.as_bytes()), index);
            assert_eq!(permit_of(&name), Some(expected));
        }
        for other in [
            "",
            "a",
            "7",
            "a:permit:",
            "a:permit:01",
            "a:permit:x",
            "a:permit:99999999999",
        ] {
            assert_eq!(
                permit_of(&Bytes::from_static(other.as_bytes())),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn permits_are_bounded_and_so_are_their_names() {
        for (permits, good) in [
            (0, false),
            (1, true),
            (PERMITS_MAX, true),
            (PERMITS_MAX + 1, false),
        ] {
            assert_eq!(check_permits(b"a", permits).is_ok(), good, "{permits}");
        }
        let long = vec![b'x'; 64 * 1024 - 1];
        assert!(check_name(&long).is_ok() && check_permits(&long, 1).is_err());
        assert!(check_permits(b"", 1).is_err());
    }
}
