//! Locks as an operator sees and breaks them: LOCK.INFO, LOCK.LIST, LOCK.FORCE-RELEASE.
//!
//! They work on the locks of all libraries: a string, as SET NX PX and LOCK.ACQUIRE make it, holders of a lock that is held
//! shared, or a hash, as Redisson's scripts do. What is said of a holder is in `holders` and not in the log, so no script may decide by it.

use crate::channels::Subscription;
use crate::command::about::{Categories, KeyAccess};
use crate::command::scan::{ScanFilter, cursor, page_of_slots};
use crate::command::shared_locks;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::fences::FenceName;
use crate::keyspace::Keyspace;
use crate::keyspace::collection::Collection;
use crate::keyspace::counting::is_lock;
use crate::keyspace::entry::{Entry, Slot, ValueRef};
use crate::keyspace::fields::Fields;
use crate::keyspace::holders::Holder;
use crate::keyspace::list::List;
use crate::keyspace::lock_holder::may_be_lock;
use crate::keyspace::shared_holders::SharedHolders;
use crate::lock_counts::LockEndReason;
use crate::notifications::Class;
use crate::queue_name::QueueName;
use crate::reply::Reply;
use crate::time::{Deadline, NodeTime, saturated};

pub(super) const FAMILY: Family = &[&INFO, &LIST, &FORCE_RELEASE];

const INFO: Spec = Spec::on_key("lock.info", 2, info)
    .flags(Flags::READ_KEYS.with(Flags::NO_SCRIPT))
    .about(Categories::STRING, &[KeyAccess::READ]);

/// Nothing where nobody holds it.
fn info(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let name = arguments[1];
    let Some(slot) = context.look_at(name).live else {
        return Ok(Reply::NilArray);
    };
    let (keyspace, now) = (&*context.keyspace, context.now.node);
    let entry = keyspace.entry(slot);
    if !may_be_lock(entry.value()) {
        return Err(NO_LOCK);
    }
    let database = context.caller.database;
    let fence = match entry.value() {
        ValueRef::String(token) => {
            (keyspace.fences).taken_by(&FenceName::new(database, name), token)
        }
        ValueRef::Collection(_) => None,
    };
    let queues = &keyspace.lock_queues;
    let queue = QueueName::new(database, name);
    let waiters = Some(queues.len_of(&queue) as u64);
    // The ceiling that covers it may not be on record yet.
    context.effects.tells_fence |= fence.is_some();
    let mut facts = LockDescription::new(context.effects);
    facts.add_key(entry, now, usize::MAX)?;
    if let ValueRef::Collection(Collection::SharedLock(holders)) = entry.value() {
        facts.add_shared(keyspace, holders, now, Detail::All)?;
        let until = queues.intents.until(&queue, now);
        let left = until.map(|until| Deadline::at(until).left_ms(now));
        facts.add_number("writer-refused-ms", left)?;
        facts.add_number("waiters", waiters)?;
        return Ok(Reply::Map(facts.pairs));
    }
    facts.add_holder(keyspace, slot, now, Detail::All)?;
    facts.add_number("fence", fence)?;
    facts.add_number("waiters", waiters)?;
    Ok(Reply::Map(facts.pairs))
}

// It shows tokens, with which locks can be released, and addresses.
const LIST: Spec = Spec::on_keys("lock.list", -1, list)
    .flags(INFO.flags)
    .about(Categories::KEYSPACE.with(Categories::DANGEROUS), &[]);

fn list(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (pattern, start) = match arguments[1..] {
        [] => (b"*".as_slice(), 0),
        [pattern] => (pattern, 0),
        [pattern, start] => (pattern, cursor(start)?),
        _ => return Err(ErrorReply::SYNTAX),
    };
    let mut filter = ScanFilter::of_names(pattern)?;
    let mut rows = Vec::new();
    context.reveal_all();
    let left = page_of_slots(context, start, KEYS_PER_PAGE, |context, slot| {
        let (keyspace, now) = (&*context.keyspace, context.now.node);
        let entry = keyspace.entry(slot);
        if is_lock(entry) && filter.admits_name(entry.key())? {
            rows.push(row(keyspace, context.effects, slot, now)?);
        }
        Ok(())
    })?;
    let cursor = Reply::bulk(itoa::Buffer::new().format(left));
    Ok(Reply::Array(vec![cursor, Reply::Array(rows)]))
}

fn row(
    keyspace: &Keyspace,
    effects: &mut Effects,
    slot: Slot,
    now: NodeTime,
) -> Result<Reply, ErrorReply> {
    let entry = keyspace.entry(slot);
    let mut facts = LockDescription::new(effects);
    facts.add("name", Some(entry.key()))?;
    facts.add_key(entry, now, FIELDS_PER_ROW)?;
    match entry.value() {
        ValueRef::Collection(Collection::SharedLock(holders)) => {
            facts.add_shared(keyspace, holders, now, Detail::Row)?;
        }
        _ => facts.add_holder(keyspace, slot, now, Detail::Row)?,
    }
    Ok(Reply::Map(facts.pairs))
}

