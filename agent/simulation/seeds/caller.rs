//! Callers: processes that use a lock library, each by a small state machine.

use quorlock_agent_simulation::Answer;
use quorlock_engine::Reply;

use super::checks::Hold;
use super::library::{Library, Verdict, Words};
use super::open::{Ask, Open};
use super::session::Session;
use super::world::{MS, Planned, World};

/// A caller: one process after the other.
#[derive(Debug)]
pub(super) struct Caller {
    library: Library,
    pub(super) agent: usize,
    /// Its locks end with its connection to this agent.
    pub(super) session: Option<Session>,
    /// The locks that it wants, together: one as a rule.
    pub(super) names: Vec<usize>,
    /// The rate of its clock.
    rate_ppm: u64,
    /// Which process it is, and which token that uses.
    pub(super) process: u64,
    tokens: u64,
    /// The token that holds its lock, where it was told.
    whole_token: Option<String>,
    state: State,
    /// Tries of this acquire.
    tries: u64,
    /// What it counts on, in true time.
    until_ns: u64,
    extensions: u64,
    /// When it had a lock that it asked for after all was well.
    had_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It wants a lock, and tries to get it.
    Trying,
    Holding,
    /// A request is under way.
    Asking,
    /// It gives up a try whose end it does not know.
    Clearing,
    Done,
}

pub(super) fn lock_name(name: usize) -> String {
    format!("lock-{name}")
}

impl World {
    /// A caller that starts.
    pub(super) fn new_caller(&mut self, number: usize) -> Caller {
        let mut caller = Caller {
            agent: number % self.plan.agents,
            rate_ppm: 996_000 + self.random.below(8_001),
            state: State::Trying,
            ..DEAD
        };
        self.renew(&mut caller);
        caller
    }

    /// A load balancer sends it to another agent, unless it keeps its connection.
    fn take_another_agent(&mut self, number: usize) {
        let agent = self.below(self.plan.agents);
        let caller = &mut self.callers[number];
        if caller.session.is_none() {
            caller.agent = agent;
        }
    }

    /// Another process, which may use another library and another lock.
    fn renew(&mut self, caller: &mut Caller) {
        caller.library = self.random.pick(&Library::ALL);
        if caller.library == Library::Fenced && self.plan.loses_power() {
            // Nodes that may have lost fences grant none until an operator has brought them together.
            caller.library = Library::InLine;
        }
        caller.names = vec![self.below(self.plan.names)];
        let other = self.below(self.plan.names);
        if caller.library.takes_several() && !caller.names.contains(&other) {
            caller.names.push(other);
        }
        caller.process += 1;
        caller.session = self.new_session();
        caller.tokens += 1;
        caller.whole_token = None;
        caller.state = State::Trying;
        caller.tries = 0;
    }

    fn lock_names(&self, number: usize) -> Vec<String> {
        let names = self.callers[number].names.iter();
        names.map(|name| lock_name(*name)).collect()
    }

    pub(super) fn token(&self, number: usize) -> String {
        let caller = &self.callers[number];
        let own = match caller.library.has_one_token() {
            true => 0,
            false => caller.tokens,
        };
        format!("c{number}.{}.{own}", caller.process)
    }

    /// What it names its lock by: those who read have to say the whole token.
    fn holding_token(&mut self, number: usize) -> String {
        let own = self.token(number);
        let says_own = self.random.chance(1, 4);
        let caller = &self.callers[number];
        match &caller.whole_token {
            Some(whole) if caller.library == Library::Reading || !says_own => whole.clone(),
            _ => own,
        }
    }

    /// It is a caller's turn.
    pub(super) fn caller(&mut self, number: usize) {
        match self.callers[number].state {
            State::Trying => self.try_once(number),
            State::Holding => self.go_on_holding(number),
            State::Clearing => {
                let words = self.release_words(number, 0);
                self.callers[number].state = State::Asking;
                self.ask(number, Ask::Clear, &words);
            }
            State::Asking | State::Done => {}
        }
    }

