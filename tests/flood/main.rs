//! Floods the real node with connections: each sends one byte, half of a request, or a pipeline whose
//! replies it never reads, with and without a password; or half of a hello, or a whole one, to the port of TLS; or
//! requests to that of the metrics; or nothing, or tries for a lock without an end, to an agent. One client goes on asking, and
//! new ones connect.
//!
//! It says how much memory the node took at most and how long the other clients waited, and fails where
//! the node ended, took more than it may, or let nobody in. It uses sockets as any program can; what is
//! closed by the node is opened again at once.

#![allow(
    clippy::disallowed_methods,
    reason = "a flood of a real node lasts as long as real time says"
)]

mod attack;
mod node;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use attack::Attack;
use node::{FloodedNode, Port, Witness};

const USAGE: &str = "\
usage: tests/flood/run [options] [ATTACK...]

  --program FILE    the `quorlock` to test (default: target/release/quorlock)
  --clients N       connections that attack (default: 9990 of the node's 10000; 10100 where they
                    may make room for others, so that maxclients is reached)
  --seconds N       for how long (default: 20)
  --memory-mib N    fail if the node ever had more resident memory (default: 1024); some attacks
                    allow less
  --address-space   limit the node's address space to that as well (needs prlimit)
";

/// What the person who started it wants.
struct Options {
    program: PathBuf,
    clients: Option<usize>,
    time: Duration,
    memory_mib: u64,
    limits_address_space: bool,
    names: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            program: "target/release/quorlock".into(),
            clients: None,
            time: Duration::from_secs(20),
            memory_mib: 1024,
            limits_address_space: false,
            names: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let number = |text: String| text.parse::<u64>().map_err(|error| error.to_string());
            match word.as_str() {
                "--program" => options.program = value()?.into(),
                "--clients" => {
                    let clients = usize::try_from(number(value()?)?);
                    options.clients = Some(clients.map_err(|error| error.to_string())?);
                }
                "--seconds" => options.time = Duration::from_secs(number(value()?)?),
                "--memory-mib" => options.memory_mib = number(value()?)?,
                "--address-space" => options.limits_address_space = true,
                _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ => options.names.push(word),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for attack in attack::ALL {
        let is_wanted = |name: &String| attack.name.starts_with(name.as_str());
        if !options.names.is_empty() && !options.names.iter().any(is_wanted) {
            continue;
        }
        match run(attack, &options) {
            Ok(line) => {
                passed += 1;
                say(&format!("ok      {line}"));
            }
            Err(line) => {
                failed += 1;
                say(&format!("FAILED  {line}"));
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed, 0 skipped"));
    ExitCode::from(u8::from(failed > 0))
}

fn run(attack: &Attack, options: &Options) -> Result<String, String> {
    let address_space = options.limits_address_space.then_some(options.memory_mib);
    let (has_password, port) = (attack.has_password, attack.port);
    let node = FloodedNode::start(&options.program, has_password, port, address_space)
        .map_err(|error| format!("{}: the node did not start: {error}", attack.name))?;
    let idle_kib = node.memory_kib("VmRSS");
    let witness = Witness::start(&node);
    let make_room = has_password || !matches!(port, Port::Redis | Port::Agent);
    let default = if make_room { 10_100 } else { 9_990 };
    let clients = options.clients.unwrap_or(default);
    let tally = attack.run(&node, clients, options.time);
    let seen = witness.end();
    let peak_kib = node.memory_kib("VmHWM");
    let line = format!(
        "{:<22} {clients} connections, {} closed; memory {} MiB before, {} MiB at most; PING {} \
         times, worst {} ms; SET worst {} ms; {} new clients, worst {} ms, {} not served",
        attack.name,
        tally.closed,
        idle_kib.unwrap_or(0) / 1024,
        peak_kib.unwrap_or(0) / 1024,
        seen.pings,
        seen.worst_ping.as_millis(),
        seen.worst_set.as_millis(),
        seen.arrivals,
        seen.worst_arrival.as_millis(),
        seen.refused,
    );
    let Some(peak_kib) = peak_kib else {
        let said = node.output();
        return Err(format!("{line}; the node has ended:\n{said}"));
    };
    let memory_mib = attack
        .memory_mib
        .map_or(options.memory_mib, |own| own.min(options.memory_mib));
    if peak_kib > memory_mib * 1024 {
        return Err(format!("{line}; that is too much memory"));
    }
    if attack.answer.is_some() && !tally.is_answered {
        return Err(format!("{line}; none was answered as it should be"));
    }
    if seen.pings == 0 || seen.is_broken || seen.arrivals == 0 || seen.refused > 0 {
        return Err(format!("{line}; the other clients were not served"));
    }
    Ok(line)
}

#[allow(clippy::print_stdout, reason = "the report is what the program is for")]
fn say(line: &str) {
    println!("{line}");
}
