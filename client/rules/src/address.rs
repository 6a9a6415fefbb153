//! Where a node is: `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `unix:///path`, a name of the
//! program's, a master that Sentinels name: `redis+sentinel://[user:password@]host[:port][,host[:port]...]/master[/database]`, or
//! another system: `postgresql://user[:password]@host[:port]/database`, `etcd://[user:password@]host[:port][,host[:port]...]`,
//! `redis-cluster://[[user]:password@]host[:port][,host[:port]...]`.
//!
//! Invariant: an address is complete and plausible once parsed; names are resolved later, node by
//! node, when a connection is made. A password never appears in what is displayed.
//!
//! The crate `url` is not used: it and its tables of Unicode would be 26 more packages for the split of host
//! and port. It takes a login off no `unix:` address, ends one at a '/' in the password, drops tabs and line
//! breaks silently, and tells of an address that it cannot read nothing of what may be shown.

mod etcd;
mod host;
mod postgresql;
mod redis_cluster;
mod sentinels;

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

/// One node's address, with what is needed to log in.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    /// What is connected to, whoever logs in there.
    pub endpoint: Endpoint,
    /// Whether TLS is spoken there.
    pub speaks_tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

/// What is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A port of a host.
    Tcp {
        /// Its name or address, the latter without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix {
        /// Its path.
        path: String,
    },
    /// A connection that the program makes itself.
    Program {
        /// How the node is shown.
        name: String,
    },
    /// Whoever is the master of a name, as one of these Sentinels says whenever a connection is made.
    Sentinels {
        /// Their hosts and ports.
        sentinels: Vec<(String, u16)>,
        /// What they call the master.
        master: String,
    },
    /// The members of etcd, whose keys are locks.
    Etcd {
        /// Their hosts and ports.
        members: Vec<(String, u16)>,
    },
    /// A Redis Cluster, which keeps each lock on the master of its hash slot.
    RedisCluster {
        /// Hosts and ports of some of its servers, which name the others.
        servers: Vec<(String, u16)>,
    },
    /// A table of PostgreSQL, whose rows are locks.
    Postgresql {
        /// Its server's name or address, or the directory of its socket, which begins with a '/'.
        host: String,
        /// The port, which is a part of the socket's name as well.
        port: u16,
        /// The database.
        database: String,
        /// The schema of the table.
        schema: String,
    },
}

impl Endpoint {
    /// Whether another server may take the node's place without the locks that it took last: replication to it is
    /// asynchronous, so a lock may have two holders after a failover.
    #[must_use]
    pub fn fails_over(&self) -> bool {
        matches!(self, Self::Sentinels { .. } | Self::RedisCluster { .. })
    }

    /// Whether it is another system, which is no node among others: it is the whole list, and has its own way to log in.
    #[must_use]
    pub fn is_other_system(&self) -> bool {
        matches!(
            self,
            Self::Etcd { .. } | Self::Postgresql { .. } | Self::RedisCluster { .. }
        )
    }
}

/// A user and a password.
type Login = (Option<String>, Option<String>);

/// Why a node's address cannot be used.
///
/// # Example
/// ```
/// use quorlock_client::{BuildError, Redlock};
///
/// let Err(BuildError::Address(error)) = Redlock::builder().node("db1:7001").build() else {
///     panic!("the scheme is missing")
/// };
/// assert_eq!(error.reason, "write redis://host:port or unix:///path");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{address}' is not a node's address: {reason}")]
#[non_exhaustive]
pub struct AddressError {
    /// The address as it was given, without its password.
    pub address: String,
    /// What is wrong with it and what to write instead.
    pub reason: String,
}