// The holder goes on working, and does not know.
const FORCE_RELEASE: Spec = Spec::on_key("lock.force-release", 3, force_release)
    .flags(Flags::WRITE_KEYS.with(Flags::ADMIN))
    .and(Flags::NO_SCRIPT.with(Flags::NO_MULTI))
    .about(Categories::KEYSPACE, &[KeyAccess::REMOVE]);

/// The token is the one that was looked at: whoever has got the lock since keeps it.
fn force_release(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let (name, token) = (arguments[1], arguments[2]);
    let found = context.look_at(name);
    let (is_held, message) = match found.live.map(|slot| context.value(slot)) {
        None => (false, None),
        Some(ValueRef::String(held)) => (held == token, None),
        Some(ValueRef::Collection(Collection::Hash(fields))) => {
            let is_field = fields.get(token).is_some() && token != MODE;
            (is_field, Some(Unlocked::of(fields)))
        }
        Some(ValueRef::Collection(Collection::SharedLock(_))) => {
            let is_held =
                shared_locks::release(context, &found, (name, token), LockEndReason::Forced)?;
            return Ok(Reply::flag(is_held));
        }
        Some(ValueRef::Collection(_)) => return Err(NO_LOCK),
    };
    if is_held {
        context.end_key(&found, name, LockEndReason::Forced)?;
        if let Some(message) = message {
            message.publish(context, name)?;
        }
        context.notify(Class::Generic, "del", name);
    }
    Ok(Reply::flag(is_held))
}

/// What Redisson publishes when a lock of its own ends by force (`forceUnlock` of its lock, fair lock and read-write lock).
#[derive(Clone, Copy)]
enum Unlocked {
    Lock,
    Reader,
    Writer,
}

impl Unlocked {
    fn of(fields: &Fields) -> Unlocked {
        match fields.get(MODE).map(|mode| &**mode) {
            Some(b"read") => Unlocked::Reader,
            Some(b"write") => Unlocked::Writer,
            _ => Unlocked::Lock,
        }
    }

    fn publish(self, context: &mut CommandContext<'_>, name: &[u8]) -> Result<(), ErrorReply> {
        let (channel, message) = match self {
            Unlocked::Lock => (in_slot_of("redisson_lock__channel", name), b"0"),
            Unlocked::Reader => (in_slot_of("redisson_rwlock", name), b"0"),
            Unlocked::Writer => (in_slot_of("redisson_rwlock", name), b"1"),
        };
        // Who waits for a fair lock listens to a channel of its own; the first one is next.
        let queue = context.peek(&in_slot_of("redisson_lock_queue", name));
        context.reveal(&queue);
        let next = context.collection::<List>(&queue).ok().flatten();
        let channel = match (self, next.and_then(|waiters| waiters.get(0))) {
            (Unlocked::Lock, Some(next)) => [&*channel, b":", next].concat(),
            _ => channel,
        };
        context.publish(Subscription::Channel, &channel, message)?;
        Ok(())
    }
}

/// A name beside that of a lock, as Redisson makes it: both are in the same slot of a cluster.
fn in_slot_of(prefix: &str, name: &[u8]) -> Vec<u8> {
    let prefix = prefix.as_bytes();
    match name.contains(&b'{') {
        true => [prefix, b":", name].concat(),
        false => [prefix, b":{", name, b"}"].concat(),
    }
}

/// How much a reply says of a holder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Row,
    All,
}

/// What a reply says of a lock, each part charged before it is made.
struct LockDescription<'e> {
    effects: &'e mut Effects,
    pairs: Vec<(Reply, Reply)>,
}

