//! The beginning of a connection: TLS, who the server is, and the table.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{Client, Error};

use super::refusal::said;
use super::statements::Statements;
use super::{Login, Parameter, query};

/// What the server says of itself.
pub(super) struct Facts {
    pub(super) version: String,
    /// Of the database: the same on a standby that takes over.
    pub(super) identity: String,
}

/// Asks who the server is, and makes the table where it is missing.
pub(super) async fn prepare(
    client: &Client,
    statements: &Statements,
    login: &Login,
) -> io::Result<Facts> {
    let (facts, kept) = ask(client, statements).await?;
    let kept = match kept {
        Some(kept) => Some(kept),
        None => {
            create(client, statements, login).await?;
            ask(client, statements).await?.1
        }
    };
    let kept = kept
        .as_ref()
        .map(|(persistence, is_ours)| (&**persistence, *is_ours));
    match kept {
        Some(("p", true)) => Ok(facts),
        Some((_, false)) => Err(unusable(format!(
            "{} is not the table that locks are kept in: rename it, or name another schema (?schema=NAME); it has to be made by: {}",
            statements.table, statements.create
        ))),
        Some(("u", true)) => Err(unusable(format!(
            "the table {} is unlogged, and empty after a crash: ALTER TABLE {} SET LOGGED",
            statements.table, statements.table
        ))),
        _ => Err(unusable(format!(
            "{} is no table that lasts",
            statements.table
        ))),
    }
}

/// How long the table lasts, and whether it has the columns that it needs.
type Kept = (String, bool);

/// The facts, and how the table is kept, if it is there.
async fn ask(client: &Client, statements: &Statements) -> io::Result<(Facts, Option<Kept>)> {
    let table = [Parameter::Text(statements.table.clone())];
    let rows = query(client, &statements.facts, &table).await;
    let rows = rows.map_err(|error| explained(&error))?;
    let row = rows.first().ok_or(io::ErrorKind::InvalidData)?;
    let text = |column: usize| row.get::<_, Option<String>>(column);
    if row.get::<_, bool>(1) {
        let words = "PostgreSQL: this server is a standby, which takes no locks: name the primary";
        return Err(io::Error::other(words));
    }
    let version = text(0).unwrap_or_default();
    let facts = Facts {
        // 15.18 (Debian 15.18-0+deb12u1)
        version: version.split(' ').next().unwrap_or_default().to_owned(),
        identity: format!(
            "postgresql-{}-{}",
            text(2).unwrap_or_default(),
            text(3).unwrap_or_default()
        ),
    };
    Ok((facts, text(4).zip(row.get(5))))
}

async fn create(client: &Client, statements: &Statements, login: &Login) -> io::Result<()> {
    let Err(error) = client.batch_execute(&statements.create).await else {
        return Ok(());
    };
    match error.code() {
        // Another client has made it at the same time.
        Some(code) if *code == SqlState::UNIQUE_VIOLATION || *code == SqlState::DUPLICATE_TABLE => {
            Ok(())
        }
        _ => Err(unusable(format!(
            "there is no table {}, and {} may not make it ({}): let an administrator run: {}; GRANT SELECT, INSERT, UPDATE ON {} TO \"{}\"",
            statements.table,
            login.user,
            words(&error),
            statements.create,
            statements.table,
            login.user.replace('"', "\"\""),
        ))),
    }
}

/// Why there is no session, in the server's words. Who it is that logs in, and to which database, no wait changes.
pub(super) fn explained(error: &Error) -> io::Error {
    let lasting = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ];
    if error.code().is_some_and(|code| lasting.contains(code)) {
        return unusable(words(error));
    }
    let hint = match error.code().map(SqlState::code) {
        Some("08P01") => {
            ": a proxy has to pool sessions, and to let application_name pass, or is left out"
        }
        _ => "",
    };
    let text = format!("PostgreSQL: {}{hint}", words(error));
    io::Error::other(text)
}

fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => told.message().to_owned(),
        None => said(error),
    }
}

/// Asking again does not mend it.
fn unusable(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("PostgreSQL: {words}"))
}

/// Makes a connection one that speaks TLS, by the client's own means.
pub(super) struct Handshake<H>(pub(super) H);

impl<S, H, F, T> TlsConnect<S> for Handshake<H>
where
    H: FnOnce(S) -> F,
    F: Future<Output = io::Result<T>> + 'static,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    type Stream = Secured<T>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<T>>>>>;

    fn connect(self, stream: S) -> Self::Future {
        let handshake = (self.0)(stream);
        Box::pin(async move { Ok(Secured(handshake.await?)) })
    }
}

/// A connection that speaks TLS. Passwords are not bound to it: the certificate is checked.
pub(super) struct Secured<T>(T);

impl<T: AsyncRead + AsyncWrite + Unpin> TlsStream for Secured<T> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Secured<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Secured<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
