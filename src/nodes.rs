//! Which nodes a lock command talks to.
//!
//! `--nodes` first, then `QUORLOCK_NODES`, then the cluster last started in this directory or the
//! nearest above. Whether an address is well formed is the client's business.

use crate::cluster::current;
use crate::exit_code::Failure;

/// The variable that names the nodes.
pub(crate) const VARIABLE: &str = "QUORLOCK_NODES";

/// The addresses of the nodes, from the first source that names any.
pub(crate) fn resolve(flag: &[String]) -> Result<Vec<String>, Failure> {
    let named = split(&flag.join(","));
    if !named.is_empty() {
        return Ok(named);
    }
    if !flag.is_empty() {
        return Err(Failure::usage("--nodes names no node").remedy(EXAMPLE));
    }
    if let Ok(value) = std::env::var(VARIABLE) {
        let named = split(&value);
        if !named.is_empty() {
            return Ok(named);
        }
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

fn split(text: &str) -> Vec<String> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

const EXAMPLE: &str = "start five here with: quorlock cluster up
or name them: export QUORLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_separated_by_commas_and_blanks() {
        assert_eq!(split(" a,b ,\nc,, "), ["a", "b", "c"]);
        assert!(split(" , ").is_empty());
    }

    #[test]
    fn a_flag_without_addresses_is_wrong_usage() {
        let failure = resolve(&[",".to_owned()]).expect_err("no node is named");
        assert_eq!(failure.code, crate::exit_code::USAGE);
    }
}
