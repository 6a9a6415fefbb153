//! Which nodes a lock command talks to.
//!
//! `--nodes` first, then `QUORLOCK_NODES`, then the cluster last started in this directory or the
//! nearest above. Whether an address is well formed is the client's business.

use std::ffi::OsString;

use crate::cluster::current;
use crate::exit_code::Failure;

/// The variable that names the nodes.
pub(crate) const VARIABLE: &str = "QUORLOCK_NODES";

/// The addresses of the nodes, from the first source that names any.
pub(crate) fn resolve(flag: &[String]) -> Result<Vec<String>, Failure> {
    let named = split(&flag.join(","));
    if !named.is_empty() {
        return named.into_iter().map(complete).collect();
    }
    if !flag.is_empty() {
        return Err(Failure::usage("--nodes names no node").remedy(EXAMPLE));
    }
    if let Some(named) = from_variable(std::env::var_os(VARIABLE))? {
        return named.into_iter().map(complete).collect();
    }
    match current::nodes()? {
        Some(nodes) => Ok(nodes),
        None => Err(Failure::usage(format!(
            "no nodes are named: there is no --nodes, {VARIABLE} is empty, and no cluster was \
             started in this directory or above it"
        ))
        .remedy(EXAMPLE)),
    }
}

/// What the variable names. An empty one is as good as none; one that was filled in must not
/// send a command to other nodes than its author meant.
fn from_variable(value: Option<OsString>) -> Result<Option<Vec<String>>, Failure> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let named = value.to_str().map(split).unwrap_or_default();
    if named.is_empty() {
        let shown = value.to_string_lossy().escape_debug().to_string();
        return Err(
            Failure::usage(format!("{VARIABLE} is \"{shown}\", which names no node"))
                .remedy(EXAMPLE),
        );
    }
    Ok(Some(named))
}

/// Completes a plain `host:port`, as other tools take it. What cannot be one gets the words of the
/// client, which reads the addresses.
fn complete(address: String) -> Result<String, Failure> {
    if address.contains("://") {
        return Ok(address);
    }
    if address.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::usage(format!(
            "'{address}' is not a node's address: host and port are needed, as in \
             127.0.0.1:{address}"
        ))
        .remedy(EXAMPLE));
    }
    if address.starts_with('/') {
        return Ok(format!("unix://{address}"));
    }
    Ok(format!("redis://{address}"))
}

fn split(text: &str) -> Vec<String> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

const EXAMPLE: &str = "start five here with: quorlock cluster up
or name them: export QUORLOCK_NODES=127.0.0.1:7001,127.0.0.1:7002,...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_separated_by_commas_and_blanks() {
        assert_eq!(split(" a,b ,\nc,, "), ["a", "b", "c"]);
        assert!(split(" , ").is_empty());
    }

    #[test]
    fn a_plain_host_and_port_is_an_address() {
        let completed = |text: &str| complete(text.to_owned()).map_err(|failure| failure.code);
        for (plain, url) in [
            ("db1:7001", "redis://db1:7001"),
            ("[::1]:7001", "redis://[::1]:7001"),
            ("db1", "redis://db1"),
            ("/run/node.sock", "unix:///run/node.sock"),
            ("rediss://db1:7001", "rediss://db1:7001"),
        ] {
            assert_eq!(completed(plain), Ok(url.to_owned()), "{plain}");
        }
        assert_eq!(completed("5"), Err(crate::exit_code::USAGE));
    }

    #[test]
    fn a_flag_without_addresses_is_wrong_usage() {
        let failure = resolve(&[",".to_owned()]).expect_err("no node is named");
        assert_eq!(failure.code, crate::exit_code::USAGE);
    }

    #[test]
    fn a_variable_that_names_no_node_is_wrong_usage_and_an_empty_one_is_none() {
        use std::os::unix::ffi::OsStringExt;
        for bytes in [b",".to_vec(), b" \n,".to_vec(), b"redis://\xff".to_vec()] {
            let value = OsString::from_vec(bytes);
            let failure = from_variable(Some(value)).expect_err("no node is named");
            assert_eq!(failure.code, crate::exit_code::USAGE);
        }
        for none in [None, Some(OsString::new())] {
            assert!(matches!(from_variable(none), Ok(None)));
        }
        let named = from_variable(Some(OsString::from("a, b")));
        assert!(matches!(named, Ok(Some(names)) if names == ["a", "b"]));
    }
}
