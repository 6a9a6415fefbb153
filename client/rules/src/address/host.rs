//! The host of a node's address: a name, an IPv4 address, or an IPv6 address in brackets, where need be with the
//! interface that a link-local one is on. And hosts between commas, with one login.
//!
//! Invariant: one host is written in one way, so that a node that is listed twice is noticed. Names are not resolved
//! here.

use std::net::Ipv6Addr;

use super::{Login, split_login};

/// Splits off the login before hosts between commas.
pub(super) fn with_one_login(rest: &str) -> Result<(Login, &str), String> {
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    match login.contains([',', '@']) {
        true => Err("one login stands before all hosts, with ',' as %2C and '@' as %40".to_owned()),
        false => split_login(rest),
    }
}

/// Reads hosts between commas, none of which may be listed twice.
pub(super) fn list(text: &str, port_default: u16) -> Result<Vec<(String, u16)>, String> {
    let mut hosts = Vec::new();
    for text in text.split(',') {
        let (host, port) = and_port(text, port_default)?;
        if hosts.contains(&(host.clone(), port)) {
            return Err(format!("{}:{port} is listed twice", shown(&host)));
        }
        hosts.push((host, port));
    }
    Ok(hosts)
}

/// Hosts as they are written in an address.
pub(super) fn list_shown(hosts: &[(String, u16)]) -> String {
    let each = hosts
        .iter()
        .map(|(host, port)| format!("{}:{port}", shown(host)));
    each.collect::<Vec<_>>().join(",")
}

/// Reads `host[:port]`, an IPv6 address in brackets. The port is 1 to 65535.
pub(super) fn and_port(text: &str, port_default: u16) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) = bracketed
                .split_once(']')
                .ok_or("the ']' after the IPv6 address is missing")?;
            let port = match after {
                "" => None,
                _ => Some(
                    after
                        .strip_prefix(':')
                        .ok_or("a ':' is missing behind the ']'")?,
                ),
            };
            (ipv6(host)?, port)
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) => (name(host)?, Some(port)),
            None => (name(text)?, None),
        },
    };
    match port.map(str::parse) {
        None => Ok((host, port_default)),
        Some(Ok(0) | Err(_)) => Err("what follows the ':' is not a port (1 to 65535)".to_owned()),
        Some(Ok(port)) => Ok((host, port)),
    }
}

/// Reads a host that stands in no brackets.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.is_empty() {
        return Err("the host is missing".to_owned());
    }
    if text.contains(':') {
        return Err("write an IPv6 address in brackets, as in redis://[::1]:7001".to_owned());
    }
    if !text.bytes().all(is_named) {
        return Err(
            "the host has characters that no name has; write one with others as xn--...".to_owned(),
        );
    }
    Ok(text.to_ascii_lowercase())
}

/// Reads what stands in brackets. The interface of a link-local address follows a '%', which is written as "%25" in an
/// address with a scheme (RFC 6874), and often as it is. The resolver wants it as it is.
pub(super) fn ipv6(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let (address, interface) = match text.split_once('%') {
        Some((address, after)) => (address, Some(after.strip_prefix("25").unwrap_or(after))),
        None => (text, None),
    };
    let Ok(address) = address.parse::<Ipv6Addr>() else {
        return Err("what stands in brackets is not an IPv6 address".to_owned());
    };
    match interface {
        None if address.is_unicast_link_local() => Err(format!(
            "a link-local address needs the interface it is on, as in [{address}%25eth0]"
        )),
        None => Ok(address.to_string()),
        Some(_) if !address.is_unicast_link_local() => Err(
            "only a link-local IPv6 address (fe80::...) has an interface behind a '%'".to_owned(),
        ),
        Some(interface) => {
            check_interface(interface)?;
            Ok(format!("{address}%{interface}"))
        }
    }
}

/// A host as it is written in an address.
pub(super) fn shown(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{}]", host.replace('%', "%25")),
        false => host.to_owned(),
    }
}

