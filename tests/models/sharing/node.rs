//! A node of the model: the production engine executes its requests, and replays what it has put on record.
//!
//! What is mirrored is what stands around the engine: which reply waits for a sync, what a crash leaves, and that a node which may
//! have forgotten a lock waits until the longest lease is over. A state is what a checkpoint of the engine would hold, so equal
//! states are equal bytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::{EXTEND_SCRIPT, RELEASE_SCRIPT};
use quorlock_engine::{
    Engine, EngineOptions, LogPosition, NodeTime, Reply, SnapshotCursor, StoredValue,
};

use super::client::Message;
use crate::parts::{Token, ask};

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wish {
    Read,
    Write,
    /// Of a reader, or of a writer.
    Extend(bool),
    Release(bool),
    /// An operator ends the lock that is held under this token.
    Force,
}

/// What a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    Granted,
    Busy,
    /// Nobody holds it so that this reader could not, but a writer comes first.
    WriterWaits,
    Extended,
    Gone,
    Other,
    /// A release, whether there was something to release or not.
    Done,
    /// In its restart delay, or an error.
    Refused,
}

/// One who holds the lock at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) token: Token,
    until: NodeTime,
}

/// What an engine holds, as bytes of a checkpoint.
type Image = Arc<[u8]>;

/// One node. It is never down: a node that is down is one that no message reaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    image: Image,
    durable: Image,
    /// What was written behind it, and is not synced.
    tail: Vec<Arc<[u8]>>,
    /// Until this tick a writer that was refused keeps readers out.
    kept_out_until: u8,
    /// Replies that wait for the sync.
    held: Vec<Message>,
    pub(crate) starts: u8,
    /// The end of its restart delay.
    waits_until: u8,
    pub(crate) has_lost_grant: bool,
}

impl Node {
    pub(crate) fn fresh() -> Node {
        Node {
            image: Arc::from([]),
            durable: Arc::from([]),
            tail: Vec::new(),
            kept_out_until: 0,
            held: Vec::new(),
            starts: 0,
            waits_until: 0,
            has_lost_grant: false,
        }
    }

    /// Executes a request in the production engine.
    pub(crate) fn execute(&mut self, tick: u8, token: Token, wish: Wish) -> Told {
        if self.is_waiting(tick) {
            return Told::Refused;
        }
        let request = (tick, token, wish);
        let before = (Arc::clone(&self.image), self.kept_out_until, request);
        let after = EXECUTED.with_borrow_mut(|executed| {
            let after = executed.entry(before);
            after.or_insert_with_key(execute).clone()
        });
        self.image = after.image;
        self.kept_out_until = after.kept_out_until;
        self.tail.extend(after.frame);
        after.told
    }

    pub(crate) fn is_waiting(&self, tick: u8) -> bool {
        self.waits_until > tick
    }

    pub(crate) fn unsynced(&self) -> u8 {
        u8::try_from(self.tail.len()).unwrap_or(u8::MAX)
    }

    /// This reply waits for the next sync.
    pub(crate) fn hold(&mut self, reply: Message) {
        self.held.push(reply);
        self.held.sort_unstable();
    }

    pub(crate) fn retain(&mut self, matters: impl Fn(&Message) -> bool) {
        self.held.retain(matters);
    }

    /// Everything written is durable. Returns the replies that leave.
    pub(crate) fn sync(&mut self) -> Vec<Message> {
        for frame in self.tail.drain(..) {
            self.durable = replayed(&self.durable, &frame);
        }
        std::mem::take(&mut self.held)
    }

    /// The process is killed and starts again. What it had written is there; what it had in memory alone is not.
    pub(crate) fn kill(&mut self) {
        self.sync();
        self.image = Arc::clone(&self.durable);
        self.kept_out_until = 0;
        self.starts += 1;
    }

    /// The machine loses power: so many frames that were not synced survive. The node then waits until this tick.
    pub(crate) fn lose_power(&mut self, kept: u8, waits_until: u8) {
        self.has_lost_grant |= kept < self.unsynced();
        self.tail.truncate(usize::from(kept));
        self.kill();
        self.waits_until = waits_until;
    }

    /// It starts on an empty disk, and waits until this tick.
    pub(crate) fn lose_disk(&mut self, waits_until: u8) {
        self.has_lost_grant |= !self.durable.is_empty();
        (self.durable, self.tail) = (Arc::from([]), Vec::new());
        self.kill();
        self.waits_until = waits_until;
    }

