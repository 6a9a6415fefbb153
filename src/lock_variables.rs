//! What a command or a shell is told about a lock: the variables `QUORLOCK_...`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use quorlock_client::{Guard, Lease, Token};

use crate::clock;

/// The variable that says what names begin with.
pub(crate) const PREFIX: &str = "QUORLOCK_PREFIX";

/// Those that not every lock has.
const OPTIONAL: [&str; 2] = ["QUORLOCK_FENCE", "QUORLOCK_PERMIT"];

/// What is told of a lock.
pub(crate) struct LockFacts<'a> {
    token: &'a Token,
    fence: Option<u64>,
    permit: Option<u32>,
    remaining: Duration,
}

impl<'a> From<&'a Guard> for LockFacts<'a> {
    fn from(guard: &'a Guard) -> Self {
        Self {
            token: guard.token(),
            fence: guard.fence(),
            permit: guard.permit(),
            remaining: guard.remaining(),
        }
    }
}

impl<'a> From<&'a Lease> for LockFacts<'a> {
    fn from(lease: &'a Lease) -> Self {
        Self {
            token: lease.token(),
            fence: lease.fence(),
            permit: None,
            remaining: lease.remaining(),
        }
    }
}

/// The variables, for a lock that was just acquired: its name as it is said to commands, which put the prefix before it.
pub(crate) fn of<'a>(
    name: &OsStr,
    lock: impl Into<LockFacts<'a>>,
    prefix: &str,
) -> Vec<(&'static str, OsString)> {
    let LockFacts {
        token,
        fence,
        permit,
        remaining,
    } = lock.into();
    let deadline = clock::wall().saturating_add(remaining);
    let mut variables = vec![
        ("QUORLOCK_NAME", name.to_owned()),
        (
            "QUORLOCK_TOKEN",
            OsStr::from_bytes(token.as_bytes()).to_owned(),
        ),
        ("QUORLOCK_DEADLINE", deadline.as_millis().to_string().into()),
    ];
    variables.extend(fence.map(|fence| ("QUORLOCK_FENCE", fence.to_string().into())));
    // Also where it is empty: the file of the nodes may say another one.
    variables.push((PREFIX, prefix.to_owned().into()));
    variables.extend(permit.map(|index| ("QUORLOCK_PERMIT", index.to_string().into())));
    variables
}

/// The variables in this process's environment that are those of another lock, and would pass for this one's: a fence, for one.
pub(crate) fn of_another(variables: &[(&str, OsString)]) -> impl Iterator<Item = &'static str> {
    let others = OPTIONAL.into_iter();
    let others = others.filter(move |name| variables.iter().all(|(set, _)| set != name));
    others.filter(|name| std::env::var_os(name).is_some())
}

/// Commands that give a shell these variables, whatever characters are in them, and none of another lock.
pub(crate) fn as_exports(variables: &[(&str, OsString)]) -> Vec<u8> {
    let unset = of_another(variables).map(|name| format!("unset {name}"));
    let mut text = unset.collect::<Vec<_>>().join("\n").into_bytes();
    for (name, value) in variables {
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend_from_slice(format!("export {name}=").as_bytes());
        quote(value, &mut text);
    }
    text
}

/// Between single quotes a shell takes every byte as it is, but for the quote itself.
fn quote(value: &OsStr, text: &mut Vec<u8>) {
    text.push(b'\'');
    for byte in value.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_quoted() {
        let quoted = |value: &[u8]| as_exports(&[("A", OsStr::from_bytes(value).to_owned())]);
        assert_eq!(quoted(b"plain"), b"export A='plain'");
        assert_eq!(quoted(b""), b"export A=''");
        assert_eq!(quoted(b"it's $(x)"), b"export A='it'\\''s $(x)'");
        assert_eq!(quoted(b"\xff\n`"), b"export A='\xff\n`'");
        let two = as_exports(&[("A", "1".into()), ("B", "2".into())]);
        assert_eq!(two, b"export A='1'\nexport B='2'");
    }
}
