//! `quorlock agent --check`: takes, extends and gives back a lock through an agent that runs.
//!
//! It goes the way of a lock library: the bundled client takes the agent for a single node. What it took ends by its ttl if the
//! check is interrupted.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use quorlock_client::{AcquireError, ExtendError, Redlock, Release, Token, VotesBy, Wait};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use crate::clock;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::nodes_file::encoded;
use crate::output::Format;

/// The address of an agent of this machine.
pub(super) fn address(
    port: u16,
    unixsocket: Option<&Path>,
    password: Option<&str>,
) -> Result<String, Failure> {
    let login = password.map_or_else(String::new, |password| format!(":{}@", encoded(password)));
    match unixsocket {
        Some(path) => {
            let path = path.to_str().filter(|path| path.starts_with('/'));
            let path = path.ok_or_else(|| {
                Failure::usage("--check needs the whole path of the socket, in UTF-8")
            })?;
            Ok(format!("unix://{login}{path}"))
        }
        None if port == 0 => Err(Failure::usage(
            "--check asks an agent that runs, and 0 is no port of one",
        )
        .remedy("name the agent's port with --port, or its socket with --unixsocket")),
        None => Ok(format!("redis://{login}127.0.0.1:{port}")),
    }
}

/// Runs the check and prints each step.
pub(super) async fn run(address: String, format: Format) -> Result<(), Failure> {
    let agent = Redlock::builder()
        .node(address)
        // An agent has no identity, so that no client counts it as a node.
        .votes_by(VotesBy::Address)
        .build()
        .map_err(Failure::usage)?;
    let name = format!("quorlock-agent-check-{}", Token::fresh());
    let shown = agent.nodes().first().cloned().unwrap_or_default();
    let mut steps = Steps {
        agent: &shown,
        format,
        begun: clock::now(),
        last: clock::now(),
    };
    let request = || agent.lock(&name).ttl(TTL).wait(Wait::None);
    let lease = request().acquire_lease().await;
    let lease = lease.map_err(|error| steps.failed("takes no lock", &error))?;
    steps.done("acquired", "takes a lock");
    match request().acquire_lease().await {
        Err(AcquireError::Busy { .. }) => steps.done("refused", "refuses it to a second caller"),
        Err(error) => return Err(steps.failed("does not say who holds the lock", &error)),
        Ok(_) => {
            return Err(steps.failed(
                "gave one lock to two callers",
                &"a second caller has got it",
            ));
        }
    }
    let extended = agent.extend(&name, lease.token(), TTL).await;
    extended.map_err(|error: ExtendError| steps.failed("does not extend the lock", &error))?;
    steps.done("extended", "extends it");
    let release: Release = agent.release(&name, lease.token()).await;
    if !release.released() {
        return Err(steps.failed("does not release the lock", &release));
    }
    steps.done("released", "releases it");
    steps.end();
    Ok(())
}

/// What has been done so far, and when the last step ended.
struct Steps<'a> {
    agent: &'a str,
    format: Format,
    begun: Duration,
    last: Duration,
}

impl Steps<'_> {
    fn done(&mut self, step: &str, words: &str) {
        let now = clock::now();
        let took = now.saturating_sub(self.last);
        self.last = now;
        self.say(step, took, format_args!("{words} ({})", micros(took)));
    }

    fn end(&self) {
        let took = clock::now().saturating_sub(self.begun);
        let agent = self.agent;
        self.say(
            "ok",
            took,
            format_args!("the agent under {agent} works ({})", micros(took)),
        );
    }

    fn say(&self, step: &str, took: Duration, words: impl fmt::Display) {
        let took_us = u64::try_from(took.as_micros()).map_or(Value::Null, Value::from);
        let value = json!({ "agent": self.agent, "step": step, "took_us": took_us });
        self.format.result(words, &value);
    }

    /// What went wrong, with what the agent has said. The ttl ends whatever is left.
    fn failed(&self, what: &str, error: &dyn fmt::Display) -> Failure {
        let error = error.to_string();
        let agent = self.agent;
        let failure = Failure::new(
            NO_QUORUM,
            format!(
                "the agent under {agent} {what}: {error}; what the check took ends within 12 s"
            ),
        );
        failure.remedy(remedy(&error))
    }
}

/// What to do about an error of the agent, or about an agent that is not there.
fn remedy(error: &str) -> &'static str {
    if error.contains("NOQUORUM") {
        "the agent runs, and too few of its nodes vote: `INFO nodes` on the agent says why of each"
    } else if error.contains("NOAUTH") || error.contains("WRONGPASS") {
        "name the agent's password as it was started: quorlock agent --check ... -- --requirepass-file FILE"
    } else if error.contains("NOTALOCK") {
        "what listens there is an agent of another version: start the one of this program"
    } else {
        "start it: quorlock agent --port PORT; or name the port or the socket that it listens on"
    }
}

fn micros(took: Duration) -> String {
    show_duration(Duration::from_micros(
        u64::try_from(took.as_micros()).expect("a check takes less than 500,000 years"),
    ))
}

/// Long enough for a round with slow nodes, and soon over.
const TTL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_found_by_its_port_or_the_whole_path_of_its_socket() {
        let address = |port, path: Option<&str>, password| {
            address(port, path.map(Path::new), password).map_err(|failure| failure.what)
        };
        assert_eq!(address(6379, None, None).unwrap(), "redis://127.0.0.1:6379");
        assert_eq!(
            address(1, Some("/run/a.sock"), Some("p@ss")).unwrap(),
            "unix://:p%40ss@/run/a.sock"
        );
        assert!(address(0, None, None).unwrap_err().contains("no port"));
        assert!(
            address(1, Some("a.sock"), None)
                .unwrap_err()
                .contains("whole path")
        );
    }
}
