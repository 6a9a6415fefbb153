//! The address of etcd: `[user:password@]host[:port][,host[:port]...]`, the members of one cluster.

use super::{Endpoint, NodeAddress, host};

/// Reads what follows the scheme.
pub(super) fn parse(rest: &str) -> Result<NodeAddress, String> {
    let (login, hosts) = host::with_one_login(rest)?;
    if rest.contains('@') && login.0.is_none() {
        return Err(
            "write the user before the password, as in etcd://user:password@host".to_owned(),
        );
    }
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    if hosts.contains(['/', '?']) {
        return Err(
            "nothing stands behind the members, which are host:port between commas".to_owned(),
        );
    }
    let members = host::list(hosts, PORT_DEFAULT)?;
    Ok(NodeAddress::plain(Endpoint::Etcd { members }, login))
}

/// What members listen on for clients.
const PORT_DEFAULT: u16 = 2379;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NodeAddress, String> {
        NodeAddress::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_members_of_etcd_are_an_address() {
        for (text, shown) in [
            ("etcd://E1", "etcd://e1:2379"),
            ("etcd://e1:1,[::1]/", "etcd://e1:1,[::1]:2379"),
            ("etcds://me:s3cret@e1,e2", "etcds://e1:2379,e2:2379"),
        ] {
            let node = read(text).expect("an address");
            assert_eq!(node.to_string(), shown);
            assert!(node.endpoint.is_other_system());
            assert_eq!(node.requested_login(), None, "it is no request");
        }
        let node = read("etcds://me:s3cret@e1").expect("an address");
        assert!(node.speaks_tls);
        assert_eq!(node.login(), (Some("me"), Some("s3cret")));
    }

    #[test]
    fn what_is_no_such_address_is_refused_with_the_reason_and_without_the_password() {
        for (rest, part) in [
            ("", "host is missing"),
            ("me:s3cret@e1,", "host is missing"),
            ("me:s3cret@e1,E1:2379", "twice"),
            ("me:s3cret@e1:0", "not a port"),
            (":s3cret@e1", "write the user"),
            ("me:s3cret@e1/locks", "nothing stands behind"),
            ("e1,me:s3cret@e2", "%2C"),
        ] {
            let error = read(&format!("etcd://{rest}")).expect_err("no address");
            assert!(error.contains(part), "{rest}: {error}");
            assert!(!error.contains("s3cret"), "{rest}: {error}");
        }
    }
}
