//! A node of the model: its lock and its fences, which the production engine changes, and what of them is durable.
//!
//! LOCK.ACQUIRE, LOCK.FENCE and LOCK.ADOPT run as they are, with the fences of the state. What waits for a sync is mirrored
//! from the executor of `server/node`: a reply that tells of a fence leaves once the ceiling on record is synced.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use quorlock_engine::control::Ceiling;
use quorlock_engine::{Engine, EngineOptions, Fences, NodeTime, Reply};

use super::client::Message;
use crate::parts::{self, Token};

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Request {
    /// LOCK.ACQUIRE, with a guess or without.
    Acquire(Option<u64>),
    Fence(u64),
    Adopt(u64),
}

/// What a node answers. The numbers are the fence of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    Granted {
        fence: u64,
        is_guess: bool,
    },
    Busy(u64),
    Taken(u64),
    NotTaken(u64),
    WithoutLock,
    /// An error: its fences may be lost, or the number is too high.
    Refused,
    Adopted,
}

/// One node. It is never down: a node that is down is one that no message reaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) fences: Arc<Fences>,
    pub(crate) holder: Option<Token>,
    durable: Ceiling,
    /// Replies that wait for the sync.
    pub(crate) held: Vec<Message>,
    pub(crate) starts: u8,
    /// The clients whose attempts began before the disk was lost, and are not over: a bit each. The restart delay lasts as long.
    pub(crate) waits_for: u8,
    /// The other nodes that the operator has asked for their ceilings, a bit each, and the largest.
    pub(crate) asked: (u8, u64),
    pub(crate) has_adopted: bool,
}

impl Node {
    pub(crate) fn fresh() -> Node {
        Node {
            fences: Arc::new(Fences::new(Ceiling::NONE)),
            holder: None,
            durable: Ceiling::NONE,
            held: Vec::new(),
            starts: 0,
            waits_for: 0,
            asked: (0, 0),
            has_adopted: false,
        }
    }

    pub(crate) fn is_certain(&self) -> bool {
        matches!(self.fences.ceiling(), Ceiling::Known(_))
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.durable == self.fences.ceiling()
    }

    /// Executes a request in the production engine.
    pub(crate) fn execute(&mut self, token: Token, request: Request) -> Told {
        let before = (Arc::clone(&self.fences), self.holder, token, request);
        let after = EXECUTED.with_borrow_mut(|executed| {
            let after = executed.entry(before);
            after.or_insert_with_key(execute).clone()
        });
        self.fences = after.0;
        self.holder = after.1;
        after.2
    }

    /// Everything written is durable. Returns the replies that leave.
    pub(crate) fn sync(&mut self) -> Vec<Message> {
        self.durable = self.fences.ceiling();
        std::mem::take(&mut self.held)
    }

    /// It crashes and starts again. What was written and not synced may have been kept. Its lock is kept: where it is lost, the
    /// node waits until the lease is over, and a lock whose attempt is over may end at any time.
    pub(crate) fn restart(&mut self, is_kept: bool) {
        if is_kept {
            self.durable = self.fences.ceiling();
        }
        self.fences = Arc::new(Fences::new(self.durable));
        self.held.clear();
        self.starts += 1;
    }

    /// It starts on an empty disk.
    pub(crate) fn lose_disk(&mut self, waits_for: u8) {
        self.durable = Ceiling::Uncertain(0);
        self.restart(false);
        self.holder = None;
        self.waits_for = waits_for;
        self.asked = (0, 0);
        self.has_adopted = false;
    }

    pub(crate) fn adopt(&mut self) {
        let operator = Token {
            client: u8::MAX,
            attempt: 0,
        };
        let told = self.execute(operator, Request::Adopt(self.asked.1));
        assert_eq!(told, Told::Adopted);
        self.asked = (0, 0);
        self.has_adopted = true;
    }

    /// Forgets the name, as if many others had taken fences after it.
    pub(crate) fn forget(&mut self) {
        Arc::make_mut(&mut self.fences).forget_oldest();
    }
}

type Before = (Arc<Fences>, Option<Token>, Token, Request);
type After = (Arc<Fences>, Option<Token>, Told);

thread_local! {
    /// What the engine made of each request so far: the same in very many states.
    static EXECUTED: RefCell<HashMap<Before, After>> = RefCell::default();
}

fn execute((fences, holder, token, request): &Before) -> After {
    let mut engine = Engine::new(EngineOptions::default());
    engine.set_fences(Fences::clone(fences));
    if let Some(holder) = holder {
        let holder = holder.to_string();
        let reply = ask(&mut engine, &["SET", NAME, &holder, "PX", TTL_MS]);
        assert_eq!(reply, Reply::Ok);
    }
    let token_text = token.to_string();
    let reply = match request {
        Request::Acquire(None) => ask(&mut engine, &["LOCK.ACQUIRE", NAME, &token_text, TTL_MS]),
        Request::Acquire(Some(guess)) => {
            let guess = guess.to_string();
            let words = ["LOCK.ACQUIRE", NAME, &token_text, TTL_MS, "GUESS", &guess];
            ask(&mut engine, &words)
        }
        Request::Fence(fence) => {
            let fence = fence.to_string();
            ask(&mut engine, &["LOCK.FENCE", NAME, &token_text, &fence])
        }
        Request::Adopt(ceiling) => ask(&mut engine, &["LOCK.ADOPT", &ceiling.to_string()]),
    };
    let told = meaning(*request, &reply);
    let holder = match told {
        Told::Granted { .. } => Some(*token),
        _ => *holder,
    };
    let key = ask(&mut engine, &["GET", NAME]);
    assert_eq!(
        key,
        holder.map_or(Reply::Nil, |holder| Reply::bulk(holder.to_string()))
    );
    (Arc::new(engine.fences().clone()), holder, told)
}

fn meaning(request: Request, reply: &Reply) -> Told {
    let parts = match reply {
        Reply::Array(parts) => &parts[..],
        Reply::Nil => return Told::WithoutLock,
        Reply::Integer(_) => return Told::Adopted,
        Reply::Error(_) => return Told::Refused,
        other => panic!("a reply that no client expects: {other:?}"),
    };
    let [Reply::Integer(is_so), Reply::Integer(fence), rest @ ..] = parts else {
        panic!("a reply that no client expects: {reply:?}");
    };
    let fence = fence.unsigned_abs();
    match (request, is_so) {
        (Request::Acquire(_), 0) => Told::Busy(fence),
        (Request::Acquire(_), _) => Told::Granted {
            fence,
            is_guess: rest[0] == Reply::flag(true),
        },
        (_, 0) => Told::NotTaken(fence),
        _ => Told::Taken(fence),
    }
}

fn ask(engine: &mut Engine, words: &[&str]) -> Reply {
    let (reply, _) = parts::ask(engine, NodeTime::from_nanos(1_000_000_000), words);
    reply
}

const NAME: &str = "job";
const TTL_MS: &str = "30000";
