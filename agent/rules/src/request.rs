//! One request: what it reads, which step it is, and what its caller is told.
//!
//! A request about several locks is one about a lock of several names: it is taken, extended and released as one.
//!
//! Invariants: nothing is answered about a lock without a majority. Every step is conditional on the token that was read, or
//! assumed; where the condition fails, the request is read and executed again, a bounded number of times. An OK is told only while
//! the lock is valid for the ttl that the caller counts from then on.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::{ReadError, Reading};
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Purpose, Reply};
use smallvec::SmallVec;

use crate::change::Change;
use crate::commands::Commands;
use crate::lock_name::lock_name;
use crate::next::{Expiring, Next, Releasing};
use crate::pauses::ROUNDS_MAX;
use crate::refusal;
use crate::scratch::{Executed, HeldBy, Holder, Key};
use crate::surroundings::Surroundings;
use crate::terms::caller_ttl;

mod holding_back;
mod steps;

#[derive(Debug)]
pub(crate) struct Request {
    caller: Caller,
    commands: Commands,
    /// The lock that it is about.
    name: LockName,
    stage: Stage,
    /// How often it was executed with what a majority said.
    rounds: u32,
    /// An attempt to acquire the lock was refused by those who have it.
    was_refused: bool,
    /// It has released what some nodes had under this token, and no majority.
    released: Option<Token>,
    /// No majority has its locks under this token any more, since it has freed them on some nodes. So is it answered, unless they are
    /// held under the token of another attempt of the same caller.
    freed: Option<(Token, Reply)>,
    held_back: Option<HeldBack>,
    /// It is about several locks, and is or was held back while somebody else had this one.
    blocked_by: Option<usize>,
    /// How long nodes keep its locks, as far as they have said that.
    lasts: Option<Duration>,
}

/// What nodes say of a lock that is held.
#[derive(Clone, Debug)]
struct Held {
    by: HeldBy<Token>,
    left: Option<Duration>,
    /// The longest time that one of them keeps it.
    longest: Option<Duration>,
    /// No majority has it.
    is_split: bool,
}

/// A try that is or was held back.
#[derive(Debug)]
struct HeldBack {
    /// Then it is answered at the latest.
    until: ClientInstant,
    /// Then the nodes are asked again, and it may be held back for the rest. None where a watch knew who has the lock, where its time is
    /// over before, and once it has gone on because the lock may be free.
    looks_at: Option<ClientInstant>,
    /// How long it waits before the nodes are asked again.
    interval: Duration,
}

#[derive(Debug)]
enum Stage {
    /// So much is known of the names, in their order.
    Reading(Vec<Option<Held>>),
    Pausing,
    HeldBack,
    Acquiring {
        reply: Reply,
        ttl: Duration,
    },
    SettingEnd {
        reply: Reply,
        token: Token,
        ttl: Duration,
    },
    /// All of its locks, or some of them.
    Releasing(Reply, Releasing),
}

impl Request {
    /// Begins a request: it is answered at once where it needs no node.
    pub(crate) fn begin(
        caller: Caller,
        commands: Commands,
        world: &mut Surroundings<'_>,
    ) -> (Option<Self>, Next) {
        let name = match lock_name(&commands) {
            Ok(Some(name)) => name,
            Ok(None) => {
                let executed =
                    world
                        .scratch
                        .execute(world.wall_us, &caller, &commands, Purpose::Call, &[]);
                let reply = executed.map_or_else(|refusal| refusal, |executed| executed.reply);
                return (None, Next::Answer(reply));
            }
            Err(refusal) => return (None, Next::Answer(refusal)),
        };
        let mut request = Self {
            caller,
            commands,
            name,
            stage: Stage::Reading(Vec::new()),
            rounds: 0,
            was_refused: false,
            released: None,
            freed: None,
            held_back: None,
            blocked_by: None,
            lasts: None,
        };
        let next = request.try_again(world);
        (Some(request), next)
    }

    /// The lock that it is about, if it is one alone, or the one of several that it waits for.
    pub(crate) fn name(&self) -> Option<&Bytes> {
        match self.blocked_by {
            Some(at) => self.name.parts().get(at),
            None => self.name.single(),
        }
    }

    /// Whether it waits for its lock, which a client that has gone has no use for.
    pub(crate) fn is_held_back(&self) -> bool {
        matches!(self.stage, Stage::HeldBack)
    }

