//! Which cluster a node belongs to, by flags.

use quorlock_server::config::Config;

use crate::exit_code::Failure;

/// A configuration that says which cluster a node belongs to, and how many nodes that has.
pub(crate) fn membership(cluster: Option<&str>, size: Option<&str>) -> Result<Config, Failure> {
    let mut config = Config::default();
    for (option, name, value) in [
        ("--cluster", "cluster-id", cluster),
        ("--cluster-size", "cluster-size", size),
    ] {
        let Some(value) = value else { continue };
        config
            .set(name, &[value])
            .map_err(|problem| Failure::usage(format!("{option} {value:?}: {problem}")))?;
    }
    Ok(config)
}