    /// Time has gone on: what is over leaves memory.
    pub(crate) fn tick(&mut self, tick: u8) {
        self.image = reclaimed(&self.image, tick);
        self.durable = match self.tail.is_empty() {
            true => reclaimed(&self.durable, tick),
            false => Arc::clone(&self.durable),
        };
        if self.waits_until <= tick {
            self.waits_until = 0;
        }
        if self.kept_out_until <= tick {
            self.kept_out_until = 0;
        }
    }

    /// Those who hold the lock here at this time.
    pub(crate) fn holders(&self, tick: u8) -> impl Iterator<Item = Held> {
        let image = Arc::clone(&self.image);
        let held = HOLDERS.with_borrow_mut(|known| {
            let held = known.entry(image);
            held.or_insert_with_key(holders).clone()
        });
        let now = time_at(tick);
        held.into_iter().filter(move |held| held.until > now)
    }
}

type Before = (Image, u8, (u8, Token, Wish));
/// What is on the disk, and a frame that is replayed on it.
type Frame = (Image, Arc<[u8]>);

#[derive(Clone)]
struct After {
    image: Image,
    kept_out_until: u8,
    frame: Option<Arc<[u8]>>,
    told: Told,
}

thread_local! {
    /// What the engine made of each request so far: the same in very many states.
    static EXECUTED: RefCell<HashMap<Before, After>> = RefCell::default();
    static REPLAYED: RefCell<HashMap<Frame, Image>> = RefCell::default();
    static RECLAIMED: RefCell<HashMap<(Image, u8), Image>> = RefCell::default();
    static HOLDERS: RefCell<HashMap<Image, Vec<Held>>> = RefCell::default();
}

fn execute((image, kept_out_until, (tick, token, wish)): &Before) -> After {
    let mut engine = engine_of(image);
    if kept_out_until > tick {
        refuse_writer(
            &mut engine,
            image,
            kept_out_until.saturating_sub(INTENT_TICKS),
        );
    }
    let token_text = token.to_string();
    let token_text = token_text.as_str();
    let lease = lease_ms();
    let (extend, release) = (as_text(EXTEND_SCRIPT), as_text(RELEASE_SCRIPT));
    let words: &[&str] = match wish {
        Wish::Read => &["LOCK.ACQUIRE", NAME, token_text, &lease, "SHARED"],
        Wish::Write => &["SET", NAME, token_text, "NX", "PX", &lease, "GET"],
        Wish::Extend(true) => &["LOCK.EXTEND", NAME, token_text, &lease],
        Wish::Extend(false) => &["EVAL", extend, "1", NAME, token_text, &lease],
        Wish::Release(true) => &["LOCK.RELEASE", NAME, token_text],
        Wish::Release(false) => &["EVAL", release, "1", NAME, token_text],
        Wish::Force => &["LOCK.FORCE-RELEASE", NAME, token_text],
    };
    let (reply, journal) = ask(&mut engine, time_at(*tick), words);
    let image = image_of(&mut engine);
    let mut is_free_for_readers = |later| {
        let (reply, _) = ask(
            &mut engine,
            time_at(later),
            &["LOCK.ACQUIRE", NAME, "another", "1", "SHARED"],
        );
        meaning(Wish::Read, &reply) != Told::WriterWaits
    };
    let kept_out_until =
        (*tick..=tick.saturating_add(FAR)).find(|later| is_free_for_readers(*later));
    After {
        image,
        kept_out_until: match kept_out_until {
            Some(until) if until == *tick => 0,
            Some(until) => until,
            None => u8::MAX,
        },
        frame: (!journal.is_empty()).then(|| journal.into()),
        told: meaning(*wish, &reply),
    }
}

/// Brings back what the engine had in memory alone: that a writer was refused at this tick. The key is put back behind it.
fn refuse_writer(engine: &mut Engine, image: &Image, tick: u8) {
    let lease = lease_ms();
    for words in [
        &["DEL", NAME][..],
        &["LOCK.ACQUIRE", NAME, "another", &lease, "SHARED"],
        &["SET", NAME, "writer", "NX", "PX", &lease],
        &["DEL", NAME],
    ] {
        ask(engine, time_at(tick), words);
    }
    apply(engine, image);
}

