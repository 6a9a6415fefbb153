//! Requests of other terminals, carried out by the supervisor.
//!
//! Only the supervisor signals nodes, and only those it has not reaped. A node inside the
//! supervisor has no process, so it can be killed and restarted but not paused.

use super::control::{Call, ControlReply, ControlRequest};
use super::member::Member;
use super::supervisor::{End, Supervisor, start};
use super::view::ProcessState;
use crate::exit_code::Failure;

impl Supervisor {
    /// Carries out a request and answers it, unless it asks for the cluster's end.
    pub(super) async fn answer(&mut self, call: Call) -> Option<End> {
        let done = match call.request {
            ControlRequest::Status => Ok(String::new()),
            ControlRequest::Down => return Some(End::Request(call.answer)),
            ControlRequest::Kill { node } => self.kill(node).await,
            ControlRequest::Pause { node } => self.pause(node),
            ControlRequest::Resume { node } => self.resume(node),
            ControlRequest::Restart { node } => self.restart(node).await,
        };
        let answer = match done {
            Ok(text) => ControlReply::Done {
                text,
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
        Ok(self.report(
            number,
            format!("{how}; it stays down until: quorlock cluster restart {number}"),
        ))
    }

    fn pause(&mut self, number: u16) -> Result<String, Failure> {
        self.process(number)?.pause();
        Ok(self.report(
            number,
            format!("paused; it hangs until: quorlock cluster resume {number}"),
        ))
    }

    fn resume(&mut self, number: u16) -> Result<String, Failure> {
        let member = self.process(number)?;
        if *member.state() != ProcessState::Paused {
            return Err(Failure::failed(format!("node {number} is not paused")));
        }
        member.resume();
        Ok(self.report(number, "goes on".to_owned()))
    }

    async fn restart(&mut self, number: u16) -> Result<String, Failure> {
        let observations = self.observations.clone();
        let member = self.member(number)?;
        member.stop().await.map_err(|error| {
            Failure::failed(format!("node {number} could not be stopped: {error}"))
        })?;
        start(member, &observations).await?;
        Ok(self.report(number, "started".to_owned()))
    }

    /// Reports an event, and gives its text to the one who asked for it.
    fn report(&mut self, number: u16, text: String) -> String {
        self.reporter.node(number, &text);
        format!("node {number}: {text}")
    }

    /// A node that runs as a process of its own.
    fn process(&mut self, number: u16) -> Result<&mut Member, Failure> {
        let member = self.running(number)?;
        if member.is_embedded() {
            return Err(Failure::failed(
                "the nodes of this cluster run inside the supervisor and have no processes",
            )
            .remedy("start it without --in-process to pause nodes"));
        }
        Ok(member)
    }

    fn running(&mut self, number: u16) -> Result<&mut Member, Failure> {
        let member = self.member(number)?;
        if !member.is_running() {
            return Err(Failure::failed(format!("node {number} is down"))
                .remedy(format!("start it with: quorlock cluster restart {number}")));
        }
        Ok(member)
    }

    fn member(&mut self, number: u16) -> Result<&mut Member, Failure> {
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
