//! Locks in a table of PostgreSQL: a row for each name.
//!
//! Invariants: each operation is one statement, which is a transaction of its own: it happens or it does not, whatever becomes
//! of the connection. Nothing rests on the state of a session but that the server tells of releases, which saves time
//! alone. The time is the server's.

mod login;
mod refusal;
mod statements;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls, Row};

use self::login::{Facts, Handshake};
use self::refusal::{ended, is_unreplicated, refusal};
use self::statements::Statements;
use crate::connection::Gateway;
use crate::request::{Acquire, Operation};
use crate::system::{Done, Holder, Page, Running, System, Taken};

/// Who logs in, and where the table is.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The role.
    pub user: String,
    /// Its password, where it needs one.
    pub password: Option<String>,
    /// The database.
    pub database: String,
    /// The schema of the table.
    pub schema: String,
}

/// Speaks to a server on this connection.
///
/// # Errors
/// Why the server cannot keep locks: it refuses the login, is a standby, or has no table and lets none be made.
pub async fn connect<S>(stream: S, login: &Login) -> io::Result<Gateway>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let connected = login.config().connect_raw(stream, NoTls).await;
    let (client, connection) = connected.map_err(|error| login::explained(&error))?;
    session::<S, NoTlsStream>(client, connection, login).await
}

/// The same with TLS, which the server has to speak; `handshake` makes the connection one.
///
/// # Errors
/// As for [`connect`], and those of the handshake.
pub async fn connect_with_tls<S, H, F, T>(
    stream: S,
    handshake: H,
    login: &Login,
) -> io::Result<Gateway>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    H: FnOnce(S) -> F,
    F: Future<Output = io::Result<T>> + 'static,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut config = login.config();
    config.ssl_mode(tokio_postgres::config::SslMode::Require);
    let connected = config.connect_raw(stream, Handshake(handshake)).await;
    let (client, connection) = connected.map_err(|error| login::explained(&error))?;
    session(client, connection, login).await
}

async fn session<S, T>(
    client: Client,
    mut connection: tokio_postgres::Connection<S, T>,
    login: &Login,
) -> io::Result<Gateway>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let client = Rc::new(client);
    let mut messages: Messages = Box::new(move |context| connection.poll_message(context));
    let statements = Rc::new(Statements::of(&login.schema));
    let facts = {
        let mut preparing = pin!(login::prepare(&client, &statements, login));
        let prepared = poll_fn(|context| {
            while let Poll::Ready(message) = messages(context) {
                if !matches!(message, Some(Ok(_))) {
                    return Poll::Ready(Err(ended(message)));
                }
            }
            preparing.as_mut().poll(context)
        });
        prepared.await?
    };
    Ok(Gateway::new(Box::new(Postgresql {
        client,
        messages,
        statements,
        facts,
        watched: HashMap::new(),
    })))
}

impl Login {
    fn config(&self) -> Config {
        let mut config = Config::new();
        config.user(&self.user).dbname(&self.database);
        config.application_name("quorlock");
        if let Some(password) = &self.password {
            config.password(password);
        }
        config
    }
}

/// What the server sends, apart from what operations wait for.
type Messages = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>>>;

struct Postgresql {
    client: Rc<Client>,
    messages: Messages,
    statements: Rc<Statements>,
    facts: Facts,
    /// The locks of whose releases the server tells, by the channel on which it does.
    watched: HashMap<String, Bytes>,
}

impl Postgresql {
    /// Runs a statement. What it returns is read by the other function.
    fn run<T: 'static>(
        &self,
        statement: impl Fn(&Statements) -> &str + 'static,
        parameters: Vec<Parameter>,
        read: impl FnOnce(Vec<Row>) -> Result<T, String> + 'static,
    ) -> Running<T> {
        let client = Rc::clone(&self.client);
        let statements = Rc::clone(&self.statements);
        Box::pin(async move {
            let rows = query(&client, statement(&statements), &parameters).await;
            read(rows.map_err(|error| refusal(&error, &statements))?)
        })
    }
}

impl System for Postgresql {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn info(&self) -> Running<String> {
        let Facts { version, identity } = &self.facts;
        let known = format!("run_id:{identity}\r\nquorlock_gateway:postgresql {version}\r\n");
        let table = self.statements.table.clone();
        self.run(
            |all| &all.state,
            vec![Parameter::Text(table.clone())],
            move |rows| {
                let row = rows.first().ok_or("ERR PostgreSQL returns no row")?;
                let (now, is_standby) = (row.get::<_, i64>(0), row.get::<_, bool>(1));
                let role = if is_standby { "slave" } else { "master" };
                let lacking = row.get::<_, Option<String>>(2).unwrap_or_default();
                let lacking = match lacking.is_empty() {
                    true => lacking,
                    false => format!("quorlock_gateway_lacks:{lacking} on {table}\r\n"),
                };
                Ok(format!(
                    "# Server\r\n{known}role:{role}\r\nserver_time_usec:{now}\r\n{lacking}"
                ))
            },
        )
    }

