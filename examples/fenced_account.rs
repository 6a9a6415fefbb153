//! A writer that is paused beyond its lease, with and without a fence.
//!
//! Run it with `cargo run --example fenced_account`. Two processes take money from one account, each under the lock: read the
//! balance, work, write what is left. The first one is stopped (SIGSTOP) between the two, until its lease is over and the second
//! one has written. Then it goes on and writes, as a process does that was paused just there: no check before the
//! write can help, since the pause may come behind the check.
//!
//! The data are in a file of SQLite, or in PostgreSQL where `ACCOUNT_DATABASE` is its URL. Both store the fence with
//! the data, and compare in the statement that reads or writes: see `Database`.
//!
//! On loss: the write is refused, and the program says so. What it read before is old: it would begin anew, with the lock.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod cluster;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use quorlock::{Redlock, Wait};
use rusqlite::OptionalExtension as _;
use rustix::process::{Pid, Signal, kill_process};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, writer, amount, is_fenced] = &arguments[..] {
        return write_after_a_line(writer, amount.parse()?, is_fenced == "fenced").await;
    }
    let cluster = cluster::nodes().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("accounts.db");
    let place = std::env::var("ACCOUNT_DATABASE").unwrap_or(file.display().to_string());
    for is_fenced in [false, true] {
        let database = Database::open(&place).await?;
        database.reset().await?;
        let story = Story {
            nodes: cluster.addresses.join(","),
            place: place.clone(),
            is_fenced,
        };
        // The writers are waited for in threads of their own: the nodes run in this process.
        tokio::task::spawn_blocking(move || story.run().map_err(|error| error.to_string()))
            .await??;
        let name = if is_fenced { "with" } else { "without" };
        let balance = database.balance().await?;
        println!("{name} fences: 100 less 30 is {balance}, after a late write of 100 less 50\n");
    }
    Ok(())
}

/// What both writers need to know.
struct Story {
    nodes: String,
    place: String,
    is_fenced: bool,
}

impl Story {
    fn run(&self) -> Outcome<()> {
        let (mut first, mut first_input) = self.writer("first", 50)?;
        kill_process(pid(&first), Signal::STOP)?;
        println!("first is paused");
        let (mut second, mut second_input) = self.writer("second", 30)?;
        writeln!(second_input, "write")?;
        second.wait()?;
        kill_process(pid(&first), Signal::CONT)?;
        println!("first goes on");
        writeln!(first_input, "write")?;
        first.wait()?;
        Ok(())
    }

    /// Starts a writer and waits until it has the lock and has read the balance.
    fn writer(&self, name: &str, amount: i64) -> Outcome<(Child, ChildStdin)> {
        let fenced = if self.is_fenced { "fenced" } else { "plain" };
        let mut writer = Command::new(std::env::current_exe()?)
            .args([name, &amount.to_string(), fenced])
            .env("QUORLOCK_NODES", &self.nodes)
            .env("ACCOUNT_DATABASE", &self.place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = writer.stdin.take().ok_or("no input")?;
        let mut lines = BufReader::new(writer.stdout.take().ok_or("no output")?).lines();
        let said = lines.next().ok_or("a writer ended early")??;
        println!("{said}");
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| println!("{line}"))
        });
        Ok((writer, input))
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// One writer: reads under the lock, and writes when it is told to.
async fn write_after_a_line(name: &str, amount: i64, is_fenced: bool) -> Outcome<()> {
    let nodes = std::env::var("QUORLOCK_NODES")?;
    let redlock = Redlock::builder().nodes(nodes.split(',')).build()?;
    let lock = redlock.lock("account").ttl(TTL).wait(Wait::For(TTL * 20));
    let lock = if is_fenced { lock.fenced() } else { lock };
    let guard = lock.acquire().await?;
    let database = Database::open(&std::env::var("ACCOUNT_DATABASE")?).await?;
    let fence = guard.fence().map(i64::try_from).transpose()?;
    let Some(balance) = database.read(fence.unwrap_or(0)).await? else {
        println!("{name} is refused: somebody has come with a larger fence");
        return Ok(());
    };
    match fence {
        Some(fence) => println!("{name} has the lock with the fence {fence}, and reads {balance}"),
        None => println!("{name} has the lock, and reads {balance}"),
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    let left = balance - amount;
    match database.write(left, fence.unwrap_or(0)).await? {
        true => println!("{name} writes {left}"),
        false => println!("{name} is refused: somebody has come with a larger fence"),
    }
    drop(guard);
    redlock.close().await;
    Ok(())
}

/// Where the account is.
enum Database {
    Sqlite(rusqlite::Connection),
    Postgresql(tokio_postgres::Client),
}

impl Database {
    async fn open(place: &str) -> Outcome<Self> {
        if !place.starts_with("postgres") {
            return Ok(Self::Sqlite(rusqlite::Connection::open(place)?));
        }
        let (client, connection) = tokio_postgres::connect(place, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(Self::Postgresql(client))
    }

    async fn reset(&self) -> Outcome<()> {
        let statements = "DROP TABLE IF EXISTS account;
            CREATE TABLE account (name TEXT PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL);
            INSERT INTO account VALUES ('a', 100, 0);";
        match self {
            Self::Sqlite(connection) => connection.execute_batch(statements)?,
            Self::Postgresql(client) => client.batch_execute(statements).await?,
        }
        Ok(())
    }

    /// The balance as it stands.
    async fn balance(&self) -> Outcome<i64> {
        let query = "SELECT balance FROM account WHERE name = 'a'";
        Ok(match self {
            Self::Sqlite(connection) => connection.query_row(query, [], |row| row.get(0))?,
            Self::Postgresql(client) => client.query_one(query, &[]).await?.get(0),
        })
    }

    /// Stores the fence and tells the balance; none if a larger fence is stored. From here on no holder before this one can
    /// write: not even between this and the write of this one.
    async fn read(&self, fence: i64) -> Outcome<Option<i64>> {
        let update =
            "UPDATE account SET fence = $1 WHERE name = 'a' AND fence <= $1 RETURNING balance";
        Ok(match self {
            Self::Sqlite(connection) => {
                let balance = connection.query_row(update, [fence], |row| row.get(0));
                balance.optional()?
            }
            Self::Postgresql(client) => {
                let row = client.query_opt(update, &[&fence]).await?;
                row.map(|row| row.get(0))
            }
        })
    }

    /// Stores the balance, unless a larger fence is stored. Says whether it did.
    async fn write(&self, balance: i64, fence: i64) -> Outcome<bool> {
        let update = "UPDATE account SET balance = $1 WHERE name = 'a' AND fence <= $2";
        let rows = match self {
            Self::Sqlite(connection) => connection.execute(update, (balance, fence))?.try_into()?,
            Self::Postgresql(client) => client.execute(update, &[&balance, &fence]).await?,
        };
        Ok(rows == 1)
    }
}

const TTL: Duration = Duration::from_millis(500);