impl LockDescription<'_> {
    fn new(effects: &mut Effects) -> LockDescription<'_> {
        let pairs = Vec::new();
        LockDescription { effects, pairs }
    }

    /// What the key says: what kind of lock it is, its token, and the time it has left, -1 without end.
    fn add_key(
        &mut self,
        entry: &Entry,
        now: NodeTime,
        fields_max: usize,
    ) -> Result<(), ErrorReply> {
        let value = entry.value();
        self.add("type", Some(value.type_name().as_bytes()))?;
        match value {
            ValueRef::Collection(Collection::Hash(fields)) => {
                let mut holds = Vec::new();
                for (field, count) in fields.iter().take(fields_max) {
                    self.effects.charge(field.len())?;
                    self.effects.charge(count.len())?;
                    holds.push((Reply::bulk(field), Reply::bulk(count)));
                }
                self.pairs.push((Reply::bulk("token"), Reply::Map(holds)));
            }
            ValueRef::String(token) => self.add("token", Some(token))?,
            ValueRef::Collection(_) => {}
        }
        let left = entry.deadline.unless_never();
        let left = left.map_or(-1, |deadline| integer(deadline.left_ms(now)));
        self.push("ttl-ms", Reply::Integer(left))
    }

    /// Those who hold the lock shared, and what is known of how each took it; nothing after a restart.
    fn add_shared(
        &mut self,
        keyspace: &Keyspace,
        holders: &SharedHolders,
        now: NodeTime,
        detail: Detail,
    ) -> Result<(), ErrorReply> {
        let mut shown = Vec::new();
        let count = holders.live_count(now);
        let first: Vec<_> = match detail {
            // The same ones on all nodes, each of which has them in another order.
            Detail::All if count > HOLDERS_SHOWN_MAX => holders.first_live(now, HOLDERS_SHOWN_MAX),
            Detail::All => holders.live(now).collect(),
            Detail::Row => holders.live(now).take(FIELDS_PER_ROW).collect(),
        };
        for holder in first {
            let taken = holder.taken();
            let client = taken.and_then(|taken| keyspace.holders.client_numbered(taken.client_id));
            let client = client.as_ref();
            let held_ms = taken.map(|taken| now.saturating_since(taken.since));
            let mut facts = LockDescription::new(self.effects);
            facts.add("token", Some(holder.token()))?;
            let left = Reply::Integer(integer(holder.end().left_ms(now)));
            facts.push("ttl-ms", left)?;
            facts.push("since-known", Reply::flag(taken.is_some()))?;
            let held_ms = held_ms.map(|held| saturated(held.as_millis()));
            facts.add_number("held-ms", held_ms)?;
            facts.add_text("owner", taken.and_then(|taken| taken.owner.as_deref()))?;
            facts.add_number("client-id", taken.map(|taken| taken.client_id))?;
            facts.add_text("client-name", client.map(|client| &*client.name))?;
            facts.add_text("client-address", client.map(|client| &*client.address))?;
            shown.push(Reply::Map(facts.pairs));
        }
        self.push("holders", Reply::Array(shown))?;
        self.add_number("holder-count", Some(count as u64))
    }

    /// What is known of who took it; nothing after a restart, or where the record was needed for another key.
    fn add_holder(
        &mut self,
        keyspace: &Keyspace,
        slot: Slot,
        now: NodeTime,
        detail: Detail,
    ) -> Result<(), ErrorReply> {
        let ms_since = |then: NodeTime| saturated(now.saturating_since(then).as_millis());
        let holder = keyspace.holders.of(slot);
        let client = holder.and_then(|holder| keyspace.holders.client(holder));
        let client = client.as_ref();
        let is_all = detail == Detail::All;
        if is_all {
            self.push("since-known", Reply::flag(holder.is_some()))?;
        }
        self.add_number("held-ms", holder.map(|holder| ms_since(holder.since)))?;
        if is_all {
            let extensions = holder.map(|holder| u64::from(holder.extensions));
            let last = holder.and_then(Holder::last_extension);
            self.add_number("extensions", extensions)?;
            self.add_number("last-extension-ms", last.map(ms_since))?;
        }
        self.add_text("owner", keyspace.holders.owner(slot))?;
        self.add_number("client-id", holder.map(|holder| holder.client_id))?;
        self.add_text("client-name", client.map(|client| &*client.name))?;
        self.add_text("client-address", client.map(|client| &*client.address))?;
        if is_all {
            let is_connected = client.map(|client| u64::from(client.is_connected));
            self.add_number("client-connected", is_connected)?;
            self.add_text("library-name", client.map(|client| &*client.library_name))?;
            let version = client.map(|client| &*client.library_version);
            self.add_text("library-version", version)?;
        }
        Ok(())
    }

    /// Nothing where a client has said nothing.
    fn add_text(&mut self, name: &'static str, text: Option<&str>) -> Result<(), ErrorReply> {
        let text = text.filter(|text| !text.is_empty());
        self.add(name, text.map(str::as_bytes))
    }

    fn add_number(&mut self, name: &'static str, number: Option<u64>) -> Result<(), ErrorReply> {
        let number = number.map_or(Reply::Nil, |number| Reply::Integer(integer(number)));
        self.push(name, number)
    }

    fn add(&mut self, name: &'static str, bytes: Option<&[u8]>) -> Result<(), ErrorReply> {
        self.effects.charge(bytes.map_or(0, <[u8]>::len))?;
        self.push(name, bytes.map_or(Reply::Nil, Reply::bulk))
    }

    fn push(&mut self, name: &'static str, value: Reply) -> Result<(), ErrorReply> {
        self.effects.charge(name.len())?;
        self.pairs.push((Reply::bulk(name), value));
        Ok(())
    }
}

fn integer(number: u64) -> i64 {
    i64::try_from(number.min(INTEGER_MAX)).expect("just cut")
}

const INTEGER_MAX: u64 = i64::MAX.unsigned_abs();
/// What a page of LOCK.LIST looks at.
const KEYS_PER_PAGE: u64 = 100;
/// LOCK.INFO shows no more of those who hold a lock shared, and how many they are.
const HOLDERS_SHOWN_MAX: usize = 1_000;
/// A row shows no more holders: LOCK.INFO shows all of a hash.
const FIELDS_PER_ROW: usize = 16;
/// The field of Redisson's read-write lock that is no holder.
const MODE: &[u8] = b"mode";

const NO_LOCK: ErrorReply = ErrorReply::fixed(
    "WRONGTYPE this key is no lock: a lock is a string of at most 1024 bytes, its token, or a hash as Redisson makes it",
);
