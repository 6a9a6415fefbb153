//! Which of the services that are to be compared are there, and what would bring the others here.

use quorlock_experiment::cell::FsyncMode;
use quorlock_experiment::compare::{
    InstalledServices, Kind, Postgresql, PostgresqlError, Service, SkippedService,
};

use super::programs;
use crate::exit_code::Failure;

/// Looks for every service. A database is asked only where its URL was given.
///
/// # Errors
/// If the URL is none: a database that does not answer is skipped.
pub(super) fn find(postgresql: Option<&str>) -> Result<InstalledServices, Failure> {
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
    })
}

/// What is there of these products, with its version, and what is not, with the reason.
pub(super) fn sorted(
    found: &InstalledServices,
    kinds: &[Kind],
    fsync: &[FsyncMode],
) -> (Vec<(Service, String)>, Vec<SkippedService>) {
    let (mut there, mut skipped) = (Vec::new(), Vec::new());
    let mut services = Vec::new();
    for service in kinds.iter().flat_map(|kind| kind.services(fsync)) {
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
