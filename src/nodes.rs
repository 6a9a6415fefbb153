//! Which nodes a lock command talks to.
//!
//! `--nodes` or `--nodes-file` first, then `QUORLOCK_NODES`, then the cluster last started in this directory or the
//! nearest above, then the user's and the machine's `nodes.conf`. Whether an address is well formed is the client's business.

use std::ffi::OsString;
use std::path::Path;

use crate::cluster::current;
use crate::clusters::{Clusters, Groups, NodeList};
use crate::exit_code::Failure;
use crate::node_address::EXAMPLE;
use crate::nodes_file;
use crate::tls_options::TlsFlags;

/// The variable that names the nodes.
pub(crate) const VARIABLE: &str = "QUORLOCK_NODES";

/// The clusters, from the first source that names any: one as a rule.
pub(crate) fn resolve(flag: &[String], file: Option<&Path>) -> Result<Clusters, Failure> {
    if let Some(named) = listed(&flag.join(","))? {
        return Ok(named);
    }
    if !flag.is_empty() {
        return Err(Failure::usage("--nodes names no node").remedy(EXAMPLE));
    }
    if let Some(file) = file {
        return nodes_file::read(file);
    }
    if let Some(named) = from_variable(std::env::var_os(VARIABLE))? {
        return Ok(named);
    }
    if let Some(nodes) = current::nodes()? {
        return Ok(Clusters::one(nodes));
    }
    nodes_file::of_machine()?.ok_or_else(|| {
        Failure::usage(format!(
            "no nodes are named: there is no --nodes, {VARIABLE} is empty, no cluster was started in this directory or \
             above it, and there is no /etc/quorlock/nodes.conf"
        ))
        .remedy(EXAMPLE)
    })
}

fn listed(text: &str) -> Result<Option<Clusters>, Failure> {
    let list = NodeList {
        tls: TlsFlags::of_environment(),
        ..NodeList::default()
    };
    Clusters::of(&list, Groups::read(text))
}

/// What the variable names. An empty one is as good as none; one that was filled in must not
/// send a command to other nodes than its author meant.
fn from_variable(value: Option<OsString>) -> Result<Option<Clusters>, Failure> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let named = value.to_str().map(listed).transpose()?.flatten();
    if named.is_none() {
        let shown = value.to_string_lossy().escape_debug().to_string();
        return Err(
            Failure::usage(format!("{VARIABLE} is \"{shown}\", which names no node"))
                .remedy(EXAMPLE),
        );
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let named = named.expect("it is good").expect("it names nodes");
        assert_eq!(named.all()[0].nodes, ["redis://a", "redis://b"]);
    }
}