    fn acquire(&self, acquire: Acquire) -> Running<Taken> {
        if acquire.name.len() > NAME_BYTES_MAX {
            let length = acquire.name.len();
            return refused(format!(
                "ERR a name has at most {NAME_BYTES_MAX} bytes on PostgreSQL, and this one has {length}"
            ));
        }
        if acquire.token.is_empty() {
            return refused("ERR a lock on PostgreSQL has a token".to_owned());
        }
        let parameters = vec![
            Parameter::Bytes(Some(acquire.name)),
            Parameter::Bytes(Some(acquire.token)),
            Parameter::of(acquire.ttl),
            Parameter::Bytes(acquire.owner),
        ];
        self.run(
            |all| &all.acquire,
            parameters,
            |rows| {
                let row = rows.first().ok_or(CHANGED_HANDS)?;
                let (is_granted, fence) = (row.get::<_, bool>(0), row.get::<_, i64>(1));
                Ok(match is_granted {
                    true => Taken::Granted(fence),
                    false => Taken::Held(fence, bytes(row, 2).ok_or(CHANGED_HANDS)?),
                })
            },
        )
    }

    fn operate(&self, operation: Operation) -> Running<Done> {
        match operation {
            Operation::Extend(name, token, ttl) => {
                let parameters = of_holder(name, &token, [Parameter::of(ttl)]);
                self.run(
                    |all| &all.extend,
                    parameters,
                    move |rows| done(&rows, &token),
                )
            }
            Operation::SetEnd(name, token, ttl, new) => {
                let new = new.unwrap_or_else(|| token.clone());
                let more = [Parameter::of(ttl), Parameter::Bytes(Some(new))];
                let parameters = of_holder(name, &token, more);
                self.run(
                    |all| &all.set_end,
                    parameters,
                    move |rows| done(&rows, &token),
                )
            }
            Operation::Release(name, token) => {
                let channel = Parameter::Text(channel_of(&name));
                let parameters = of_holder(name, &token, [channel]);
                self.run(
                    |all| &all.release,
                    parameters,
                    |rows| {
                        Ok(match rows.is_empty() {
                            true => Done::Free,
                            false => Done::Held,
                        })
                    },
                )
            }
            Operation::Fence(name, token, fence) => {
                let parameters = of_holder(name, &token, [Parameter::Number(fence)]);
                self.run(
                    |all| &all.fence,
                    parameters,
                    |rows| {
                        let fence = rows.first().map(|row| row.get::<_, i64>(0));
                        Ok(fence.map_or(Done::Free, Done::Fence))
                    },
                )
            }
        }
    }

    fn look(&self, name: Bytes) -> Running<Option<Holder>> {
        let parameters = vec![Parameter::Bytes(Some(name))];
        self.run(
            |all| &all.look,
            parameters,
            |rows| rows.first().map(holder).transpose(),
        )
    }

    fn watch(&mut self, name: Bytes) -> Running<Option<Holder>> {
        let channel = channel_of(&name);
        let listen = match self.watched.insert(channel.clone(), name.clone()) {
            Some(_) => None,
            None => Some(format!("LISTEN {channel}")),
        };
        let (client, statements) = (Rc::clone(&self.client), Rc::clone(&self.statements));
        // A release before the first is seen by the second, and one after it is told.
        let look = self.look(name);
        Box::pin(async move {
            if let Some(listen) = listen {
                let listening = client.batch_execute(&listen).await;
                listening.map_err(|error| refusal(&error, &statements))?;
            }
            look.await
        })
    }

    fn unwatch(&mut self, name: &Bytes) -> Running<()> {
        let channel = channel_of(name);
        if self.watched.remove(&channel).is_none() {
            return Box::pin(async { Ok(()) });
        }
        let (client, statements) = (Rc::clone(&self.client), Rc::clone(&self.statements));
        Box::pin(async move {
            let unlistening = client.batch_execute(&format!("UNLISTEN {channel}")).await;
            unlistening.map_err(|error| refusal(&error, &statements))
        })
    }

