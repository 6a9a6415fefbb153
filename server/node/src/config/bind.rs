//! Addresses to listen on, as in `bind 127.0.0.1 -::1`.
//!
//! Names are not resolved: what a node listens on must not depend on a name server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::error::Problem;

/// One address of `bind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// Where to listen.
    pub address: IpAddr,
    /// Written with `-` in front: an address that this machine lacks is not an error.
    pub is_optional: bool,
}

impl Bind {
    /// What a node listens on by default: this machine only.
    pub(super) fn loopback() -> Vec<Self> {
        vec![
            Self {
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                is_optional: false,
            },
            Self {
                address: IpAddr::V6(Ipv6Addr::LOCALHOST),
                is_optional: true,
            },
        ]
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let (is_optional, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let address = match name {
            "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            "::*" => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => name.parse().ok(),
        };
        let address = address.ok_or_else(|| {
            Problem::new(format!(
                "'{}' must be an IP address, '*' (all IPv4), '::*' (all IPv6) or localhost, \
                 with '-' in front if it may be missing",
                text.escape_debug()
            ))
        })?;
        Ok(Self {
            address,
            is_optional,
        })
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_optional { "-" } else { "" };
        match self.address {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => write!(f, "{prefix}*"),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => write!(f, "{prefix}::*"),
            address => write!(f, "{prefix}{address}"),
        }
    }
}

/// All addresses of one `bind` line.
pub(super) fn parse_all(values: &[String]) -> Result<Vec<Bind>, Problem> {
    if values.len() > ADDRESSES_MAX {
        return Err(Problem::new("Too many bind addresses specified."));
    }
    let mut addresses: Vec<Bind> = Vec::new();
    for value in values {
        let bind = Bind::parse(value)?;
        if addresses.iter().any(|known| known.address == bind.address) {
            return Err(Problem::new(format!("'{value}' is listed twice")));
        }
        addresses.push(bind);
    }
    match addresses.is_empty() {
        true => Err(Problem::wrong_number_of_arguments()),
        false => Ok(addresses),
    }
}

/// The same, where CONFIG SET gives them all in one argument.
pub(super) fn parse_words(values: &[String]) -> Result<Vec<Bind>, Problem> {
    let words = values.iter().flat_map(|value| value.split_whitespace());
    parse_all(&words.map(str::to_owned).collect::<Vec<_>>())
}

/// How a `bind` line is shown.
pub(super) fn show_all(addresses: &[Bind]) -> String {
    addresses
        .iter()
        .map(Bind::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Redis's CONFIG_BINDADDR_MAX.
const ADDRESSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn parse(text: &str) -> Result<Vec<Bind>, Problem> {
        parse_all(
            &text
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1 -::1", "*", "* -::*", "10.0.0.1 -fe80::1"] {
            assert_eq!(show_all(&parse(text).unwrap()), text);
        }
        assert_eq!(parse("127.0.0.1 -::1").unwrap(), Bind::loopback());
        let as_one = parse_words(&["127.0.0.1 -::1".to_owned()]);
        assert_eq!(as_one.unwrap(), Bind::loopback());
        assert_eq!(
            show_all(&parse("0.0.0.0 localhost").unwrap()),
            "* 127.0.0.1"
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "-",
            "example.org",
            "127.0.0.1:6379",
            "1.2.3",
            "fe80::1%eth0",
            "* *",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_all(&[String::new()]).is_err());
        assert!(parse_words(&[String::new()]).is_err());
        let many = (0..17).map(|n| format!("10.0.0.{n}")).collect::<Vec<_>>();
        assert!(parse_all(&many).is_err());
    }
}
