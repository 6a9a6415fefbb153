//! What an operator reads about values that are allowed and give something up.

use super::Config;
use super::clients::{ClientMemory, OutputLimit};
use super::settings::{NoTtlDurability, RestartDelay};

/// What an operator must know about a choice that is allowed but gives up a guarantee.
pub(super) fn warning(config: &Config, name: &str) -> Option<&'static str> {
    match name {
        "restart-delay" => match config.restart_delay {
            RestartDelay::Off => Some(
                "after a crash this node serves locks at once and may grant a lock that it granted \
                 before and forgot; for experiments only",
            ),
            RestartDelay::Fixed(_) => Some(
                "a fixed delay does not follow the TTLs that were granted; for experiments only",
            ),
            RestartDelay::Auto | RestartDelay::Always => None,
        },
        "no-ttl-durability" if config.no_ttl_durability == NoTtlDurability::AsMode => Some(
            "a crash can forget keys without TTL or beyond restart-delay-max, and no delay \
             covers them",
        ),
        "client-output-buffer-limit"
            if matches!(
                config.client_output_buffer_limit.normal,
                OutputLimit {
                    hard_bytes: 0,
                    soft_bytes: 0,
                    ..
                }
            ) =>
        {
            Some(
                "the replies that wait for one client have no limit of their own now; send-timeout and \
                 maxmemory-clients still apply",
            )
        }
        "maxmemory-clients" if config.maxmemory_clients == ClientMemory::Bytes(0) => {
            Some("what all clients together can make this node hold has no limit now")
        }
        "metrics-bind"
            if config
                .metrics_bind
                .iter()
                .any(|it| !it.address.is_loopback()) =>
        {
            Some(
                "everybody who can reach the endpoint can read this node's counters and states; it has no \
             password",
            )
        }
        _ => None,
    }
}
