//! The limits of one connection as rules: what is known of it goes in, a reason to close it comes out.
//!
//! Nothing here reads a clock or a socket. What all connections together may hold is decided in `memory.rs`.

use std::time::Duration;

use quorlock_engine::RawTime;

use crate::config::{Config, OutputLimit};

/// The limits in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    idle: Option<Duration>,
    authentication: Duration,
    request: Option<Duration>,
    send: Option<Duration>,
    output: OutputLimit,
    /// Of connections that listen to channels, or are told of changes of keys.
    listening_output: OutputLimit,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The client is to send something.
    Reading,
    /// The node is to do something: execute, sync, wait until a client's wait is over.
    Busy,
    /// The client is to take replies; the socket last took a byte then, or had all until then.
    Sending {
        /// See above.
        since: RawTime,
    },
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) activity: Activity,
    /// When a client that has not sent the password connected, or gave up what it had by RESET.
    pub(crate) unauthenticated_since: Option<RawTime>,
    /// Such a client has not even agreed on how to speak.
    pub(crate) is_handshaking: bool,
    /// When the client last sent something, or took the rest of its replies.
    pub(crate) active_at: RawTime,
    /// When the first byte of a request came that is not complete.
    pub(crate) request_began: Option<RawTime>,
    /// It has sent what is to be executed later.
    pub(crate) has_work: bool,
    /// Bytes of replies that have not left, those that wait for the log included.
    pub(crate) output_bytes: usize,
    /// It listens to channels: it need not send anything.
    pub(crate) is_listening: bool,
    /// It is told of changes of keys, or of locks that are free.
    pub(crate) is_told: bool,
}

/// Since when a connection has more output than its soft limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverSoftLimit {
    since: Option<RawTime>,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("it was idle for longer than timeout allows")]
    Idle,
    #[error("it did not send the password within authentication-timeout")]
    Authentication,
    #[error("its TLS handshake was not complete within authentication-timeout")]
    Handshake,
    #[error("a request was not complete within request-timeout")]
    Request,
    #[error("it took none of its replies for send-timeout")]
    Send,
    #[error("{0} bytes of replies wait, the hard limit of client-output-buffer-limit")]
    OutputHard(usize),
    #[error(
        "{0} bytes of replies wait, over the soft limit of client-output-buffer-limit for too long"
    )]
    OutputSoft(usize),
    #[error(
        "a message that may have been for it was not made: one command published more events, or had \
         more or longer patterns to match, than a command may"
    )]
    MissedMessages,
    #[error(
        "it held the most, {0} bytes, when the buffers of all clients reached maxmemory-clients"
    )]
    ClientMemory(usize),
    #[error("it was the oldest that had not authenticated when those together held too much")]
    UnauthenticatedMemory,
    #[error("it was the oldest that had not authenticated when maxclients was reached")]
    MakesRoom,
}

impl ConnectionLimits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            idle: config.timeout,
            authentication: config.authentication_timeout,
            request: config.request_timeout,
            send: config.send_timeout,
            output: config.client_output_buffer_limit.normal,
            listening_output: config.client_output_buffer_limit.pubsub,
        }
    }

    /// Whether even a connection that waits for its next request may have to go.
    pub(crate) fn has_idle_timeout(&self) -> bool {
        self.idle.is_some()
    }

    /// Why the connection has to go now, if it has to.
    pub(crate) fn verdict(
        &self,
        now: RawTime,
        facts: &Facts,
        over: &mut OverSoftLimit,
    ) -> Option<Reason> {
        let is_over = |since: RawTime, limit: Duration| passed(now, since) >= limit;
        // Absolute: nothing that a client sends before the password gains it time.
        if let Some(since) = facts.unauthenticated_since
            && is_over(since, self.authentication)
        {
            return Some(match facts.is_handshaking {
                true => Reason::Handshake,
                false => Reason::Authentication,
            });
        }
        if let Some(reason) = self.output_verdict(now, facts, over) {
            return Some(reason);
        }
        match facts.activity {
            Activity::Busy => None,
            Activity::Sending { since } => {
                if self.send.is_some_and(|limit| is_over(since, limit)) {
                    return Some(Reason::Send);
                }
                // What it sends meanwhile is not read.
                if facts.has_work {
                    return None;
                }
                self.idle_verdict(now, facts, since.max(facts.active_at))
            }
            Activity::Reading => {
                let is_slow = |began| self.request.is_some_and(|limit| is_over(began, limit));
                if facts.request_began.is_some_and(is_slow) {
                    return Some(Reason::Request);
                }
                self.idle_verdict(now, facts, facts.active_at)
            }
        }
    }

    /// The part of it about a client that has neither sent nor taken a byte since then.
    fn idle_verdict(&self, now: RawTime, facts: &Facts, since: RawTime) -> Option<Reason> {
        let idle = self.idle.filter(|_| !facts.is_listening);
        let is_idle = idle.is_some_and(|limit| passed(now, since) > limit);
        is_idle.then_some(Reason::Idle)
    }

    /// The part of it about output, for a connection whose output has just grown.
    pub(crate) fn output_verdict(
        &self,
        now: RawTime,
        facts: &Facts,
        over: &mut OverSoftLimit,
    ) -> Option<Reason> {
        let output_bytes = facts.output_bytes;
        let OutputLimit {
            hard_bytes,
            soft_bytes,
            soft,
        } = match facts.is_listening || facts.is_told {
            true => self.listening_output,
            false => self.output,
        };
        let reaches = |limit_bytes: u64| limit_bytes > 0 && output_bytes as u64 >= limit_bytes;
        if reaches(hard_bytes) {
            return Some(Reason::OutputHard(output_bytes));
        }
        if !reaches(soft_bytes) {
            *over = OverSoftLimit::default();
            return None;
        }
        let since = *over.since.get_or_insert(now);
        (passed(now, since) >= soft).then_some(Reason::OutputSoft(output_bytes))
    }

    /// So much output needs no look at its limits.
    pub(crate) fn unlimited_output_bytes(&self) -> usize {
        let limits = [self.output, self.listening_output];
        let limits = limits.map(|limit| [limit.hard_bytes, limit.soft_bytes]);
        let least = limits
            .into_iter()
            .flatten()
            .filter(|limit| *limit > 0)
            .min();
        least.map_or(usize::MAX, |least| {
            usize::try_from(least - 1).unwrap_or(usize::MAX)
        })
    }
}