    /// Executes it where its locks are held so, in the order of their names.
    fn run<'a>(
        &self,
        holders: impl IntoIterator<Item = Option<Holder<'a>>>,
        purpose: Purpose,
        world: &mut Surroundings<'_>,
    ) -> Result<Executed, Reply> {
        let names = self.name.parts().iter();
        let keys = names
            .zip(holders)
            .map(|(name, holder)| Key { name, holder });
        let keys: SmallVec<[Key<'_>; 1]> = keys.collect();
        let (caller, commands) = (&self.caller, &self.commands);
        (world.scratch).execute(world.wall_us, caller, commands, purpose, &keys)
    }

    /// What it is answered while the lock is held under this token, if it does nothing but try to take it. One that would extend a
    /// lock of its own is more than a try: its caller may have the lock, through another agent, and would take the answer for a loss.
    /// What is tried of several locks, nodes are asked each time.
    fn refusal(&self, holder: &Token, world: &mut Surroundings<'_>) -> Option<Reply> {
        self.name.single()?;
        self.refusal_by(0, holder, world)
    }

    /// The same while this one of its locks is held so, and the others are free.
    fn refusal_by(&self, at: usize, holder: &Token, world: &mut Surroundings<'_>) -> Option<Reply> {
        let mut execute = |holder: Option<(&[u8], Duration)>| {
            let holder = holder.map(|(token, left)| Holder {
                by: HeldBy::One(token),
                left: Some(left),
            });
            let names = 0..self.name.parts().len();
            let holders = names.map(|name| holder.filter(|_| name == at));
            self.run(holders, Purpose::Question, world)
        };
        let other = holder.without_attempt();
        let refused = execute(Some((other, SOME_TIME))).ok()?;
        // What is told of the time that is left has to be read.
        if refused.reads_end || refused.change != Change::None {
            return None;
        }
        let Ok(Executed {
            change: Change::Acquire(own, _),
            ..
        }) = execute(None)
        else {
            return None;
        };
        let is_try = execute(Some((&own, SOME_TIME)))
            .is_ok_and(|again| again.change == Change::None && !again.reads_end);
        is_try.then_some(refused.reply)
    }

    /// Tries what it would do to its locks as this agent knows them: a step is conditional on that, so it need not be asked for.
    /// Where it does nothing, or what it does depends on how long a lock lasts, or on one that it leaves alone, that has to be read.
    fn assume(&mut self, world: &mut Surroundings<'_>) -> Next {
        let names = self.name.parts().iter();
        let known = names.map(|name| world.known.token(world.now, name).cloned());
        let known: Vec<Option<Token>> = known.collect();
        let held = known.iter().flatten().count();
        let holders = known.iter().map(|token| {
            token.as_ref().map(|token| Holder {
                by: HeldBy::One(token.without_attempt()),
                left: Some(SOME_TIME),
            })
        });
        match self.run(holders, Purpose::Question, world) {
            // That the script is not known depends on no lock.
            Ok(Executed {
                reply: Reply::Error(error),
                ..
            }) if error.code() == b"NOSCRIPT" => Next::Answer(Reply::Error(error)),
            // How long they last is not known here: what depends on that has to be read.
            Ok(executed)
                if !(held > 0 && executed.reads_end)
                    && executed.change.is_conditional(known.len(), held) =>
            {
                self.take_step(executed.reply, executed.change, &known, world)
            }
            _ => self.read(Vec::new()),
        }
    }

    /// Asks for the first of its names of which nothing is known yet.
    fn read(&mut self, known: Vec<Option<Held>>) -> Next {
        let name = self.name.parts()[known.len()].clone();
        self.stage = Stage::Reading(known);
        Next::Ask(Call::Read { name })
    }

    /// What was asked for has come to this.
    pub(crate) fn handle(&mut self, outcome: Outcome, world: &mut Surroundings<'_>) -> Next {
        let stage = std::mem::replace(&mut self.stage, Stage::Pausing);
        match (outcome, stage) {
            (Outcome::Read(told), Stage::Reading(known)) => self.was_read(told, known, world),
            (
                Outcome::Acquired {
                    token, valid_until, ..
                },
                Stage::Acquiring { reply, ttl },
            ) => self.acquired(&token, valid_until, reply, ttl, world),
            (Outcome::NotAcquired(error), Stage::Acquiring { .. }) => {
                self.not_acquired(&error, world)
            }
            (Outcome::Extended(result), Stage::SettingEnd { reply, token, ttl }) => match result {
                Ok(extended) if world.now.until(extended.valid_until) >= ttl => {
                    let until = extended.valid_until;
                    self.note_known(&token, until, world);
                    (world.sessions).note_extended(world.client, &self.name, until, &token);
                    let expiring = Expiring {
                        until: until.before(ttl),
                        instead: Reply::Error(refusal::extended_too_late()),
                        undo: None,
                    };
                    Next::AnswerBefore(reply, expiring)
                }
                Ok(_) => Next::Answer(Reply::Error(refusal::extended_too_late())),
                Err(error) => self.not_extended(&error, world),
            },
            (Outcome::Released(release), Stage::Releasing(reply, releasing)) => {
                self.released(&release, reply, &releasing, world)
            }
            // The client has ended.
            (outcome, stage) => {
                debug_assert!(false, "{outcome:?} in {stage:?}");
                Next::Answer(Reply::Error(refusal::TRY_AGAIN))
            }
        }
    }

    /// The pause is over.
    pub(crate) fn go_on(&mut self, world: &mut Surroundings<'_>) -> Next {
        match self.stage {
            Stage::HeldBack => self.end_hold(world),
            _ => self.read(Vec::new()),
        }
    }

    fn was_read(
        &mut self,
        told: Result<Reading, ReadError>,
        mut known: Vec<Option<Held>>,
        world: &mut Surroundings<'_>,
    ) -> Next {
        known.push(match told {
            Err(error) => {
                let refusal = match self.freed {
                    None => refusal::not_read(&error),
                    Some(_) => refusal::not_read_again(&error),
                };
                return Next::Answer(Reply::Error(refusal));
            }
            Ok(Reading::Free) => {
                world.known.forget(&self.name.parts()[known.len()]);
                None
            }
            Ok(Reading::Held {
                token,
                left,
                longest,
            }) => Some(Held {
                by: HeldBy::One(token),
                left,
                longest,
                is_split: false,
            }),
            Ok(Reading::Split { token, left }) => Some(Held {
                by: HeldBy::One(token),
                left,
                longest: None,
                is_split: true,
            }),
            Ok(Reading::OtherType { left }) => Some(Held {
                by: HeldBy::Others,
                left,
                longest: left,
                is_split: false,
            }),
        });
        if known.len() < self.name.parts().len() {
            return self.read(known);
        }
        let lasts = known
            .iter()
            .flatten()
            .map(|held| held.longest.max(held.left));
        self.lasts = lasts.max().flatten();
        if let Some(next) = self.answer_freed(&known, world) {
            return next;
        }
        match known.iter().flatten().find(|held| held.is_split) {
            // Those who have it have refused it: that is an answer to who wanted it.
            Some(_) if self.was_refused => self.execute(&known, world),
            Some(held) => {
                // Who only tries to take it is refused, as by one server: that some nodes hold it is enough.
                let refusal = held.token().and_then(|token| self.refusal(token, world));
                match refusal {
                    Some(reply) if self.rounds >= ROUNDS_MAX => Next::Answer(reply),
                    _ => self.release_split(&known, world),
                }
            }
            None => self.execute(&known, world),
        }
    }

    /// Of some lock no majority says who has it. Who releases it may do so: that is told only where a majority has freed it. All else
    /// waits.
    fn release_split(&mut self, known: &[Option<Held>], world: &mut Surroundings<'_>) -> Next {
        let holders = holders(known, |held| held.left);
        let executed = self.run(holders, Purpose::Question, world);
        match executed {
            Ok(executed) if matches!(executed.change, Change::Release(_)) => {
                let tokens = tokens(known);
                let token = executed.change.token(&tokens);
                if token.is_some() && self.released.as_ref() == token {
                    return self.pause(world);
                }
                self.released = token.cloned();
                self.take_step(executed.reply, executed.change, &tokens, world)
            }
            _ => self.pause(world),
        }
    }

    /// Executes the request with what a majority says, and takes the step that it is. An end that depends on how long the lock
    /// lasts is the later one, where nodes do not agree on that: its holder may count on what only some of them have heard of.
    fn execute(&mut self, known: &[Option<Held>], world: &mut Surroundings<'_>) -> Next {
        self.rounds += 1;
        let drift = world.drift;
        let for_caller = |left: Option<Duration>| left.map(|left| caller_ttl(left, drift));
        let by_votes = holders(known, |held| for_caller(held.left));
        let executed = self.run(by_votes, Purpose::Call, world);
        let mut executed = match executed {
            Err(refusal) => return Next::Answer(refusal),
            Ok(executed) => executed,
        };
        let mut lasting = known.iter().flatten();
        if let Change::SetEnd(end) = &mut executed.change
            && lasting.any(|held| held.longest > held.left)
        {
            let longest = |held: &Held| for_caller(held.longest.max(held.left));
            let again = self.run(holders(known, longest), Purpose::Question, world);
            if let Ok(Executed {
                change: Change::SetEnd(later),
                ..
            }) = again
            {
                *end = later.max(*end);
            }
        }
        if executed.change == Change::None
            && let Some(next) = self.refused(known, world)
        {
            return next;
        }
        self.take_step(executed.reply, executed.change, &tokens(known), world)
    }
}

impl Held {
    /// Under which token it is held, if it is by one holder.
    fn token(&self) -> Option<&Token> {
        match &self.by {
            HeldBy::One(token) => Some(token),
            HeldBy::Others => None,
        }
    }
}

fn tokens(known: &[Option<Held>]) -> Vec<Option<Token>> {
    let token = |held: &Option<Held>| held.as_ref().and_then(Held::token).cloned();
    known.iter().map(token).collect()
}

/// What callers see of those who hold the locks.
fn holders(
    known: &[Option<Held>],
    left: impl Fn(&Held) -> Option<Duration>,
) -> impl Iterator<Item = Option<Holder<'_>>> {
    known.iter().map(move |held| {
        held.as_ref().map(|held| Holder {
            by: match &held.by {
                HeldBy::One(token) => HeldBy::One(token.without_attempt()),
                HeldBy::Others => HeldBy::Others,
            },
            left: left(held),
        })
    })
}

/// How long a lock is taken to last where that does not matter.
const SOME_TIME: Duration = Duration::from_secs(60);
