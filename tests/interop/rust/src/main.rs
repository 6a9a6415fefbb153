//! redis-rs, fred and rslock against the nodes that `QUORLOCK_NODES` names, of which
//! `QUORLOCK_DELAYED` may be in its restart delay.
//!
//! Prints `ok NAME` or `FAIL NAME: why` for each check.

mod driver;
mod fred_driver;
mod locks;

use std::fmt::Display;
use std::process::ExitCode;

/// Why a check failed.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Prints what became of each check and remembers whether all passed.
#[derive(Default)]
struct Report {
    failures: usize,
}

impl Report {
    fn add(&mut self, name: &str, outcome: Result<(), impl Display>) {
        match outcome {
            Ok(()) => println!("ok {name}"),
            Err(error) => {
                self.failures += 1;
                println!("FAIL {name}: {}", error.to_string().replace('\n', " "));
            }
        }
    }
}

/// Fails a check with a sentence of what was expected.
fn expect(holds: bool, what: impl Display) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what.to_string().into()) }
}

/// Says which version of a client is checked.
fn version(client: &str, package: &str) {
    let locked = include_str!("../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    if let Some((_, rest)) = locked.split_once(&entry) {
        println!("version {client} Rust {}", rest.split('"').next().unwrap_or_default());
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let nodes = std::env::var("QUORLOCK_NODES").unwrap_or_default();
    let urls: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let mut report = Report::default();
    let delayed = std::env::var("QUORLOCK_DELAYED").ok();
    if delayed.is_none() {
        version("redis-rs", "redis");
        driver::run(&mut report, &urls[0]).await;
        version("fred", "fred");
        fred_driver::run(&mut report, &urls[0]).await;
    }
    version("rslock", "rslock");
    locks::run(&mut report, &urls, delayed.as_deref()).await;
    println!("done");
    if report.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
