//! Requests of other terminals, carried out by the supervisor.
//!
//! Only the supervisor signals nodes, and only those it has not reaped. A node inside the
//! supervisor has no process, so it is killed and restarted there. What is done to the machine and the network of a node
//! is for nodes in memory, which have their own.

use std::time::Duration;

use quorlock_server::show_duration;

use super::DELAY_MAX;
use super::control::{Call, ControlReply, ControlRequest};
use super::member::ClusterMember;
use super::supervisor::{SupervisionEnd, Supervisor, start};
use super::view::ProcessState;
use crate::exit_code::Failure;

impl Supervisor {
    /// Carries out a request and answers it, unless it asks for the cluster's end.
    pub(super) async fn answer(&mut self, call: Call) -> Option<SupervisionEnd> {
        use ControlRequest as Request;
        let (number, done) = match call.request {
            Request::Status => (None, Ok(String::new())),
            Request::Down => return Some(SupervisionEnd::Request(call.answer)),
            Request::Kill { node } => (Some(node), self.kill(node).await),
            Request::Stop { node } => (Some(node), self.stop(node).await),
            Request::Pause { node } => (Some(node), self.pause(node)),
            Request::Resume { node } => (Some(node), self.resume(node)),
            Request::Restart { node } => (Some(node), self.restart(node).await),
            Request::LosePower { node } => (Some(node), self.lose_power(node).await),
            Request::Cut { node } => (Some(node), self.cut(node)),
            Request::Slow { node, delay } => (Some(node), self.slow(node, delay)),
            Request::Heal { node } => (node, self.heal(node)),
            Request::DiskFull { node } => (Some(node), self.fill_disk(node)),
            Request::Advance { node, by } => (node, self.advance(node, by).await),
        };
        let answer = match done {
            Ok(text) => ControlReply::Done {
                text: self.report(number, &text),
                cluster: Box::new(self.view()),
            },
            Err(failure) => ControlReply::Refused {
                code: failure.code,
                what: failure.what,
                remedy: failure.remedy,
            },
        };
        let _caller_went_away = call.answer.send(answer);
        None
    }

    async fn kill(&mut self, number: u16) -> Result<String, Failure> {
        let member = self.running(number)?;
        let is_embedded = member.is_embedded();
        let killed = member.kill().await;
        killed.map_err(|error| {
            Failure::failed(format!("node {number} could not be killed: {error}"))
        })?;
        let how = match is_embedded {
            true => "ended at once inside the supervisor, without a last write, as by kill -9",
            false => "killed with kill -9",
        };
        Ok(format!(
            "{how}; it stays down until: quorlock cluster restart {number}"
        ))
    }

    async fn stop(&mut self, number: u16) -> Result<String, Failure> {
        let stopped = self.running(number)?.stop().await;
        let is_clean = stopped.map_err(|error| {
            Failure::failed(format!("node {number} could not be stopped: {error}"))
        })?;
        let how = match is_clean {
            true => "stopped cleanly",
            false => "did not stop in time, and was killed",
        };
        Ok(format!(
            "{how}; it stays down until: quorlock cluster restart {number}"
        ))
    }

    fn pause(&mut self, number: u16) -> Result<String, Failure> {
        self.pausable(number)?.pause();
        Ok(format!(
            "paused; it hangs until: quorlock cluster resume {number}"
        ))
    }

    fn resume(&mut self, number: u16) -> Result<String, Failure> {
        let member = self.pausable(number)?;
        if *member.state() != ProcessState::Paused {
            return Err(Failure::failed(format!("node {number} is not paused")));
        }
        member.resume();
        Ok("goes on".to_owned())
    }

    async fn restart(&mut self, number: u16) -> Result<String, Failure> {
        let observations = self.observations.clone();
        let member = self.member(number)?;
        member.stop().await.map_err(|error| {
            Failure::failed(format!("node {number} could not be stopped: {error}"))
        })?;
        start(member, &observations).await?;
        Ok("started".to_owned())
    }

    async fn lose_power(&mut self, number: u16) -> Result<String, Failure> {
        let synced = self.plan.view.appendfsync.clone();
        let member = self.in_memory(number, || {
            format!(
                "node {number} keeps its log on this machine's disk, which loses power with the machine only; nothing was \
                 done, and its locks stay"
            )
        })?;
        let lost = member.lose_power().await;
        lost.map_err(|error| {
            Failure::failed(format!("node {number} could not be ended: {error}"))
        })?;
        Ok(format!(
            "lost its power; what it had not synced is gone (appendfsync {synced}); it stays down until: quorlock \
             cluster restart {number}"
        ))
    }

    fn cut(&mut self, number: u16) -> Result<String, Failure> {
        let member = self.in_memory(number, || no_network(number))?;
        member.change_network(|network| network.is_cut = true);
        Ok(format!(
            "cut off; nothing passes between it and its clients until: quorlock cluster heal {number}"
        ))
    }

