//! What the server's errors and notices mean, in words for the client.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{AsyncMessage, Error};

use super::statements::{self, Statements};

/// The server's words, and what to do about them.
pub(super) fn refusal(error: &Error, statements: &Statements) -> String {
    let Some(told) = error.as_db_error() else {
        return format!("ERR PostgreSQL: {}", said(error));
    };
    let (code, words) = (told.code(), told.message());
    match code {
        code if *code == SqlState::UNDEFINED_TABLE => format!(
            "ERR PostgreSQL has no table {} any more: connect again, or let an administrator make it",
            statements.table
        ),
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => format!(
            "NOPERM PostgreSQL: {words}: GRANT SELECT, INSERT, UPDATE ON {} to this role",
            statements.table
        ),
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            format!("ERR PostgreSQL takes no locks here, is it a standby? {words}")
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => format!(
            "ERR PostgreSQL: another transaction has kept the row of this lock for {}",
            statements::ROW_PATIENCE
        ),
        code => format!("ERR PostgreSQL: {words} ({})", code.code()),
    }
}

/// An error with its cause: its own words alone say little.
pub(super) fn said(error: &Error) -> String {
    match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

/// Whether a message is about a commit for whose standby the server waits no longer: somebody has cancelled the wait, or ends the session.
/// It comes before the server says that the statement is over. Its words are in the server's language, and its code is that of all warnings;
/// the place in PostgreSQL's source is not (src/backend/replication/syncrep.c).
pub(super) fn is_unreplicated(told: &DbError) -> bool {
    told.file().is_some_and(|file| file.ends_with("syncrep.c"))
        || *told.code() == SqlState::ADMIN_SHUTDOWN
}

/// The server has ended the connection.
pub(super) fn ended(message: Option<Result<AsyncMessage, Error>>) -> io::Error {
    let words = match message {
        Some(Err(error)) => said(&error),
        _ => "it has closed the connection".to_owned(),
    };
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        format!("PostgreSQL: {words}"),
    )
}
