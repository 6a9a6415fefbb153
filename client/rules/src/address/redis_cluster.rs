//! The address of a Redis Cluster: `[[user]:password@]host[:port][,host[:port]...]`, some of its servers.

use super::{Endpoint, NodeAddress, PORT_DEFAULT, host};

/// Reads what follows the scheme.
pub(super) fn parse(rest: &str) -> Result<NodeAddress, String> {
    let (login, hosts) = host::with_one_login(rest)?;
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    if hosts.contains(['/', '?']) {
        return Err(
            "nothing stands behind the servers, which are host:port between commas: a Redis Cluster has one database"
                .to_owned(),
        );
    }
    let servers = host::list(hosts, PORT_DEFAULT)?;
    if servers.len() > SERVERS_MAX {
        return Err(format!(
            "list {SERVERS_MAX} servers at most: they name the others"
        ));
    }
    Ok(NodeAddress::plain(
        Endpoint::RedisCluster { servers },
        login,
    ))
}

/// All of them are asked at once.
const SERVERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NodeAddress, String> {
        NodeAddress::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn some_servers_of_a_redis_cluster_are_an_address() {
        for (text, shown) in [
            ("redis-cluster://C1", "redis-cluster://c1:6379"),
            (
                "valkey-cluster://c1:1,[::1]/",
                "redis-cluster://c1:1,[::1]:6379",
            ),
            (
                "rediss-cluster://me:s3cret@c1,c2:7",
                "rediss-cluster://c1:6379,c2:7",
            ),
        ] {
            let node = read(text).expect("an address");
            assert_eq!(node.to_string(), shown);
            assert!(node.endpoint.is_other_system() && node.endpoint.fails_over());
            assert_eq!(node.speaks_tls, text.starts_with("rediss"));
            assert_eq!(node.requested_login(), None, "it is no request");
        }
        let node = read("redis-cluster://:s3cret@c1").expect("an address");
        assert_eq!(node.login(), (None, Some("s3cret")));
        let many: Vec<String> = (0..65).map(|number| format!("c{number}")).collect();
        assert!(read(&format!("redis-cluster://{}", many[..64].join(","))).is_ok());
        assert!(read(&format!("redis-cluster://{}", many.join(","))).is_err());
    }

    #[test]
    fn what_is_no_such_address_is_refused_with_the_reason_and_without_the_password() {
        for (rest, part) in [
            ("", "host is missing"),
            ("me:s3cret@c1,", "host is missing"),
            ("me:s3cret@c1,C1:6379", "twice"),
            ("me:s3cret@c1:0", "not a port"),
            ("me@c1", "without a password"),
            ("me:s3cret@c1/3", "one database"),
            ("me:s3cret@c1?db=3", "one database"),
            ("c1,me:s3cret@c2", "%2C"),
        ] {
            let error = read(&format!("redis-cluster://{rest}")).expect_err("no address");
            assert!(error.contains(part), "{rest}: {error}");
            assert!(!error.contains("s3cret"), "{rest}: {error}");
        }
        let error = read("redis+cluster://c1").expect_err("no scheme");
        assert!(error.contains("write redis-cluster://"), "{error}");
    }
}
