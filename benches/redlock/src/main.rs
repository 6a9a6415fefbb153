//! Callers that acquire and release locks on several nodes, with our library or with rslock.
//!
//! usage: quorlock-redlock-load quorlock|rslock NODES CALLERS CYCLES
//!        quorlock-redlock-load turns NODES CLIENTS TURNS
//!        quorlock-redlock-load crowd NODES CALLERS 0
//!
//! It warms up, says `warm`, waits for a line on standard input, runs that many cycles, and prints what they took as
//! one line of JSON. Each caller has a name of its own, so nobody waits for anybody else. With `turns` all want the same
//! lock, and how long they wait is printed. With `crowd` all are callers of one client that give up together, and what that
//! costs the client and its other locks is printed.

mod crowd;
mod cycles;
mod library;
mod turns;

use std::error::Error;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use cycles::Cycles;
use library::Library;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, nodes, callers, cycles] = &arguments[..] else {
        return Err("usage: quorlock-redlock-load quorlock|rslock NODES CALLERS CYCLES".into());
    };
    let nodes: Vec<&str> = nodes.split(',').collect();
    if library == "turns" {
        println!(
            "{}",
            turns::run(&nodes, callers.parse()?, cycles.parse()?).await?
        );
        return Ok(());
    }
    if library == "crowd" {
        println!("{}", crowd::run(&nodes, callers.parse()?).await?);
        return Ok(());
    }
    let library = Arc::new(Library::open(library, &nodes)?);
    let (callers, cycles): (usize, usize) = (callers.parse()?, cycles.parse()?);
    Cycles::run(&library, callers, (cycles / 10).max(100)).await?;
    println!("warm");
    let mut line = String::new();
    BufReader::new(tokio::io::stdin())
        .read_line(&mut line)
        .await?;
    let measured = Cycles::run(&library, callers, cycles).await?;
    println!("{}", measured.json());
    Ok(())
}