impl NodeAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// When the scheme is unknown or not in this release, or a part is missing or malformed.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let fail = |reason: &str| AddressError {
            address: without_password(text),
            reason: reason.to_owned(),
        };
        if text
            .chars()
            .any(|character| character.is_control() || character == ' ')
        {
            return Err(fail("it contains blanks or control characters"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(fail("write redis://host:port or unix:///path"));
        };
        let unknown = |known: &str| Err(format!("the scheme is unknown; write {known}"));
        let parsed = match scheme {
            "redis" | "valkey" | "quorlock" | "rediss" | "valkeys" => parse_tcp(rest),
            "unix" | "redis+unix" => parse_unix(rest),
            "redis+sentinel" | "valkey+sentinel" | "rediss+sentinel" => sentinels::parse(rest),
            "etcd" | "etcds" => etcd::parse(rest),
            "redis-cluster" | "valkey-cluster" | "rediss-cluster" => redis_cluster::parse(rest),
            "postgresql" | "postgres" => postgresql::parse(rest),
            _ if scheme.contains("sentinel") => unknown("redis+sentinel://host:port/master"),
            _ if scheme.contains("cluster") => unknown("redis-cluster://host:port,host:port"),
            _ => unknown("redis://host:port or unix:///path"),
        };
        let mut address = parsed.map_err(|reason| fail(&reason))?;
        // An address of PostgreSQL has said it behind its '?'.
        address.speaks_tls |= TLS_SCHEMES.contains(&scheme);
        Ok(address)
    }

    /// An address in the first database, without TLS.
    fn plain(endpoint: Endpoint, (user, password): Login) -> Self {
        Self {
            endpoint,
            speaks_tls: false,
            user,
            password,
            database: 0,
        }
    }

    /// The node to which the program makes connections itself, under the name that is shown.
    ///
    /// # Errors
    /// When the name is empty, or could be taken for an address or for several words.
    pub fn of_program(name: &str) -> Result<Self, AddressError> {
        let is_name = !name.is_empty() && name.chars().all(|character| !character.is_control());
        if !is_name || name.contains([' ', '/', '@']) {
            return Err(AddressError {
                address: without_password(name),
                reason: "a connector's name has no blanks and no '/' or '@', and is not empty"
                    .to_owned(),
            });
        }
        let name = name.to_owned();
        Ok(Self::plain(Endpoint::Program { name }, (None, None)))
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.speaks_tls { "rediss" } else { "redis" };
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                write!(formatter, "{scheme}://{}:{port}", host::shown(host))?;
            }
            Endpoint::Unix { path } => write!(formatter, "unix://{path}")?,
            Endpoint::Program { name } => formatter.write_str(name)?,
            Endpoint::Sentinels { sentinels, master } => {
                let sentinels = host::list_shown(sentinels);
                write!(formatter, "{scheme}+sentinel://{sentinels}/{master}")?;
            }
            Endpoint::Etcd { members } => {
                let scheme = if self.speaks_tls { "etcds" } else { "etcd" };
                write!(formatter, "{scheme}://{}", host::list_shown(members))?;
            }
            Endpoint::RedisCluster { servers } => {
                let servers = host::list_shown(servers);
                write!(formatter, "{scheme}-cluster://{servers}")?;
            }
            Endpoint::Postgresql {
                host,
                port,
                database,
                schema,
            } => {
                let shown = postgresql::shown(host, *port, database, schema, self.speaks_tls);
                formatter.write_str(&shown)?;
            }
        }
        match (&self.endpoint, self.database) {
            (_, 0) => Ok(()),
            (Endpoint::Unix { .. }, database) => write!(formatter, "?db={database}"),
            (_, database) => write!(formatter, "/{database}"),
        }
    }
}

impl NodeAddress {
    /// Who logs in there, and with which password: for a connection that logs in by other means than requests.
    #[must_use]
    pub fn login(&self) -> (Option<&str>, Option<&str>) {
        (self.user.as_deref(), self.password.as_deref())
    }

    /// The password that is sent as a request, if one is, and the user before it.
    pub(crate) fn requested_login(&self) -> Option<(Option<&str>, &str)> {
        let password = self.password.as_deref()?;
        let is_requested = !self.endpoint.is_other_system();
        is_requested.then_some((self.user.as_deref(), password))
    }

    /// A node's words up to where they repeat the password, as errors about an unknown command do. They may cut it or write
    /// it in another form, so its beginning is what is looked for.
    pub(crate) fn without_secrets<'a>(&self, words: &'a str) -> Cow<'a, str> {
        let password = self.password.as_deref().unwrap_or_default();
        let beginning = match password.char_indices().nth(SECRET_CHARACTERS) {
            Some((end, _)) => &password[..end],
            None => password,
        };
        // The code, which says what kind of error it is, repeats nothing.
        let code = words.split(' ').next().unwrap_or_default();
        let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase());
        let searched = if is_code { code.len() } else { 0 };
        match words[searched..]
            .find(beginning)
            .filter(|_| !beginning.is_empty())
        {
            Some(at) => Cow::Owned(format!("{}...", &words[..searched + at])),
            None => Cow::Borrowed(words),
        }
    }
}

impl fmt::Debug for NodeAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeAddress({self})")
    }
}