    fn list(&self, _: Bytes, after: Bytes) -> Running<Page> {
        self.run(
            |all| &all.list,
            vec![Parameter::Bytes(Some(after))],
            |rows| {
                let locks = rows.iter().map(|row| {
                    let name = bytes(row, 4).unwrap_or_default();
                    Ok((name, Some(holder(row)?)))
                });
                let locks = locks.collect::<Result<Vec<_>, String>>()?;
                let last = locks.last().map(|(name, _)| name.clone());
                let next = last.filter(|_| locks.len() == statements::PAGE);
                Ok(Page { locks, next })
            },
        )
    }

    fn poll_released(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match ready!((self.messages)(context)) {
                Some(Ok(AsyncMessage::Notification(told))) => {
                    if let Some(name) = self.watched.get(told.channel()) {
                        return Poll::Ready(Ok(name.clone()));
                    }
                }
                // The lock was granted, or ended, on this server alone: nobody may be told so.
                Some(Ok(AsyncMessage::Notice(told))) if is_unreplicated(&told) => {
                    let words = format!("PostgreSQL: {}", told.message());
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::ConnectionAborted,
                        words,
                    )));
                }
                Some(Ok(_)) => {}
                message => return Poll::Ready(Err(ended(message))),
            }
        }
    }
}

/// What a statement is given.
enum Parameter {
    Bytes(Option<Bytes>),
    Number(i64),
    Text(String),
}

impl Parameter {
    /// A time as a number of milliseconds.
    fn of(time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis());
        Self::Number(millis.expect("a request has 100 years at most"))
    }
}

fn of_holder<const N: usize>(name: Bytes, token: &Bytes, more: [Parameter; N]) -> Vec<Parameter> {
    let first = [name, token.clone()].map(|bytes| Parameter::Bytes(Some(bytes)));
    first.into_iter().chain(more).collect()
}

/// Runs a statement without a name, in one round trip: a proxy may give each statement another session.
async fn query(
    client: &Client,
    statement: &str,
    parameters: &[Parameter],
) -> Result<Vec<Row>, Error> {
    let slices: Vec<Option<&[u8]>> = parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Bytes(bytes) => bytes.as_deref(),
            _ => None,
        })
        .collect();
    let typed = parameters.iter().zip(&slices);
    let typed: Vec<(&(dyn ToSql + Sync), Type)> = typed
        .map(|(parameter, slice)| match parameter {
            Parameter::Bytes(_) => (slice as &(dyn ToSql + Sync), Type::BYTEA),
            Parameter::Number(number) => (number as &(dyn ToSql + Sync), Type::INT8),
            Parameter::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
        })
        .collect();
    client.query_typed(statement, &typed).await
}

/// What an operation came to, by whether a row was changed, and by who holds the lock.
fn done(rows: &[Row], token: &Bytes) -> Result<Done, String> {
    let row = rows.first().ok_or("ERR PostgreSQL returns no row")?;
    let holder = bytes(row, 1);
    Ok(match row.get::<_, i64>(0) {
        1.. => Done::Held,
        // It has expired since the statement began, where it is our own.
        _ if holder.is_some_and(|holder| holder != token) => Done::Other,
        _ => Done::Free,
    })
}

fn holder(row: &Row) -> Result<Holder, String> {
    let left = row.get::<_, i64>(2);
    Ok(Holder {
        token: bytes(row, 0).ok_or("ERR PostgreSQL tells no holder")?,
        fence: Some(row.get::<_, i64>(1)),
        // The statement makes it zero at least.
        left: Duration::from_millis(left.unsigned_abs()),
        owner: bytes(row, 3),
    })
}

fn bytes(row: &Row, column: usize) -> Option<Bytes> {
    row.get::<_, Option<&[u8]>>(column)
        .map(Bytes::copy_from_slice)
}

/// The channel on which releases of this lock are told. A name may be longer than that of a channel.
fn channel_of(name: &[u8]) -> String {
    let hash = Sha256::digest(name);
    let digits = hash.iter().take(20).map(|byte| format!("{byte:02x}"));
    digits.fold("quorlock_".to_owned(), |channel, two| channel + &two)
}

fn refused<T: 'static>(words: String) -> Running<T> {
    Box::pin(async move { Err(words) })
}

const CHANGED_HANDS: &str = "ERR the lock changes hands on PostgreSQL, ask again";
/// A row of an index takes 2704 bytes.
const NAME_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_a_name_that_needs_no_quotes_and_is_not_cut() {
        for name in [&b""[..], b"job", b"\"; DROP TABLE x", &[0; 9000]] {
            let channel = channel_of(name);
            let is_plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(
                channel.bytes().all(is_plain) && channel.len() < 63,
                "{channel}"
            );
        }
        assert_ne!(channel_of(b"a"), channel_of(b"b"));
    }
}
