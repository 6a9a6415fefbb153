//! Which nodes a lock command talks to.
//!
//! `--nodes` or `--nodes-file` first, then `QUORLOCK_NODES`, then the cluster last started in this directory or the
//! nearest above, then the user's and the machine's `nodes.conf`. Whether an address is well formed is the client's business.

use std::ffi::OsString;
use std::path::Path;

use crate::cluster::current;
use crate::exit_code::Failure;
use crate::node_address::{EXAMPLE, complete};
use crate::nodes_file::NodeList;
use crate::tls_options::TlsFlags;

/// The variable that names the nodes.
pub(crate) const VARIABLE: &str = "QUORLOCK_NODES";

/// The nodes, from the first source that names any.
pub(crate) fn resolve(flag: &[String], file: Option<&Path>) -> Result<NodeList, Failure> {
    let named = split(&flag.join(","));
    if !named.is_empty() {
        return listed(named);
    }
    if !flag.is_empty() {
        return Err(Failure::usage("--nodes names no node").remedy(EXAMPLE));
    }
    if let Some(file) = file {
        return NodeList::read(file);
    }
    if let Some(named) = from_variable(std::env::var_os(VARIABLE))? {
        return listed(named);
    }
    if let Some(nodes) = current::nodes()? {
        return Ok(nodes);
    }
    NodeList::of_machine()?.ok_or_else(|| {
        Failure::usage(format!(
            "no nodes are named: there is no --nodes, {VARIABLE} is empty, no cluster was started in this directory or \
             above it, and there is no /etc/quorlock/nodes.conf"
        ))
        .remedy(EXAMPLE)
    })
}

fn listed(nodes: Vec<String>) -> Result<NodeList, Failure> {
    let nodes = nodes.into_iter().map(complete).collect::<Result<_, _>>()?;
    Ok(NodeList {
        nodes,
        tls: TlsFlags::of_environment(),
        ..NodeList::default()
    })
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

/// Addresses between commas and blanks. One of several Sentinels goes on over commas, up to the name of its master.
fn split(text: &str) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    let is_open = |address: &String| {
        let sentinels = address.split_once("+sentinel://");
        let hosts = |rest: &str| {
            rest.rsplit('@')
                .next()
                .is_some_and(|hosts| hosts.contains('/'))
        };
        sentinels.is_some_and(|(_, rest)| !hosts(rest))
    };
    let parts = text.split(|c: char| c == ',' || c.is_whitespace());
    for part in parts.filter(|part| !part.is_empty()) {
        match addresses.last_mut().filter(|last| is_open(last)) {
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => addresses.push(part.to_owned()),
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_separated_by_commas_and_blanks() {
        assert_eq!(split(" a,b ,\nc,, "), ["a", "b", "c"]);
        assert!(split(" , ").is_empty());
        let sentinels = "redis+sentinel://:to/p@s1:1,s2,[::1]:3/m";
        assert_eq!(split(&format!("a,{sentinels},b")), ["a", sentinels, "b"]);
        // Its master is missing: it does not take in another address.
        let half = ["redis+sentinel://s1,s2", "redis://b"];
        assert_eq!(split(&half.join(",")), half);
    }

    #[test]
    fn a_flag_without_addresses_is_wrong_usage() {
        let failure = resolve(&[",".to_owned()], None).expect_err("no node is named");
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