fn parse_tcp(rest: &str) -> Result<NodeAddress, String> {
    let (login, location) = split_login(rest)?;
    let (location, query) = location.split_once('?').unwrap_or((location, ""));
    if !query.is_empty() {
        return Err("options after '?' are not known for redis:// addresses".to_owned());
    }
    let (authority, path) = location.split_once('/').unwrap_or((location, ""));
    let database = parse_database(path)?;
    let (host, port) = host::and_port(authority, PORT_DEFAULT)?;
    Ok(NodeAddress {
        database,
        ..NodeAddress::plain(Endpoint::Tcp { host, port }, login)
    })
}

fn parse_unix(rest: &str) -> Result<NodeAddress, String> {
    let (login, location) = match rest.split_once('@') {
        Some((login, location)) if !login.contains('/') => (Some(login), location),
        _ => (None, rest),
    };
    let login = login.map_or(Ok((None, None)), parse_login)?;
    let (path, query) = location.split_once('?').unwrap_or((location, ""));
    let database = match query {
        "" => 0,
        _ => parse_database(
            query
                .strip_prefix("db=")
                .ok_or("the only option is ?db=NUMBER")?,
        )?,
    };
    if !path.starts_with('/') || path.len() < 2 {
        return Err("the path must be absolute, as in unix:///run/quorlock.sock".to_owned());
    }
    // One path is written in one way, so that a socket that is listed twice is noticed.
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let path: String = parts.flat_map(|part| ["/", part]).collect();
    if path.split('/').any(|part| part == "..") {
        return Err("write the path without '..'".to_owned());
    }
    if path.is_empty() {
        return Err("the path names no socket".to_owned());
    }
    // sun_path holds 108 bytes with its final zero.
    if path.len() > 107 {
        return Err("the path of a Unix socket has at most 107 bytes".to_owned());
    }
    Ok(NodeAddress {
        database,
        ..NodeAddress::plain(Endpoint::Unix { path }, login)
    })
}

/// Splits off what stands before the last '@'.
fn split_login(rest: &str) -> Result<(Login, &str), String> {
    match rest.rsplit_once('@') {
        Some((login, location)) => Ok((parse_login(login)?, location)),
        None => Ok(((None, None), rest)),
    }
}

fn parse_login(login: &str) -> Result<Login, String> {
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (login, None),
    };
    let user = if user.is_empty() {
        None
    } else {
        Some(decode(user)?)
    };
    if user.is_some() && password.is_none() {
        return Err("a user is named without a password; write user:password@host".to_owned());
    }
    Ok((user, password))
}

fn parse_database(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| "what follows the '/' is not the number of a database".to_owned()),
    }
}

/// Undoes percent encoding, so that a password may hold any character.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.ok_or("a '%' must be followed by two hexadecimal digits")?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "the login is not UTF-8".to_owned())
}

/// The address with everything taken out that may be a part of a password, also where it was cut
/// or mistyped so that it cannot be read.
fn without_password(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    };
    let (hidden, location) = match rest.rsplit_once('@') {
        // A '?' before the '@': either may belong to the password.
        Some((login, _)) if login.contains('?') => return format!("{scheme}..."),
        Some((_, location)) => ("...@", location),
        None => ("", rest),
    };
    let (location, query) = match location.split_once('?') {
        Some((location, _)) => (location, "?..."),
        None => (location, ""),
    };
    // Past the colons of an IPv6 address in brackets, if that is what it begins with.
    let host = match location
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, _)) if host::may_be_ipv6(host) => host.len() + 2,
        _ => 0,
    };
    let location = match location[host..].split_once(':') {
        Some((name, port)) if !is_port_and_database(port) => {
            format!("{}{name}:...", &location[..host])
        }
        _ => location.to_owned(),
    };
    format!("{scheme}{hidden}{location}{query}")
}

fn is_port_and_database(text: &str) -> bool {
    let (port, database) = text.split_once('/').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    port.parse::<u16>().is_ok() && is_number(port) && database.len() <= 4 && is_number(database)
}

const PORT_DEFAULT: u16 = 6379;
const TLS_SCHEMES: [&str; 5] = [
    "rediss",
    "valkeys",
    "rediss+sentinel",
    "etcds",
    "rediss-cluster",
];
/// Shorter words of a node are not taken for a password, unless that is as short.
const SECRET_CHARACTERS: usize = 4;

#[cfg(test)]
mod tests;