fn meaning(wish: Wish, reply: &Reply) -> Told {
    match (wish, reply) {
        (Wish::Read, Reply::Array(parts)) => match &parts[..] {
            [Reply::Integer(1), Reply::Nil] => Told::Granted,
            [Reply::Integer(0), Reply::Nil] => Told::WriterWaits,
            _ => Told::Busy,
        },
        (Wish::Write, Reply::Nil) => Told::Granted,
        (Wish::Write, _) => Told::Busy,
        (Wish::Extend(_), Reply::Integer(1)) => Told::Extended,
        (Wish::Extend(false), Reply::Integer(-1)) => Told::Other,
        (Wish::Extend(_), _) => Told::Gone,
        (Wish::Release(_) | Wish::Force, _) => Told::Done,
        (Wish::Read, _) => Told::Refused,
    }
}

fn holders(image: &Image) -> Vec<Held> {
    let engine = engine_of(image);
    let mut all = Vec::new();
    for stored in engine.stored() {
        let end = stored.deadline.expect("each lock has an end").node_time();
        match stored.value {
            StoredValue::String(token) => all.push((token, end)),
            // A holder whose key has ended holds nothing.
            StoredValue::SharedLock(holders) => {
                let ends = holders.into_iter();
                all.extend(ends.map(|(token, own)| (token, own.node_time().min(end))));
            }
            other => panic!("no lock of the model: {other:?}"),
        }
    }
    let held = |(token, until): (Vec<u8>, NodeTime)| {
        let token = String::from_utf8(token).ok()?;
        let (client, attempt) = token.split_once('.')?;
        let token = Token {
            client: client.parse().ok()?,
            attempt: attempt.parse().ok()?,
        };
        Some(Held { token, until })
    };
    all.into_iter().filter_map(held).collect()
}

fn replayed(image: &Image, frame: &Arc<[u8]>) -> Image {
    let before = (Arc::clone(image), Arc::clone(frame));
    REPLAYED.with_borrow_mut(|known| {
        let after = known.entry(before);
        let replay = |(image, frame): &(Image, Arc<[u8]>)| {
            let mut engine = engine_of(image);
            apply(&mut engine, frame);
            image_of(&mut engine)
        };
        Arc::clone(after.or_insert_with_key(replay))
    })
}

fn reclaimed(image: &Image, tick: u8) -> Image {
    if image.is_empty() {
        return Arc::clone(image);
    }
    RECLAIMED.with_borrow_mut(|known| {
        let after = known.entry((Arc::clone(image), tick));
        let reclaim = |(image, tick): &(Image, u8)| {
            let mut engine = engine_of(image);
            engine.reclaim(time_at(*tick), 64);
            image_of(&mut engine)
        };
        Arc::clone(after.or_insert_with_key(reclaim))
    })
}

fn engine_of(image: &Image) -> Engine {
    let mut engine = Engine::new(EngineOptions::default());
    apply(&mut engine, image);
    engine
}

fn apply(engine: &mut Engine, payload: &[u8]) {
    let applied = engine.apply(LogPosition::from_raw(1), payload);
    applied.expect("an engine reads what an engine has written");
}

fn image_of(engine: &mut Engine) -> Image {
    let mut out = Vec::new();
    let more = engine.snapshot(SnapshotCursor::default(), 1 << 20, &mut out);
    assert!(more.is_none(), "one part holds one key");
    out.into()
}

fn time_at(tick: u8) -> NodeTime {
    NodeTime::from_nanos(1_000_000_000).saturating_add(TICK * u32::from(tick))
}

fn as_text(script: &[u8]) -> &str {
    std::str::from_utf8(script).expect("scripts are text")
}

fn lease_ms() -> String {
    LEASE.as_millis().to_string()
}

/// One step of true time, which all clocks follow: that they may be apart is the matter of the model of exclusion.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Of readers and writers.
pub(crate) const LEASE_TICKS: u8 = 2;
pub(crate) const LEASE: Duration = TICK.saturating_mul(LEASE_TICKS as u32);

/// So long a writer that was refused keeps readers out.
const INTENT_TICKS: u8 = 2;

/// Who keeps readers out for so many ticks keeps them out for good.
const FAR: u8 = 8;

const NAME: &str = "job";
