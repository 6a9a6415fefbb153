//! A call within the process beside the same request over loopback TCP, on one node with `appendfsync everysec` and a real
//! directory, in turns: what one caller waits for a SET, and how many a second 64 callers make together.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the machine's clock, and prints what it has measured"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock_server::Node;

const TURNS: usize = 5;
const CALLS: usize = 50_000;
const IN_FLIGHT: usize = 64;
const OVER_TCP: &[u8] =
    b"*5\r\n$3\r\nSET\r\n$4\r\nlock\r\n$5\r\ntoken\r\n$2\r\nPX\r\n$5\r\n30000\r\n";
const CALL: [&str; 5] = ["SET", "lock", "token", "PX", "30000"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let directory = tempfile::tempdir()?;
    let node = Node::builder()
        .dir(directory.path())
        .directive("first-start", &["serve"])
        .directive("appendfsync", &["everysec"])
        .port(0);
    let node = Arc::new(runtime.block_on(node.start())?);
    let mut stream = TcpStream::connect(node.address())?;
    stream.set_nodelay(true)?;
    let one_thread = tokio::runtime::Builder::new_current_thread().build()?;
    println!("turn  call p50   tcp p50   ratio   64 calls in flight: one thread   two threads");
    for turn in 1..=TURNS {
        let called = runtime.block_on(p50_of_calls(&node))?;
        let sent = p50_over_tcp(&mut stream)?;
        let of_one = one_thread.block_on(rate_in_flight(&node))?;
        let of_two = runtime.block_on(rate_in_flight(&node))?;
        let ratio = called.as_secs_f64() / sent.as_secs_f64();
        println!(
            "{turn:>4}  {called:>8.1?}  {sent:>8.1?}  {ratio:>5.2}   {of_one:>30.0}   {of_two:>11.0} a second"
        );
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn p50_of_calls(node: &Node) -> Result<Duration, quorlock_server::CallError> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        node.call(CALL).await?;
        times.push(began.elapsed());
    }
    Ok(median(times))
}

fn p50_over_tcp(stream: &mut TcpStream) -> std::io::Result<Duration> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        stream.write_all(OVER_TCP)?;
        stream.read_exact(&mut [0; b"+OK\r\n".len()])?;
        times.push(began.elapsed());
    }
    Ok(median(times))
}

async fn rate_in_flight(node: &Arc<Node>) -> Result<f64, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let node = Arc::clone(node);
            tokio::spawn(async move {
                for _ in 0..CALLS / IN_FLIGHT {
                    node.call(CALL).await?;
                    // Else a task makes all its calls before the next one begins.
                    tokio::task::yield_now().await;
                }
                Ok::<(), quorlock_server::CallError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok((CALLS / IN_FLIGHT * IN_FLIGHT) as f64 / began.elapsed().as_secs_f64())
}
