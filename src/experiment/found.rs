//! Which of the services that are to be compared are there, and what would bring the others here.

use quorlock_client::TlsOptions;
use quorlock_experiment::cell::FsyncMode;
use quorlock_experiment::compare::{
    InstalledServices, Kind, ListedSystem, Postgresql, PostgresqlError, Service, SkippedService,
};

use super::programs;
use crate::exit_code::Failure;
use crate::tls_options::TlsFlags;
use crate::{inspect, runtime};

/// Looks for every service. A database and other systems are asked only where their addresses were given.
///
/// # Errors
/// If an address is none, or two are of the same kind: a system that does not answer is skipped.
pub(super) fn find(
    postgresql: Option<&str>,
    systems: &[String],
    tls: &TlsFlags,
) -> Result<InstalledServices, Failure> {
    let missing = |why: String, package: &str| format!("{why} (Debian: apt-get install {package})");
    let postgresql = match postgresql.map(Postgresql::find) {
        Some(Err(error @ PostgresqlError::Url(_))) => return Err(Failure::usage(error)),
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(NO_URL.to_owned()),
    };
    Ok(InstalledServices {
        quorlock: programs::quorlock(),
        redis: programs::redis().map_err(|why| missing(why, "redis-server")),
        valkey: programs::valkey().map_err(|why| missing(why, "valkey-server, from Debian 13 on")),
        etcd: programs::etcd().map_err(|why| missing(why, "etcd-server")),
        postgresql,
        systems: listed(systems, tls)?,
    })
}

/// Systems on which our own client takes locks.
fn listed(addresses: &[String], tls: &TlsFlags) -> Result<Vec<ListedSystem>, Failure> {
    let mut systems: Vec<ListedSystem> = Vec::new();
    // A variable with blanks at its ends names nothing there.
    let addresses = addresses.iter().filter(|address| !address.is_empty());
    let addresses: Vec<String> = addresses
        .map(|address| tls.applied_to(address.clone()))
        .collect();
    // Files that a variable names are not looked at either.
    if addresses.is_empty() {
        return Ok(systems);
    }
    tls.remark_on_plain(&addresses);
    let options = tls.options()?;
    for address in &addresses {
        let found = ListedSystem::find(address, &options, version).map_err(Failure::usage)?;
        if systems.iter().any(|other| other.kind() == found.kind()) {
            let kind = found.kind();
            return Err(Failure::usage(format!(
                "--system names two of {kind}: one of each kind is compared"
            )));
        }
        systems.push(found);
    }
    Ok(systems)
}

fn version(address: &str, tls: TlsOptions) -> Result<String, String> {
    let asked = runtime::block_on(async { Ok(inspect::version_of(address, tls).await) });
    asked.unwrap_or_else(|failure| Err(failure.to_string()))
}

/// What is there of these products and of the systems that were named, with its version, and what is not, with the reason.
pub(super) fn sorted(
    found: &InstalledServices,
    kinds: &[Kind],
    fsync: &[FsyncMode],
) -> (Vec<(Service, String)>, Vec<SkippedService>) {
    let (mut there, mut skipped) = (Vec::new(), Vec::new());
    let mut services = Vec::new();
    let named = found.systems.iter();
    let named = named.map(|system| Service::Client(system.kind()));
    let chosen = kinds.iter().flat_map(|kind| kind.services(fsync));
    for service in chosen.chain(named) {
        // What is named twice is compared once.
        if !services.contains(&service) {
            services.push(service);
        }
    }
    for service in services {
        match found.version(service) {
            Ok(version) => there.push((service, version)),
            Err(reason) => skipped.push(SkippedService { service, reason }),
        }
    }
    (there, skipped)
}

const NO_URL: &str = "no server was named: --postgresql postgresql://user@127.0.0.1/postgres \
                      (Debian: apt-get install postgresql)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_certificate_is_no_mistake_where_no_system_is_named() {
        let tls = TlsFlags {
            cert: Some("client.pem".into()),
            ..TlsFlags::default()
        };
        for none in [vec![], vec![String::new()]] {
            let found = listed(&none, &tls);
            assert!(found.is_ok_and(|systems| systems.is_empty()), "{none:?}");
        }
        let one = listed(&["etcd://127.0.0.1:1".to_owned()], &tls);
        assert!(one.is_err());
    }
}
