//! The address of a table of PostgreSQL: `user[:password]@host[:port]/database[?sslmode=require&schema=name]`, or with the directory of
//! its socket, `user@/database?host=/run/postgresql`.

use super::{Endpoint, NodeAddress, decode, host};

/// Reads what follows the scheme.
pub(super) fn parse(rest: &str) -> Result<NodeAddress, String> {
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, location) = location
        .rsplit_once('@')
        .ok_or("write the user, as in postgresql://user@host/database")?;
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (login, None),
    };
    let (authority, database) = location.split_once('/').unwrap_or((location, ""));
    let (user, database) = (decode(user)?, decode(database)?);
    if user.is_empty() {
        return Err("write the user, as in postgresql://user@host/database".to_owned());
    }
    if database.is_empty() || database.contains('/') {
        return Err("write the database, as in postgresql://user@host/database".to_owned());
    }
    let options = Options::read(query)?;
    let (host, port) = match options.socket {
        Some(_) if !authority.is_empty() => {
            return Err("host= is for a socket, in place of the host before the '/'".to_owned());
        }
        Some(socket) => (socket, options.port.unwrap_or(PORT_DEFAULT)),
        None if options.port.is_some() => {
            return Err("write the port behind the host, as in host:5432".to_owned());
        }
        None => host::and_port(authority, PORT_DEFAULT)?,
    };
    if options.speaks_tls && host.starts_with('/') {
        return Err("TLS is not spoken over a socket of the file system".to_owned());
    }
    let schema = options.schema;
    let endpoint = Endpoint::Postgresql {
        host,
        port,
        database,
        schema: schema.unwrap_or_else(|| SCHEMA_DEFAULT.to_owned()),
    };
    Ok(NodeAddress {
        speaks_tls: options.speaks_tls,
        ..NodeAddress::plain(endpoint, (Some(user), password))
    })
}

/// What stands behind the '?'.
#[derive(Default)]
struct Options {
    speaks_tls: bool,
    schema: Option<String>,
    socket: Option<String>,
    port: Option<u16>,
}

impl Options {
    fn read(query: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decode(value)?;
            match (name, &*value) {
                ("sslmode", "disable") => options.speaks_tls = false,
                // The certificate is checked in each of them.
                ("sslmode", "require" | "verify-ca" | "verify-full") => options.speaks_tls = true,
                ("sslmode", _) => {
                    return Err("sslmode is require, for TLS with a certificate that is checked, or disable".to_owned());
                }
                ("schema", _) => {
                    let is_in_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                    if value.is_empty() || value.len() > 63 || !value.bytes().all(is_in_names) {
                        return Err(
                            "the name of a schema has letters, digits and '_' alone".to_owned()
                        );
                    }
                    options.schema = Some(value);
                }
                ("host", directory) if directory.starts_with('/') => {
                    let directory = directory.trim_end_matches('/');
                    options.socket = Some(directory.to_owned());
                }
                ("host", _) => return Err("host= is the directory of a socket".to_owned()),
                ("port", _) => {
                    let port = value.parse().ok().filter(|port| *port != 0);
                    options.port = Some(port.ok_or("port= is not a port")?);
                }
                _ => {
                    return Err(
                        "the options are sslmode, schema, and host and port of a socket".to_owned(),
                    );
                }
            }
        }
        Ok(options)
    }
}

/// As it is written, without the login.
pub(super) fn shown(
    host: &str,
    port: u16,
    database: &str,
    schema: &str,
    speaks_tls: bool,
) -> String {
    let mut options = Vec::new();
    let authority = match host.starts_with('/') {
        true => {
            options.push(format!("host={host}"));
            if port != PORT_DEFAULT {
                options.push(format!("port={port}"));
            }
            String::new()
        }
        false => format!("{}:{port}", host::shown(host)),
    };
    if speaks_tls {
        options.push("sslmode=require".to_owned());
    }
    if schema != SCHEMA_DEFAULT {
        options.push(format!("schema={schema}"));
    }
    let mark = if options.is_empty() { "" } else { "?" };
    format!(
        "postgresql://{authority}/{database}{mark}{}",
        options.join("&")
    )
}

const PORT_DEFAULT: u16 = 5432;
const SCHEMA_DEFAULT: &str = "public";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NodeAddress, String> {
        NodeAddress::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_of_postgresql_is_an_address() {
        for (text, shown) in [
            (
                "postgresql://me:s3cr%2Ft@DB/app",
                "postgresql://db:5432/app",
            ),
            (
                "postgres://me@[::1]:5433/app",
                "postgresql://[::1]:5433/app",
            ),
            (
                "postgresql://me@db/app?sslmode=verify-full&schema=locks",
                "postgresql://db:5432/app?sslmode=require&schema=locks",
            ),
            (
                "postgresql://me@/app?host=/run/postgresql",
                "postgresql:///app?host=/run/postgresql",
            ),
            (
                "postgresql://me@/app?host=%2Frun%2Fpostgresql/&port=5433",
                "postgresql:///app?host=/run/postgresql&port=5433",
            ),
            (
                "postgresql://me@db/app?schema=public&sslmode=disable",
                "postgresql://db:5432/app",
            ),
        ] {
            let node = read(text).expect("an address");
            assert_eq!(node.to_string(), shown);
            assert!(node.endpoint.is_other_system() && !node.endpoint.fails_over());
            assert_eq!(node.login().0, Some("me"));
            assert_eq!(node.requested_login(), None, "it is no request");
        }
        let node = read("postgresql://me:s3cr%2Ft@db/app").expect("an address");
        assert_eq!(node.login(), (Some("me"), Some("s3cr/t")));
        assert!(!format!("{node:?}").contains("s3cr"));
    }

    #[test]
    fn what_is_no_such_address_is_refused_with_the_reason_and_without_the_password() {
        for (rest, part) in [
            ("db/app", "write the user"),
            (":s3cret@db/app", "write the user"),
            ("me:s3cret@db", "write the database"),
            ("me:s3cret@db/app/more", "write the database"),
            ("me:s3cret@/app", "host is missing"),
            ("me:s3cret@db:0/app", "not a port"),
            ("me:s3cret@db/app?sslmode=prefer", "sslmode is require"),
            ("me:s3cret@db/app?schema=a\"b", "letters, digits"),
            ("me:s3cret@db/app?host=/run", "in place of the host"),
            ("me:s3cret@/app?host=db", "directory of a socket"),
            ("me:s3cret@/app?host=/run&sslmode=require", "over a socket"),
            ("me:s3cret@db/app?port=5432", "behind the host"),
            ("me:s3cret@db/app?password=s3cret", "the options are"),
        ] {
            let error = read(&format!("postgresql://{rest}")).expect_err("no address");
            assert!(error.contains(part), "{rest}: {error}");
            assert!(!error.contains("s3cret"), "{rest}: {error}");
        }
    }
}