    fn try_once(&mut self, number: usize) {
        if self.random.chance(1, 8) {
            self.take_another_agent(number);
        }
        let (names, token) = (self.lock_names(number), self.token(number));
        let caller = &mut self.callers[number];
        caller.tries += 1;
        caller.state = State::Asking;
        let words = caller.library.acquire(&names, &token, self.plan.ttl_ms);
        self.ask(number, Ask::Acquire, &words);
    }

    /// A caller that has a lock extends it, reads it, releases it, or dies.
    fn go_on_holding(&mut self, number: usize) {
        let now_ns = self.now();
        let (names, token) = (self.lock_names(number), self.holding_token(number));
        if self.random.chance(1, 6) {
            self.take_another_agent(number);
        }
        let choice = if self.is_over {
            9
        } else {
            self.random.below(12)
        };
        let caller = &self.callers[number];
        let may_extend = caller.extensions < 4 && caller.until_ns > now_ns;
        let ttl_ms = self.plan.ttl_ms;
        let asked = match choice {
            0..=3 if may_extend => {
                let words = caller.library.extend(&names, &token, ttl_ms);
                let ask = Ask::Extend {
                    ttl_ms,
                    is_on_top: false,
                };
                words.map(|words| (ask, words))
            }
            4 if may_extend => {
                let words = caller.library.prolong(&names, &token, ttl_ms / 4);
                let ask = Ask::Extend {
                    ttl_ms: ttl_ms / 4,
                    is_on_top: true,
                };
                words.map(|words| (ask, words))
            }
            5 if caller.library != Library::Reading => {
                Some((Ask::Read, vec!["GET".to_owned(), names[0].clone()]))
            }
            6 => return self.die(number),
            _ => None,
        };
        let caller = &mut self.callers[number];
        caller.state = State::Asking;
        if let Some((ask, words)) = asked {
            caller.extensions += 1;
            return self.ask(number, ask, &words);
        }
        let keep_ms = match caller.library {
            Library::ShedLock => self.random.pick(&[0, ttl_ms / 4]),
            _ => 0,
        };
        let words = self.release_words(number, keep_ms);
        self.ask(number, Ask::Release, &words);
        let caller = &self.callers[number];
        let owner = (number, caller.process);
        // It counts on nothing any more.
        self.holds.retain(|hold| hold.owner != owner);
    }

    fn release_words(&mut self, number: usize, keep_ms: u64) -> Words {
        let (names, token) = (self.lock_names(number), self.holding_token(number));
        let caller = &self.callers[number];
        caller.library.release(&names, &token, keep_ms)
    }

    /// A process dies with its lock. What it counted on stays its own until then, for whatever it has begun.
    fn die(&mut self, number: usize) {
        self.note(|| format!("caller {number} dies with its lock"));
        self.report.died += 1;
        self.end_session(number);
        self.start_anew(number);
    }

    fn start_anew(&mut self, number: usize) {
        let mut caller = std::mem::replace(&mut self.callers[number], DEAD);
        self.renew(&mut caller);
        self.callers[number] = caller;
        let pause_ns = self.random.below(self.plan.ttl_ms * MS / 2);
        self.plan_at(self.now() + pause_ns, Planned::Caller(number));
    }

