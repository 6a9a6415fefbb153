//! PostgreSQL: a server that runs already, and a caller of its advisory locks.
//!
//! Invariant: nothing of the URL but host and port is ever shown; it may hold a password.

use std::str::FromStr;
use std::time::Duration;

use quorlock_node::fnv;
use thiserror::Error;
use tokio::runtime::Builder;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::engine::EngineError;

/// A server that was asked for its version.
#[derive(Clone)]
pub struct Postgresql {
    config: Config,
    version: String,
}

/// Why it cannot be used.
#[derive(Debug, Error)]
pub enum PostgresqlError {
    /// The URL is none.
    #[error("no PostgreSQL URL such as postgresql://user@127.0.0.1:5432/postgres: {0}")]
    Url(String),
    /// It does not answer, or refuses.
    #[error("PostgreSQL at {0} cannot be used: {1}")]
    Silent(String, String),
}

impl Postgresql {
    /// Reads a URL, and connects once.
    ///
    /// # Errors
    /// If it is no URL, or the server does not answer.
    pub fn find(url: &str) -> Result<Postgresql, PostgresqlError> {
        let mut config =
            Config::from_str(url).map_err(|error| PostgresqlError::Url(said(&error)))?;
        config.connect_timeout(CONNECT_MAX);
        config.application_name("quorlock-experiment");
        let silent = |why: String| PostgresqlError::Silent(place(&config), why);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| silent(error.to_string()))?;
        let asked = runtime.block_on(async {
            let client = connect(&config).await?;
            let row = client.query_one("SHOW server_version", &[]).await?;
            row.try_get::<_, String>(0)
        });
        match asked {
            Ok(version) => Ok(Postgresql { version, config }),
            Err(error) => Err(silent(said(&error))),
        }
    }

    pub(super) fn version(&self) -> &str {
        // 15.18 (Debian 15.18-0+deb12u1)
        self.version.split(' ').next().unwrap_or_default()
    }

    pub(super) async fn caller(&self) -> Result<PostgresqlCaller, EngineError> {
        let client = connect(&self.config).await.map_err(failed)?;
        Ok(PostgresqlCaller {
            client,
            patience: None,
        })
    }
}

/// A session.
pub(super) struct PostgresqlCaller {
    client: Client,
    /// How long the session waits for a lock, as it was last set.
    patience: Option<Duration>,
}

impl PostgresqlCaller {
    /// Asks for a lock, and waits for it so long. The number that stands for its name.
    pub(super) async fn acquire(
        &mut self,
        name: &str,
        wait: Duration,
    ) -> Result<Option<i64>, tokio_postgres::Error> {
        let key = number_of(name);
        if wait.is_zero() {
            let row = self.client.query_one(TRY, &[&key]).await?;
            return Ok(row.try_get::<_, bool>(0)?.then_some(key));
        }
        if self.patience != Some(wait) {
            let words = format!("SET lock_timeout = {}", wait.as_millis());
            self.client.batch_execute(&words).await?;
            self.patience = Some(wait);
        }
        match self.client.query_one(WAIT, &[&key]).await {
            Ok(_) => Ok(Some(key)),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn release(&mut self, key: i64) -> Result<(), tokio_postgres::Error> {
        self.client.query_one(RELEASE, &[&key]).await.map(drop)
    }
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with the client, or with the server.
    tokio::spawn(connection);
    Ok(client)
}

/// Advisory locks have numbers: the name's 64-bit FNV-1a hash.
fn number_of(name: &str) -> i64 {
    fnv(name.bytes()).cast_signed()
}

fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "PostgreSQL".to_owned(),
    };
    match config.get_ports().first() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// An error with its cause: its own words alone say little.
fn said(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

pub(super) fn failed(error: tokio_postgres::Error) -> EngineError {
    EngineError::Failed(format!("PostgreSQL: {}", said(&error)))
}

const CONNECT_MAX: Duration = Duration::from_secs(5);
const TRY: &str = "SELECT pg_try_advisory_lock($1)";
const WAIT: &str = "SELECT pg_advisory_lock($1)";
const RELEASE: &str = "SELECT pg_advisory_unlock($1)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_and_a_server_that_is_none_are_told_without_the_password() {
        let error = |url: &str| match Postgresql::find(url) {
            Ok(_) => panic!("{url} is a server"),
            Err(error) => error.to_string(),
        };
        assert!(error("moon://x").contains("no PostgreSQL URL"));
        // Port 1 is nobody's.
        let silent = error("postgresql://me:secret@127.0.0.1:1/postgres");
        assert!(silent.contains("127.0.0.1:1 cannot be used"), "{silent}");
        assert!(!silent.contains("secret"), "{silent}");
    }

    #[test]
    fn names_have_numbers_of_their_own() {
        // Published values of FNV-1a.
        assert_eq!(number_of("").cast_unsigned(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(number_of("a").cast_unsigned(), 0xaf63_dc4c_8601_ec8c);
    }
}
