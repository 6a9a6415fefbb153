//! `quorlock agent --check`: takes, extends and gives back a lock through an agent that runs.
//!
//! It goes the way of a lock library: the bundled client takes the agent for a single node. The second caller is no such client, which
//! would not wait for an agent that holds tries back. What it took ends by its ttl if the check is interrupted.

use std::fmt;
use std::time::Duration;

use quorlock_client::{
    Cause, ExtendError, NodeState, Redlock, Release, TlsOptions, Token, VotesBy, Wait,
};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use super::login::CheckedAgent;
use crate::clock;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::inspect::listener::{Listener, try_lock};
use crate::output::{self, Format};

/// Runs the check and prints each step. The lock's name begins with this prefix.
pub(super) async fn run(
    checked: CheckedAgent,
    tls: TlsOptions,
    prefix: &str,
    format: Format,
) -> Result<(), Failure> {
    let listener = Listener::look(&checked.url, tls.clone()).await;
    let agent = Redlock::builder()
        .node(checked.url.clone())
        .tls(tls.clone())
        // An agent has no identity and says that it is one, so that no other client counts it as a node.
        .votes_by(VotesBy::Address)
        .takes_agent()
        .build()
        .map_err(Failure::usage)?;
    let name = format!("{prefix}quorlock-agent-check-{}", Token::fresh());
    let shown = agent.nodes().first().cloned().unwrap_or_default();
    let mut steps = Steps {
        agent: &shown,
        format,
        begun: clock::now(),
        last: clock::now(),
    };
    steps.look(listener)?;
    let login = checked.login.as_deref();
    let status = agent.probe().await.pop().map(|status| status.state);
    let mut is_let_in = true;
    if let Some(NodeState::DoesNotVote(cause)) = status {
        let who = login.unwrap_or("a client without a login");
        if let Some(failure) = steps.not_let_in(who, &cause) {
            return Err(failure);
        }
        // Why it takes no lock is said below.
        is_let_in = false;
    }
    if let Some(login) = login.filter(|_| is_let_in) {
        steps.done("logged-in", &format!("lets {login} log in"));
    }
    let request = agent.lock(&name).ttl(TTL).wait(Wait::None);
    let lease = request.acquire_lease().await;
    let lease = lease.map_err(|error| steps.failed("takes no lock", &error))?;
    steps.done("acquired", "takes a lock");
    match try_lock(&checked.url, tls, &name, TTL).await {
        Ok(false) => steps.done("refused", "refuses it to a second caller"),
        Err(error) => return Err(steps.failed("does not answer a second caller", &error)),
        Ok(true) => {
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
    /// Refuses what is no agent, and an agent that is not ready although enough nodes vote. What is wrong otherwise is only said.
    fn look(&self, listener: Option<Listener>) -> Result<(), Failure> {
        let agent = self.agent;
        match listener {
            Some(Listener::Node(words)) => {
                let what = format!(
                    "what listens under {agent} is {words} and not an agent: a lock that is taken there is on that server alone, and on \
                     no majority; nothing was taken"
                );
                Err(Failure::new(NO_QUORUM, what).remedy(NAME_THE_AGENT))
            }
            Some(Listener::Agent {
                not_ready: Some(why),
                ..
            }) => {
                let what =
                    format!("the agent under {agent} is not ready: {why}; nothing was taken");
                Err(Failure::new(NO_QUORUM, what).remedy(ASK_INFO))
            }
            Some(Listener::Agent {
                warning: Some(warning),
                ..
            }) => {
                output::remark(format_args!("the agent under {agent} warns: {warning}"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

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

    /// That the agent lets nobody in, or not this user, where that is so.
    fn not_let_in(&self, login: &str, cause: &Cause) -> Option<Failure> {
        let (what, remedy) = match cause {
            Cause::LoginRefused(text) if text.starts_with("NOAUTH") => {
                (format!("wants a login: {text}"), NAME_A_LOGIN)
            }
            Cause::LoginRefused(text) => (format!("does not let {login} in: {text}"), WRONG_LOGIN),
            Cause::Refused(text) if text.contains("NOPERM") => {
                let what = format!("does not let {login} do what a check does: {text}");
                (what, MORE_RIGHTS)
            }
            _ => return None,
        };
        let agent = self.agent;
        let what = format!("the agent under {agent} {what}; nothing was taken");
        Some(Failure::new(NO_QUORUM, what).remedy(remedy))
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
    } else if error.contains("NOPERM") {
        MORE_RIGHTS
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

const NAME_THE_AGENT: &str = "name the port of the agent with --port, its socket with --unixsocket, or its address in QUORLOCK_AGENT; start one \
     with quorlock agent --port PORT";
const ASK_INFO: &str =
    "`INFO nodes` on the agent shows each node, and quorlock status to which cluster each belongs";
const NAME_A_LOGIN: &str = "name a user with --user NAME --password-file FILE, or the agent's own password as it was started: \
     quorlock agent --check ... -- --requirepass-file FILE; or set QUORLOCK_AGENT=redis://USER:PASSWORD@HOST:PORT";
const WRONG_LOGIN: &str = "the agent has no such user, the user is switched off, or the password is another one: the users of an agent \
     are in its aclfile, and not those of the nodes";
const MORE_RIGHTS: &str = "check as a user with the rights of the bundled client (+@all -@admin -@dangerous +info), and with --prefix \
     where that user may use only keys that begin so";

/// Long enough for a round with slow nodes, and soon over.
const TTL: Duration = Duration::from_secs(10);