/// Whether this may stand in brackets: then no part of it is a password.
pub(super) fn may_be_ipv6(text: &str) -> bool {
    let (address, interface) = text.split_once('%').unwrap_or((text, ""));
    let is_visible = |byte: u8| is_of_interface(byte) || byte == b'%';
    address.parse::<Ipv6Addr>().is_ok() && interface.bytes().all(is_visible)
}

fn check_interface(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the interface behind the '%' is missing, as in [fe80::1%25eth0]".to_owned());
    }
    if name.len() > INTERFACE_BYTES_MAX || !name.bytes().all(is_of_interface) {
        return Err(format!(
            "what follows the '%' is not an interface's name or number: at most {INTERFACE_BYTES_MAX} letters, \
             digits and . _ ~ -"
        ));
    }
    Ok(())
}

/// What RFC 6874 lets a zone be written with as it is; no interface that needs more has been seen.
fn is_of_interface(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)
}

/// IFNAMSIZ without its final zero.
const INTERFACE_BYTES_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_read_encoded_and_as_it_is() {
        for (text, host, written) in [
            ("fe80::1%25eth0", "fe80::1%eth0", "[fe80::1%25eth0]"),
            ("fe80::1%eth0", "fe80::1%eth0", "[fe80::1%25eth0]"),
            ("FE80:0::0:1%25eth0", "fe80::1%eth0", "[fe80::1%25eth0]"),
            (
                "febf::1%br-1.2_3~",
                "febf::1%br-1.2_3~",
                "[febf::1%25br-1.2_3~]",
            ),
            ("fe80::1%2", "fe80::1%2", "[fe80::1%252]"),
            // By its number, which is 25.
            ("fe80::1%2525", "fe80::1%25", "[fe80::1%2525]"),
            ("::1", "::1", "[::1]"),
            ("0:0:0:0:0:0:0:1", "::1", "[::1]"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1", "[::ffff:10.0.0.1]"),
        ] {
            assert_eq!(ipv6(text).as_deref(), Ok(host), "{text}");
            assert_eq!(shown(host), written);
            // What is shown leads to the same host.
            let shown = written.trim_matches(['[', ']']);
            assert_eq!(ipv6(shown).as_deref(), Ok(host), "{shown}");
            assert!(may_be_ipv6(text), "{text}");
        }
    }

    #[test]
    fn an_interface_that_cannot_be_is_refused() {
        for (text, part) in [
            (
                "fe80::1",
                "needs the interface it is on, as in [fe80::1%25eth0]",
            ),
            ("fe80::1%", "interface behind the '%' is missing"),
            ("fe80::1%25", "interface behind the '%' is missing"),
            ("fe80::1%25eth0%25eth1", "not an interface's name"),
            ("fe80::1%25et%68", "not an interface's name"),
            ("fe80::1%eth0/1", "not an interface's name"),
            ("fe80::1%25sixteen_letters_", "not an interface's name"),
            ("::1%25lo", "only a link-local"),
            ("2001:db8::1%eth0", "only a link-local"),
            ("fec0::1%eth0", "only a link-local"),
            ("%25eth0", "not an IPv6 address"),
            ("fe80::1::2%25eth0", "not an IPv6 address"),
            ("10.0.0.1", "not an IPv6 address"),
            ("", "host is missing"),
        ] {
            let refused = ipv6(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
        assert!(ipv6("fe80::1%25fifteen_letters").is_ok());
    }

    #[test]
    fn a_name_is_one_in_whichever_case_it_is_written() {
        for (text, host) in [
            ("DB-1.example.org", "db-1.example.org"),
            ("10.0.0.1", "10.0.0.1"),
            ("a_b", "a_b"),
            ("xn--hst-sna", "xn--hst-sna"),
        ] {
            assert_eq!(name(text).as_deref(), Ok(host));
        }
        for (text, part) in [
            ("", "missing"),
            ("::1", "in brackets"),
            ("fe80::1%eth0", "in brackets"),
            ("a%20b", "characters"),
            ("a,b", "characters"),
            ("a/b", "characters"),
            ("[a", "characters"),
            ("h\u{f6}st", "xn--"),
        ] {
            let refused = name(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