fn passed(now: RawTime, since: RawTime) -> Duration {
    now.saturating_since(since)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    const LAST: RawTime = RawTime::from_nanos(u64::MAX);

    const fn second(count: u64) -> RawTime {
        RawTime::from_nanos(count * 1_000_000_000)
    }

    fn just_before(time: RawTime) -> RawTime {
        RawTime::from_nanos(time.as_nanos() - 1)
    }

    fn limits(directives: &[(&str, &str)]) -> ConnectionLimits {
        let mut config = Config::default();
        for (name, value) in directives {
            config.set(name, &[value]).unwrap();
        }
        ConnectionLimits::new(&config)
    }

    /// Idle since ever, authenticated, nothing here.
    const QUIET: Facts = Facts {
        activity: Activity::Reading,
        unauthenticated_since: None,
        is_handshaking: false,
        active_at: RawTime::ZERO,
        request_began: None,
        has_work: false,
        output_bytes: 0,
        is_listening: false,
        is_told: false,
    };

    const fn with_output(output_bytes: usize) -> Facts {
        Facts {
            output_bytes,
            ..QUIET
        }
    }

    #[test]
    fn who_listens_has_limits_of_its_own_and_may_be_silent() {
        let limits = limits(&[
            ("client-output-buffer-limit", "normal 0 0 0 pubsub 100 10 5"),
            ("timeout", "60"),
        ]);
        assert_eq!(limits.unlimited_output_bytes(), 9);
        let listening = |output_bytes| Facts {
            is_listening: true,
            ..with_output(output_bytes)
        };
        assert_eq!(verdict(&limits, LAST, listening(9)), None);
        let over = Some(Reason::OutputHard(100));
        assert_eq!(verdict(&limits, LAST, listening(100)), over);
        assert_eq!(verdict(&limits, LAST, with_output(100)), Some(Reason::Idle));
    }

    fn verdict(limits: &ConnectionLimits, now: RawTime, facts: Facts) -> Option<Reason> {
        limits.verdict(now, &facts, &mut OverSoftLimit::default())
    }

    #[test]
    fn a_pool_may_be_idle_without_end() {
        assert_eq!(verdict(&limits(&[]), LAST, QUIET), None);
        let busy = Facts {
            activity: Activity::Busy,
            request_began: Some(RawTime::ZERO),
            ..QUIET
        };
        assert_eq!(verdict(&limits(&[("timeout", "1")]), LAST, busy), None);
    }

    #[test]
    fn idle_time_counts_from_the_last_byte() {
        let limits = limits(&[("timeout", "10")]);
        let facts = Facts {
            active_at: second(5),
            ..QUIET
        };
        assert_eq!(verdict(&limits, second(15), facts), None);
        assert_eq!(
            verdict(&limits, second(15).plus_nanos(1), facts),
            Some(Reason::Idle)
        );
    }

    #[test]
    fn bytes_before_the_password_gain_no_time() {
        let limits = limits(&[("authentication-timeout", "10s"), ("timeout", "0")]);
        for activity in [
            Activity::Reading,
            Activity::Busy,
            Activity::Sending { since: second(15) },
        ] {
            let facts = Facts {
                activity,
                unauthenticated_since: Some(second(5)),
                active_at: second(15),
                ..QUIET
            };
            assert_eq!(verdict(&limits, just_before(second(15)), facts), None);
            assert_eq!(
                verdict(&limits, second(15), facts),
                Some(Reason::Authentication)
            );
        }
    }

    #[test]
    fn bytes_of_a_request_gain_it_no_time() {
        let limits = limits(&[("request-timeout", "10s")]);
        let facts = Facts {
            active_at: second(15),
            request_began: Some(second(5)),
            ..QUIET
        };
        assert_eq!(verdict(&limits, just_before(second(15)), facts), None);
        assert_eq!(verdict(&limits, second(15), facts), Some(Reason::Request));
        let busy = Facts {
            activity: Activity::Busy,
            ..facts
        };
        assert_eq!(verdict(&limits, second(15), busy), None);
        let endless = self::limits(&[("request-timeout", "0")]);
        assert_eq!(verdict(&endless, LAST, facts), None);
    }

    #[test]
    fn a_client_that_takes_nothing_goes_however_little_it_holds() {
        let limits = limits(&[("send-timeout", "10s")]);
        let facts = Facts {
            activity: Activity::Sending { since: second(5) },
            output_bytes: 1,
            ..QUIET
        };
        assert_eq!(verdict(&limits, just_before(second(15)), facts), None);
        assert_eq!(verdict(&limits, second(15), facts), Some(Reason::Send));
        let patient = self::limits(&[("send-timeout", "0")]);
        assert_eq!(verdict(&patient, LAST, facts), None);
    }

    /// Found from outside: a client that had gone without a word stayed for a minute with `timeout 5`, if there was
    /// something to tell it.
    #[test]
    fn who_takes_nothing_is_idle_as_well() {
        let limits = limits(&[("send-timeout", "60s"), ("timeout", "10")]);
        let facts = Facts {
            activity: Activity::Sending { since: second(5) },
            active_at: second(3),
            output_bytes: 1,
            ..QUIET
        };
        assert_eq!(verdict(&limits, second(15), facts), None);
        let later = second(15).plus_nanos(1);
        assert_eq!(verdict(&limits, later, facts), Some(Reason::Idle));
        let talking = Facts {
            active_at: second(6),
            ..facts
        };
        assert_eq!(verdict(&limits, later, talking), None);
        let pipelining = Facts {
            has_work: true,
            ..facts
        };
        assert_eq!(verdict(&limits, later, pipelining), None);
        let listening = Facts {
            is_listening: true,
            ..facts
        };
        assert_eq!(verdict(&limits, later, listening), None);
    }

    #[test]
    fn the_hard_limit_closes_at_once_and_the_soft_one_after_its_time() {
        let limits = limits(&[("client-output-buffer-limit", "normal 100 10 5")]);
        assert_eq!(limits.unlimited_output_bytes(), 9);
        let mut over = OverSoftLimit::default();
        let mut at = |now, bytes| limits.output_verdict(now, &with_output(bytes), &mut over);
        assert_eq!(at(RawTime::ZERO, 9), None);
        assert_eq!(at(RawTime::ZERO, 99), None);
        assert_eq!(at(RawTime::ZERO, 100), Some(Reason::OutputHard(100)));
        assert_eq!(at(just_before(second(5)), 10), None);
        assert_eq!(at(second(5), 10), Some(Reason::OutputSoft(10)));
        assert_eq!(at(second(5), 9), None, "it has read");
        assert_eq!(at(second(6), 10), None, "the time begins again");
        assert_eq!(at(second(11), 10), Some(Reason::OutputSoft(10)));
    }

    #[test]
    fn zero_is_no_limit() {
        let none = limits(&[("client-output-buffer-limit", "normal 0 0 0 pubsub 0 0 0")]);
        assert_eq!(none.unlimited_output_bytes(), usize::MAX);
        let mut over = OverSoftLimit::default();
        assert_eq!(
            none.output_verdict(RawTime::ZERO, &with_output(usize::MAX), &mut over),
            None
        );
        assert_eq!(over, OverSoftLimit::default());
        let hard = limits(&[("client-output-buffer-limit", "normal 7 0 0")]);
        assert_eq!(hard.unlimited_output_bytes(), 6);
        assert_eq!(hard.output_verdict(LAST, &with_output(6), &mut over), None);
    }

    #[test]
    fn replies_that_wait_for_the_log_count() {
        let limits = limits(&[("client-output-buffer-limit", "normal 100 0 0")]);
        let facts = Facts {
            activity: Activity::Busy,
            output_bytes: 100,
            ..QUIET
        };
        assert_eq!(
            verdict(&limits, RawTime::ZERO, facts),
            Some(Reason::OutputHard(100))
        );
    }
}
