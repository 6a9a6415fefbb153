//! What a key takes and how it is kept: OBJECT, MEMORY USAGE and DEBUG OBJECT, for people and tools that look around. What
//! else there is of MEMORY is the node's.

use crate::command::about::{Categories, Description, KeyAccess, help, part};
use crate::command::arguments::{integer, is_option};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, NodeCommand, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::entry::{Entry, Slot};
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&OBJECT, &MEMORY];

const OBJECT: Spec = Spec::on_keys("object", -2, object)
    .keys(KeyPositions::SECOND)
    .flags(Flags::READ_KEYS)
    .about(Categories::NONE, &[])
    .subcommands(OBJECT_PARTS);

fn object(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let subcommand = arguments[1].to_ascii_lowercase();
    match (&*subcommand, &arguments[2..]) {
        (b"encoding", [key]) => {
            let answer = |entry: &Entry| Ok(Reply::bulk(entry.encoding()));
            of_entry(context, key, answer)
        }
        // What replies share of it on their way out are copies to a client.
        (b"refcount", [key]) => of_entry(context, key, |_| Ok(Reply::Integer(1))),
        (b"idletime", [key]) => Ok(idle_time(context, key)),
        (b"freq", [key]) => of_entry(context, key, |_| Err(NO_FREQUENCY)),
        (b"help", []) => Ok(Reply::help("OBJECT", OBJECT_HELP)),
        (b"encoding", _) => Err(ErrorReply::wrong_arity("object|encoding")),
        (b"refcount", _) => Err(ErrorReply::wrong_arity("object|refcount")),
        (b"idletime", _) => Err(ErrorReply::wrong_arity("object|idletime")),
        (b"freq", _) => Err(ErrorReply::wrong_arity("object|freq")),
        (b"help", _) => Err(ErrorReply::wrong_arity("object|help")),
        _ => Err(ErrorReply::unknown_subcommand("object", arguments[1])),
    }
}

fn idle_time(context: &mut CommandContext<'_>, key: &[u8]) -> Reply {
    let Some(slot) = context.look_at(key).live else {
        return Reply::Nil;
    };
    let idle_s = i64::try_from(idle_s(context, slot));
    Reply::Integer(idle_s.expect("node time is short of 600 years"))
}

/// The seconds since the last write, where nobody has read the key since. When one was read is not kept: then it may have
/// been just now.
fn idle_s(context: &CommandContext<'_>, slot: Slot) -> u64 {
    let entry = context.keyspace.entry(slot);
    if entry.was_read() {
        return 0;
    }
    let ages = &context.keyspace.ages;
    ages.since(entry.position(), context.now.node).as_secs()
}

/// DEBUG OBJECT, which the node executes by this row where it allows DEBUG.
pub const DEBUG_OBJECT: &Spec = &Spec::on_keys("debug", 3, debug_object)
    .keys(KeyPositions::SECOND)
    .flags(Flags::READ_KEYS)
    .about(Categories::NONE, &[]);

/// The place and the length are those of this node: of its entry in the table, and of its value's bytes in the log.
fn debug_object(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let found = context.look_at(arguments[2]);
    let slot = found.live.ok_or(ErrorReply::NO_SUCH_KEY)?;
    let idle_s = idle_s(context, slot);
    let used_s = (context.now.wall_us / 1_000_000).saturating_sub(idle_s);
    let encoding = context.keyspace.entry(slot).encoding();
    let bytes = context.value(slot).bytes();
    let text = format!(
        "Value at:0x{slot:x} refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{} lru_seconds_idle:{idle_s}",
        used_s & LRU_MASK
    );
    Ok(Reply::Status(text.into_bytes().into()))
}

/// As many seconds as Redis's clock for this has.
const LRU_MASK: u64 = (1 << 24) - 1;

/// Nothing where there is no such key.
fn of_entry(
    context: &mut CommandContext<'_>,
    key: &[u8],
    answer: impl Fn(&Entry) -> Result<Reply, ErrorReply>,
) -> Result<Reply, ErrorReply> {
    let found = context.look_at(key);
    match found.live {
        None => Ok(Reply::Nil),
        Some(slot) => answer(context.keyspace.entry(slot)),
    }
}

const MEMORY: Spec = Spec::new(
    "memory",
    -2,
    Handler::KeysAndNode(memory, NodeCommand::Memory, NODE_PARTS),
)
.keys(KeyPositions::SECOND)
.flags(Flags::READ_KEYS)
.about(Categories::NONE, &[])
.subcommands(MEMORY_PARTS);

/// The subcommands of MEMORY that are not about one key.
const NODE_PARTS: &[&str] = &["doctor", "malloc-stats", "purge", "stats"];

fn memory(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let subcommand = arguments[1].to_ascii_lowercase();
    match (&*subcommand, &arguments[2..]) {
        (b"usage", [key, options @ ..]) => {
            check_samples(options)?;
            of_entry(context, key, |entry| Ok(Reply::count(entry.memory())))
        }
        (b"help", []) => Ok(Reply::help("MEMORY", MEMORY_HELP)),
        (b"usage", _) => Err(ErrorReply::wrong_arity("memory|usage")),
        (b"help", _) => Err(ErrorReply::wrong_arity("memory|help")),
        // A script asks.
        (b"doctor" | b"malloc-stats" | b"purge" | b"stats", _) => Err(NOT_ALLOWED),
        _ => Err(ErrorReply::unknown_subcommand("memory", arguments[1])),
    }
}

/// How many parts to look at is checked and of no use: what a value takes is known without.
fn check_samples(options: &[&[u8]]) -> Result<(), ErrorReply> {
    for option in options.chunks(2) {
        match option {
            [name, count] if is_option(name, "samples") => {
                if integer(count)? < 0 {
                    return Err(ErrorReply::SYNTAX);
                }
            }
            _ => return Err(ErrorReply::SYNTAX),
        }
    }
    Ok(())
}

/// As Redis says it with every policy that does not evict by frequency.
const NO_FREQUENCY: ErrorReply = ErrorReply::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// Scripts may call nothing that is the node's.
const NOT_ALLOWED: ErrorReply =
    ErrorReply::fixed("ERR This Redis command is not allowed from script");

const OBJECT_HELP: &[&str] = &[
    "ENCODING <key>",
    "    How the value is kept: embstr in the key's own entry, raw beside it; listpack for a hash",
    "    that is searched from front to back, hashtable for one with an index.",
    "FREQ <key>",
    "    Not tracked here.",
    "IDLETIME <key>",
    "    The seconds since the last write, about; 0 where the key was read since.",
    "REFCOUNT <key>",
    "    Always 1: no two keys share a value.",
];

const MEMORY_HELP: &[&str] = &[
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator: there is none.",
    "PURGE",
    "    Does nothing: memory is given back as it becomes free.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    The bytes that the key and its value take, the allocator's share estimated.",
];

const OBJECT_PARTS: &[Description] = &[
    of_object("encoding"),
    of_object("freq"),
    of_object("idletime"),
    of_object("refcount"),
    help(Categories::KEYSPACE),
];

const fn of_object(name: &'static str) -> Description {
    part(name, 3, Flags::READ)
        .of(Categories::KEYSPACE)
        .on_key(&[KeyAccess::LOOK])
}

const MEMORY_PARTS: &[Description] = &[
    part("doctor", 2, Flags::NONE),
    part("malloc-stats", 2, Flags::NONE),
    part("purge", 2, Flags::NONE),
    part("stats", 2, Flags::NONE),
    part("usage", -3, Flags::READ).on_key(&[KeyAccess::LOOK]),
    help(Categories::NONE),
];
