//! The address of a master that Sentinels name: `[login@]host[:port][,host[:port]...]/master[/database]`.
//!
//! The login and the database are the master's: Sentinels are asked without a login.

use super::{Endpoint, NodeAddress, host, parse_database};

/// Reads what follows the scheme.
pub(super) fn parse(rest: &str) -> Result<NodeAddress, String> {
    let (login, location) = host::with_one_login(rest)?;
    if location.contains('?') {
        return Err("options after '?' are not known for Sentinels".to_owned());
    }
    let (hosts, path) = location.split_once('/').unwrap_or((location, ""));
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    let sentinels = host::list(hosts, PORT_DEFAULT)?;
    if master.is_empty() {
        return Err(
            "the name of the master is missing; write it as in redis+sentinel://host:26379/mymaster"
                .to_owned(),
        );
    }
    let is_in_names = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !master.bytes().all(is_in_names) {
        return Err("the name of a master has letters, digits, '.', '-' and '_' alone".to_owned());
    }
    let master = master.to_owned();
    Ok(NodeAddress {
        database: parse_database(database)?,
        ..NodeAddress::plain(Endpoint::Sentinels { sentinels, master }, login)
    })
}

/// What Sentinels listen on, as Redis documents it.
const PORT_DEFAULT: u16 = 26379;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NodeAddress, String> {
        NodeAddress::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_master_that_sentinels_name_is_an_address() {
        let sentinels = "redis+sentinel://me:s3cret@S1,[::1]:5/mymaster/2";
        let node = read(sentinels).expect("an address");
        let shown = "redis+sentinel://s1:26379,[::1]:5/mymaster/2";
        assert_eq!(node.to_string(), shown);
        assert!(node.endpoint.fails_over() && !node.speaks_tls);
        let login = (node.user.as_deref(), node.password.as_deref());
        assert_eq!(login, (Some("me"), Some("s3cret")));
        let node = read("rediss+sentinel://s1/m").expect("an address");
        assert_eq!(node.to_string(), "rediss+sentinel://s1:26379/m");
        assert!(node.speaks_tls);
    }

    #[test]
    fn what_is_no_such_address_is_refused_with_the_reason_and_without_the_password() {
        for (rest, part) in [
            ("s1:26379", "name of the master"),
            ("s1,/m", "host is missing"),
            ("s1,S1:26379/m", "twice"),
            ("s1:0/m", "not a port"),
            ("s1,a:s3cret@s2/m", "%2C"),
            ("s1/my master", "blanks"),
            ("s1/m(1)", "letters"),
            ("s1/m/x", "database"),
            ("s1/m?a=b", "options"),
        ] {
            let error = read(&format!("redis+sentinel://me:s3cret@{rest}")).unwrap_err();
            assert!(error.contains(part), "{rest}: {error}");
            assert!(!error.contains("s3cret"), "{rest}: {error}");
        }
    }
}
