//! What is shown of a request to somebody else than its client: all of it but secrets. Which arguments are secrets follows
//! from their command and from the words before them, whether or not the command was executed.

use crate::session::named_request::NamedRequest;

/// What stands for a secret, as in Redis.
pub(super) const REDACTED: &[u8] = b"(redacted)";

/// The arguments with what stands for secrets, the name first.
pub(super) fn redacted<'a>(request: NamedRequest<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> {
    let secrets = Secrets::of(request);
    let arguments = request.arguments.iter().enumerate();
    arguments.map(
        move |(index, argument)| match secrets.contain(index, request.arguments) {
            true => REDACTED,
            false => *argument,
        },
    )
}

/// Where the secrets of a request are.
#[derive(Clone, Copy)]
enum Secrets {
    None,
    /// From this argument on, as many.
    At {
        first: usize,
        count: usize,
    },
    /// The values of some directives.
    OfDirectives,
}

impl Secrets {
    fn of(request: NamedRequest<'_>) -> Self {
        match request.names() {
            ("auth", _) => Self::At {
                first: 1,
                count: usize::MAX,
            },
            ("acl", "setuser") => Self::At {
                first: 2,
                count: usize::MAX,
            },
            ("hello", _) => Self::of_hello(request.arguments),
            ("config", "set") => Self::OfDirectives,
            // Its arguments are a request that is not sent.
            ("acl", "dryrun") => Self::At {
                first: 4,
                count: usize::MAX,
            },
            _ => Self::None,
        }
    }

    /// `HELLO version [AUTH username password] [SETNAME name]`: all behind the first AUTH, which may be the name that another sets, or
    /// stand where a version was forgotten.
    fn of_hello(arguments: &[&[u8]]) -> Self {
        let is_auth = |word: &&[u8]| word.eq_ignore_ascii_case(b"auth");
        let options = arguments.get(1..).unwrap_or_default();
        match options.iter().position(is_auth) {
            Some(place) => Self::At {
                first: place + 2,
                count: usize::MAX,
            },
            None => Self::None,
        }
    }

    fn contain(self, index: usize, arguments: &[&[u8]]) -> bool {
        match self {
            Self::None => false,
            Self::At { first, count } => index >= first && index - first < count,
            Self::OfDirectives => {
                let is_value = index >= 3 && !index.is_multiple_of(2);
                is_value && is_secret_directive(arguments[index - 1])
            }
        }
    }
}

fn is_secret_directive(name: &[u8]) -> bool {
    let is_it = |secret: &&[u8]| name.eq_ignore_ascii_case(secret);
    SECRET_DIRECTIVES.iter().any(is_it)
}

const SECRET_DIRECTIVES: &[&[u8]] = &[
    b"requirepass",
    b"masteruser",
    b"masterauth",
    b"tls-key-file-pass",
    b"tls-client-key-file-pass",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let shown: Vec<&[u8]> = redacted(NamedRequest::of(&words)).collect();
        String::from_utf8(shown.join(&b' ')).expect("it was text")
    }

    #[test]
    fn no_secret_is_shown() {
        for (request, expected) in [
            ("AUTH pw", "AUTH (redacted)"),
            ("auth user pw more", "auth (redacted) (redacted) (redacted)"),
            ("hello 3", "hello 3"),
            ("HELLO 3 setname auth", "HELLO 3 setname auth"),
            (
                "HELLO 3 SETNAME me Auth user pw",
                "HELLO 3 SETNAME me Auth (redacted) (redacted)",
            ),
            ("HELLO 3 AUTH user", "HELLO 3 AUTH (redacted)"),
            (
                "ACL setuser bob on >pw",
                "ACL setuser (redacted) (redacted) (redacted)",
            ),
            ("ACL DRYRUN bob AUTH pw", "ACL DRYRUN bob AUTH (redacted)"),
            ("acl getuser bob", "acl getuser bob"),
            (
                "config set RequirePass pw maxclients 5 masterauth pw",
                "config set RequirePass (redacted) maxclients 5 masterauth (redacted)",
            ),
            ("config set requirepass", "config set requirepass"),
            ("set auth pw", "set auth pw"),
        ] {
            assert_eq!(shown(request), expected);
        }
    }
}