    fn ask(&mut self, number: usize, ask: Ask, words: &Words) {
        let caller = &self.callers[number];
        let (agent, mut names) = (caller.agent, caller.names.clone());
        let counted_ns = caller.until_ns;
        if ask == Ask::Read {
            names.truncate(1);
        }
        let own = self.token(number);
        let is_own = |value: &Vec<u8>| {
            let rest = value.strip_prefix(own.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"~"))
        };
        self.note(|| {
            format!("caller {number} ({own}) asks agent {agent}: {ask:?} of locks {names:?}")
        });
        let kept: Option<Vec<_>> = names.iter().map(|name| self.kept(*name)).collect();
        let open = Open {
            caller: number,
            agent,
            ask,
            sent_ns: self.now(),
            kept: kept.filter(|kept| kept.iter().all(is_own)),
            names,
            counted_ns: if ask == Ask::Acquire { 0 } else { counted_ns },
            keeps: ask == Ask::Release && words[1].contains("pexpire"),
        };
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let at_ns = self.now() + self.loopback_ns();
        let client = self.client_of(number, at_ns);
        let id = self.agents.send_at(at_ns, agent, client, &words);
        self.open.insert(id, open);
    }

    /// The reply to a request has reached its caller.
    pub(super) fn answered(&mut self, open: &Open, answer: &Answer) {
        let number = open.caller;
        let now_ns = self.now();
        self.note(|| format!("caller {number} is told: {answer:?}"));
        let own = self.token(number);
        let verdict = match answer {
            Answer::Disconnected => {
                self.callers[number].session = None;
                Verdict::Error
            }
            Answer::Reply(reply) if open.ask == Ask::Read => match reply {
                Reply::Nil => Verdict::No,
                Reply::Error(_) => Verdict::of(reply),
                reply if *reply == Reply::bulk(own.as_str()) => Verdict::Yes,
                // Somebody else's.
                _ => Verdict::No,
            },
            Answer::Reply(reply) => Verdict::of(reply),
        };
        if verdict == Verdict::Nonsense {
            self.violation = Some(format!("{open:?} was answered {answer:?}"));
            return;
        }
        self.report.answered += 1;
        self.report.errors += u64::from(verdict == Verdict::Error);
        self.report.longest_ms = self.report.longest_ms.max((now_ns - open.sent_ns) / MS);
        self.check_told(open, verdict);
        match open.ask {
            Ask::Acquire => self.tried(number, open, verdict, answer),
            Ask::Extend { ttl_ms, is_on_top } => self.extended(number, verdict, ttl_ms, is_on_top),
            Ask::Release => self.released(number, verdict),
            Ask::Read => self.hold_on(number),
            Ask::Clear => {
                let is_known = verdict != Verdict::Error;
                self.next_acquire(number, is_known);
            }
        }
    }

    fn tried(&mut self, number: usize, open: &Open, verdict: Verdict, answer: &Answer) {
        let now_ns = self.now();
        match verdict {
            Verdict::Yes => {
                self.report.acquired += 1;
                let caller = &mut self.callers[number];
                let ttl_ms = match caller.library {
                    Library::Laravel => self.plan.ttl_ms.div_ceil(1_000) * 1_000,
                    _ => self.plan.ttl_ms,
                };
                caller.until_ns = now_ns + ttl_ms * MS * 1_000 / caller.rate_ppm * 1_000;
                caller.extensions = 0;
                if open.sent_ns >= self.healed_ns {
                    caller.had_ns = Some(now_ns);
                }
                if let Answer::Reply(Reply::Array(parts)) = answer {
                    self.granted(number, parts);
                }
                self.counts(number);
                self.hold_on(number);
            }
            Verdict::No => {
                self.report.refused += 1;
                let gives_up = self.callers[number].tries > 20 && self.random.chance(1, 8);
                match gives_up {
                    true => self.next_acquire(number, true),
                    false => self.poll(number),
                }
            }
            _ => {
                // Some libraries try again, some raise, and some clear away what there may be.
                if self.callers[number].library.releases_failed_tries() {
                    self.callers[number].state = State::Clearing;
                    let pause_ns = self.random.below(10 * MS);
                    self.plan_at(now_ns + pause_ns, Planned::Caller(number));
                } else if self.callers[number].library.takes_again() && self.random.chance(1, 2) {
                    // The same token through any agent, while the one before may still owe the nodes a release of this try.
                    self.take_another_agent(number);
                    self.poll(number);
                } else if *answer == Answer::Disconnected && self.random.chance(1, 2) {
                    self.take_another_agent(number);
                    self.next_acquire(number, false);
                } else {
                    self.poll(number);
                }
            }
        }
    }

    /// What LOCK.ACQUIRE has told of its lock.
    fn granted(&mut self, number: usize, parts: &[Reply]) {
        let caller = &mut self.callers[number];
        if let [_, fence, Reply::Bulk(token), _] = parts {
            caller.whole_token = String::from_utf8(token.clone()).ok();
            if let Reply::Integer(fence) = fence {
                let name = caller.names[0];
                self.check_fence(name, *fence);
            }
        }
        let is_told = self.callers[number].whole_token.is_some();
        if !is_told || self.callers[number].library == Library::Fenced && parts[1] == Reply::Nil {
            self.violation = Some(format!("caller {number} was granted a lock by {parts:?}"));
        }
    }

    fn poll(&mut self, number: usize) {
        self.callers[number].state = State::Trying;
        let pause_ns = 20 * MS + self.random.below(180 * MS);
        self.plan_at(self.now() + pause_ns, Planned::Caller(number));
    }

    /// A caller counts on its lock until then.
    fn counts(&mut self, number: usize) {
        let caller = &self.callers[number];
        let (names, owner) = (caller.names.clone(), (number, caller.process));
        let (until_ns, is_shared) = (caller.until_ns, caller.library == Library::Reading);
        self.holds.retain(|hold| hold.owner != owner);
        for name in names {
            let hold = Hold {
                name,
                owner,
                is_shared,
                until_ns,
            };
            self.check_alone(&hold);
            self.holds.push(hold);
        }
    }

    fn hold_on(&mut self, number: usize) {
        let now_ns = self.now();
        let caller = &mut self.callers[number];
        caller.state = State::Holding;
        let left_ns = caller.until_ns.saturating_sub(now_ns);
        let most_ns = match self.is_over {
            true => left_ns / 8,
            false => left_ns * self.random.pick(&[1, 4, 4, 9]) / 8,
        };
        let pause_ns = self.random.below(most_ns + 1);
        self.plan_at(now_ns + pause_ns, Planned::Caller(number));
    }

    fn extended(&mut self, number: usize, verdict: Verdict, ttl_ms: u64, is_on_top: bool) {
        let now_ns = self.now();
        match verdict {
            Verdict::Yes => {
                self.report.extended += 1;
                let caller = &mut self.callers[number];
                let ttl_ns = ttl_ms * MS * 1_000 / caller.rate_ppm * 1_000;
                caller.until_ns = match is_on_top {
                    true => caller.until_ns + ttl_ns,
                    false => now_ns + ttl_ns,
                };
                if caller.until_ns > now_ns {
                    self.counts(number);
                }
                self.hold_on(number);
            }
            Verdict::No => {
                self.report.lost += 1;
                let owner = (number, self.callers[number].process);
                self.holds.retain(|hold| hold.owner != owner);
                self.next_acquire(number, true);
            }
            // It counts on what it had.
            _ => self.hold_on(number),
        }
    }

    fn released(&mut self, number: usize, verdict: Verdict) {
        if verdict == Verdict::Yes {
            self.report.released += 1;
        }
        if self.callers[number].had_ns.is_some() && self.is_over {
            self.callers[number].state = State::Done;
            self.report.done_ms = self.report.done_ms.max((self.now() - self.healed_ns) / MS);
            return self.done();
        }
        self.next_acquire(number, verdict != Verdict::Error);
    }

    /// The next lock of a caller. A process that does not know what became of its last request does not go on.
    fn next_acquire(&mut self, number: usize, is_known: bool) {
        if !is_known || self.random.chance(1, 3) {
            return self.start_anew(number);
        }
        let caller = &mut self.callers[number];
        caller.tokens += 1;
        caller.whole_token = None;
        caller.tries = 0;
        self.poll(number);
    }

    /// Whether every caller had its lock after all was well, and has released it.
    pub(super) fn is_done(&self) -> bool {
        let mut callers = self.callers.iter();
        callers.all(|caller| caller.state == State::Done)
    }

    /// Callers that had no lock since all was well.
    pub(super) fn waiting(&self) -> Vec<usize> {
        let callers = self.callers.iter().enumerate();
        let waiting = callers.filter(|(_, caller)| caller.had_ns.is_none());
        waiting.map(|(number, _)| number).collect()
    }
}

/// A caller before its first process, and what stands in for it while it becomes another process.
const DEAD: Caller = Caller {
    library: Library::RedisPy,
    agent: 0,
    session: None,
    names: Vec::new(),
    rate_ppm: 1_000_000,
    process: 0,
    tokens: 0,
    whole_token: None,
    state: State::Done,
    tries: 0,
    until_ns: 0,
    extensions: 0,
    had_ns: None,
};