    fn slow(&mut self, number: u16, delay: Duration) -> Result<String, Failure> {
        // The command refuses it before; any process of this user can write to the socket.
        if delay > DELAY_MAX {
            return Err(Failure::usage("a delay is at most 1m; nothing was done"));
        }
        let member = self.in_memory(number, || no_network(number))?;
        member.change_network(|network| network.delay = delay);
        let later = show_duration(delay);
        Ok(format!(
            "slow; what it and its clients send arrives {later} later, until: quorlock cluster heal {number}"
        ))
    }

    fn heal(&mut self, number: Option<u16>) -> Result<String, Failure> {
        for number in self.these(number) {
            let member = self.in_memory(number, || no_network(number))?;
            member.change_network(|network| {
                network.is_cut = false;
                network.delay = Duration::ZERO;
            });
            member.machine.set_full(false);
        }
        let text = "reached as before, and no disk is full; what was held up arrives now";
        Ok(text.to_owned())
    }

    fn fill_disk(&mut self, number: u16) -> Result<String, Failure> {
        let member = self.in_memory(number, || {
            format!(
                "node {number} keeps its log on this machine's disk, which no command fills; nothing was done, and it grants \
                 as before"
            )
        })?;
        member.machine.set_full(true);
        Ok(format!(
            "its disk is full; it goes on in the space that its log has made ahead, then refuses locks with -MISCONF, \
             until: quorlock cluster heal {number}"
        ))
    }

    async fn advance(&mut self, number: Option<u16>, by: Duration) -> Result<String, Failure> {
        let mut furthest = Duration::ZERO;
        let numbers = self.these(number);
        for number in &numbers {
            let member = self.in_memory(*number, || {
                "the nodes of this cluster read the machine's clock, which no command moves; nothing was done, and locks end by \
                 their ttl"
                    .to_owned()
            })?;
            let ahead = member.machine.clock.ahead_after(by).ok_or_else(|| {
                Failure::failed(format!(
                    "the clocks of node {number} would be more than 100 years ahead; no clock was moved"
                ))
                .remedy("start another cluster for what needs a clock that is right")
            })?;
            furthest = furthest.max(ahead);
        }
        for number in &numbers {
            let clock = &self.member(*number)?.machine.clock;
            if let Some(ahead) = clock.ahead_after(by) {
                clock.set_ahead(ahead);
            }
        }
        for number in numbers {
            self.member(number)?.leave_delay().await;
        }
        let (by, ahead) = (show_duration(by), show_duration(furthest));
        Ok(format!(
            "clocks advanced by {by}, {ahead} in all; clients' own clocks have not moved, so a holder may still count on \
             a lock that has expired here"
        ))
    }

    /// The number, or those of all nodes.
    fn these(&self, number: Option<u16>) -> Vec<u16> {
        let all = self.plan.members.iter().map(|member| member.entry.number);
        number.map_or_else(|| all.collect(), |number| vec![number])
    }

    /// Reports an event, and gives its text to the one who asked for it.
    fn report(&mut self, number: Option<u16>, text: &str) -> String {
        match number {
            _ if text.is_empty() => String::new(),
            Some(number) => {
                self.reporter.node(number, text);
                format!("node {number}: {text}")
            }
            None => {
                let text = format!("all nodes: {text}");
                self.reporter.cluster(&text);
                text
            }
        }
    }

    /// A node that is in memory, on a machine and behind a network of its own; it may be down.
    fn in_memory(
        &mut self,
        number: u16,
        refusal: impl FnOnce() -> String,
    ) -> Result<&mut ClusterMember, Failure> {
        let is_in_memory = self.plan.view.ephemeral;
        let member = self.member(number)?;
        match is_in_memory {
            true => Ok(member),
            false => Err(Failure::failed(refusal()).remedy(
                "do it to a cluster in memory, which is for tests: quorlock cluster up --ephemeral",
            )),
        }
    }

    /// A node that runs as a process of its own, or in memory.
    fn pausable(&mut self, number: u16) -> Result<&mut ClusterMember, Failure> {
        let is_in_memory = self.plan.view.ephemeral;
        let member = self.running(number)?;
        if member.is_embedded() && !is_in_memory {
            return Err(Failure::failed(
                "the nodes of this cluster run inside the supervisor and have no processes",
            )
            .remedy("start it without --in-process, or with --ephemeral, to pause nodes"));
        }
        Ok(member)
    }

    fn running(&mut self, number: u16) -> Result<&mut ClusterMember, Failure> {
        let member = self.member(number)?;
        if !member.is_running() {
            return Err(Failure::failed(format!("node {number} is down"))
                .remedy(format!("start it with: quorlock cluster restart {number}")));
        }
        Ok(member)
    }

    fn member(&mut self, number: u16) -> Result<&mut ClusterMember, Failure> {
        let members = &mut self.plan.members;
        let count = members.len();
        let member = members.iter_mut().find(|it| it.entry.number == number);
        member.ok_or_else(|| {
            Failure::usage(format!(
                "there is no node {number}; the nodes are numbered 1 to {count}"
            ))
        })
    }
}

fn no_network(number: u16) -> String {
    format!(
        "clients reach node {number} by this machine's own network, which no command changes; nothing was done, and it grants \
         as before"
    )
}
