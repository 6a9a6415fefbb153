//! Finds ports for the nodes of a new cluster.
//!
//! A default block that is taken moves on to the next free one; a block that the user names does
//! not. A port can be taken between this check and the node's start: the node's own bind decides.

use std::net::{Ipv4Addr, TcpListener};

use crate::exit_code::Failure;

/// The first port of a cluster by default.
pub(super) const DEFAULT_BASE: u16 = 7001;

/// The first of `count` consecutive free ports. `asked` is the block the user named; 0 means any.
pub(super) fn choose(asked: Option<u16>, count: u16) -> Result<u16, Failure> {
    match asked {
        Some(0) => search(random_start(), count),
        Some(base) => match first_problem(base, count) {
            None => Ok(base),
            Some(problem) => Err(problem.failure(base)),
        },
        None => search(DEFAULT_BASE, count),
    }
}

/// The first of these ports that is taken.
pub(super) fn first_taken(ports: impl Iterator<Item = u16>) -> Option<u16> {
    ports
        .into_iter()
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err())
}

#[derive(Debug, PartialEq, Eq)]
enum PortProblem {
    Taken(u16),
    BeyondLast,
}

impl PortProblem {
    fn failure(&self, base: u16) -> Failure {
        match self {
            Self::Taken(port) => Failure::failed(format!("port {port} is taken")).remedy(format!(
                "choose another block with --base-port, or leave it out to take the next free \
                 one\nwho uses it: ss -ltnp 'sport = :{port}'"
            )),
            Self::BeyondLast => Failure::usage(format!(
                "--base-port {base} leaves no room for all nodes: the last port is {}",
                u16::MAX
            )),
        }
    }
}

fn first_problem(base: u16, count: u16) -> Option<PortProblem> {
    let Some(end) = base.checked_add(count - 1) else {
        return Some(PortProblem::BeyondLast);
    };
    first_taken(base..=end).map(PortProblem::Taken)
}

fn search(start: u16, count: u16) -> Result<u16, Failure> {
    let step = count.div_ceil(BLOCK) * BLOCK;
    let mut next = Some(start);
    while let Some(base) = next {
        match first_problem(base, count) {
            None => return Ok(base),
            Some(PortProblem::BeyondLast) => break,
            Some(PortProblem::Taken(_)) => next = base.checked_add(step),
        }
    }
    Err(
        Failure::failed(format!("no {count} free ports in a row from {start} on"))
            .remedy("name a free block with --base-port"),
    )
}

/// Somewhere below the range from which the kernel hands out ports by itself.
fn random_start() -> u16 {
    20_000 + rand::random::<u16>() % 1_200 * BLOCK
}

/// Blocks are moved by multiples of this, so that ports stay easy to read: 7001, 7011, 7021.
const BLOCK: u16 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_default_moves_on_and_a_taken_port_that_was_asked_for_fails() {
        let base = choose(Some(0), 5).unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, base + 2)).unwrap();
        let failure = choose(Some(base), 5).expect_err("the third port is taken");
        assert!(
            failure
                .what
                .contains(&format!("port {} is taken", base + 2))
        );
        assert!(failure.remedy.contains("--base-port"));
        assert!(search(base, 5).unwrap() >= base + BLOCK);
        drop(taken);
        assert_eq!(choose(Some(base), 5).unwrap(), base);
    }

    #[test]
    fn a_block_ends_at_the_last_port() {
        assert_eq!(first_problem(u16::MAX, 2), Some(PortProblem::BeyondLast));
        assert_eq!(
            choose(Some(65_533), 5).expect_err("too high").code,
            crate::exit_code::USAGE
        );
    }

    #[test]
    fn large_clusters_move_in_larger_steps() {
        let base = choose(Some(0), 12).unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, base)).unwrap();
        assert_eq!((search(base, 12).unwrap() - base) % 20, 0);
    }
}
