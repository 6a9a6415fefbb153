//! Logs with every kind of record and every kind of mutation, the same bytes each time they are written.
//!
//! Node time is a second per frame and random numbers are counted, so that two versions of the program
//! that write the same format write the same files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_engine::control::{
    Boot, Ceiling, Control, ControlRecord, Durability, Mode, Pending, Start, kind,
};
use quorlock_engine::restart::Stop;
use quorlock_engine::{
    BootTime, Caller, Command, Effects, Engine, EngineOptions, LogPosition, Moment, NodeTime,
    RawTime,
};
use quorlock_persistence::{
    DirectoryEntry, Disk, File, FrameBatch, FrameKind, Log, LogIdentity, LogOptions, MemoryDisk,
    Recovery, Repair,
};

/// Segments of a few KiB: the same format as a node's, and files that can be kept.
pub(crate) fn options() -> LogOptions {
    LogOptions {
        first_segment_bytes: 12 << 10,
        segment_bytes: 8 << 10,
        frame_bytes_max: 2000,
        reserve_bytes: 256,
        allows_direct: true,
        writes_direct: false,
        expected_node: None,
    }
}

/// The logs that are kept of a version.
pub(crate) fn logs(version: u32) -> &'static [&'static str] {
    match version {
        // A repair could not be told of.
        1 => &["plain", "compacted"],
        _ => &[
            "plain",
            "compacted",
            "repaired",
            "unlogged",
            "collections",
            "pieces",
            "databases",
            "shared",
            "compacted-upwards",
            "pieces-upwards",
        ],
    }
}

/// Logs whose checkpoints were written from the first slot to the last, as none is any more. They are only read.
pub(crate) const UPWARDS: &str = "-upwards";

/// Writes three incarnations: one that was created, one that served (and was compacted, if that is the
/// log's name), one that had to wait and was stopped in its delay. Or it is repaired afterwards.
pub(crate) fn write(name: &str) -> MemoryDisk {
    let memory = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(Counted {
        disk: memory.clone(),
        numbers: AtomicU64::new(0),
    });
    let mut engine = Engine::new(EngineOptions::default());
    let mut writing = Writing::open(&disk, 0);
    writing.record(&ControlRecord::Init);
    writing.sync();

    writing = Writing::open(&disk, 1);
    writing.record(&ControlRecord::Start(start(1, None)));
    writing.record(&ControlRecord::Promise(0));
    writing.record(&ControlRecord::Serving);
    writing.sync();
    writing.record(&ControlRecord::Promise(30_000_000_000));
    for line in COMMANDS {
        writing.command(&mut engine, line);
    }
    writing.record(&ControlRecord::Mode(Mode {
        durability: Durability::Always,
        cap_ns: 45_000_000_000,
        is_complete: true,
    }));
    writing.record(&ControlRecord::Tick);
    writing.sync();
    let lines: &[&str] = match name {
        "collections" => &COLLECTIONS,
        "shared" => &SHARED_LOCKS,
        _ => &[],
    };
    for line in lines {
        writing.command(&mut engine, line);
    }
    if name == "compacted" {
        writing.checkpoint(&mut engine);
    }
    if name == "databases" {
        writing.swaps(&mut engine);
    }
    if name == "pieces" {
        for line in COLLECTIONS.iter().chain(&LARGER_COLLECTIONS) {
            writing.command(&mut engine, line);
        }
        writing.checkpoint_of_pieces(&mut engine);
    }
    writing.command(&mut engine, "0 set after:checkpoint 1");
    writing.record(&ControlRecord::Shutdown(None));
    writing.sync();

    writing = Writing::open(&disk, 2);
    let pending = Some(Pending {
        until: NodeTime::from_nanos(99_000_000_000),
        length_ns: 30_610_000_000,
        cause: Stop::Moved,
    });
    writing.record(&ControlRecord::Start(start(2, pending)));
    writing.record(&ControlRecord::Promise(0));
    writing.record(&ControlRecord::Shutdown(pending));
    writing.record(&ControlRecord::Lost(61_000_000_000));
    writing.sync();
    match name {
        "repaired" => repair(&memory, disk),
        "unlogged" => run_without_log(&disk),
        _ => {}
    }
    memory
}

/// A run that logs no keys, and serves with those that it has recovered.
fn run_without_log(disk: &Arc<dyn Disk>) {
    let mut writing = Writing::open(disk, 3);
    writing.record(&ControlRecord::Start(Start {
        durability: Durability::Volatile,
        ..start(3, None)
    }));
    writing.record(&ControlRecord::Promise(0));
    writing.record(&ControlRecord::Serving);
    writing.record(&ControlRecord::Owed(NodeTime::from_nanos(OWED_UNTIL_NS)));
    writing.sync();
}

/// Loses a frame that was durable, and has the log cut there.
fn repair(memory: &MemoryDisk, disk: Arc<dyn Disk>) {
    memory.edit("segment-0000000002.segment", |bytes| {
        let mut begin = 4096;
        for _ in 0..12 {
            let length = u32::from_le_bytes(bytes[begin + 8..begin + 12].try_into().unwrap());
            begin = (begin + 40 + usize::try_from(length).unwrap()).next_multiple_of(8);
        }
        bytes[begin..begin + 40].fill(0);
    });
    let repair = Repair::plan(disk, &options()).unwrap();
    let identity = LogIdentity {
        incarnation: 3,
        ..repair.newest_identity().unwrap()
    };
    let mut payload = Vec::new();
    ControlRecord::Lost(61_000_000_000).encode(&mut payload);
    let time_ns = repair.newest_node_time_ns();
    let kind = FrameKind::new(kind::LOST);
    repair.commit(identity, kind, time_ns, &payload).unwrap();
}

/// When the last key of the log without keys ends.
pub(crate) const OWED_UNTIL_NS: u64 = 400_000_000_000;

/// One per kind of mutation at least: the database, and the command in it.
const COMMANDS: [&str; 16] = [
    "0 set plain value",
    "0 set lock:a 7f3c nx px 30000",
    "0 set lock:a 91aa xx get",
    "9 set other:database x px 30000",
    "0 pexpire lock:a 20000",
    "0 persist lock:a",
    "0 hset hash one 1 two 2 three 3",
    "0 hset hash two 22",
    "0 hdel hash one",
    "0 pexpire hash 10000",
    "0 del plain nothing lock:a",
    "3 set gone 1",
    "3 flushdb",
    "0 flushall",
    "0 set empty \"\"",
    "15 hset last:database field value",
];

/// Whole lists, sets and sorted sets, and one per kind of change of them at least.
const COLLECTIONS: [&str; 27] = [
    "0 rpush list a b c d e f",
    "0 rpush list g h",
    "0 lpush list x y",
    "0 pexpire list 30000",
    "0 lpop list",
    "0 rpop list 2",
    "0 ltrim list 1 4",
    "0 lmove list list left right",
    "0 lmove list list right left",
    "0 lset list 0 other",
    "0 linsert list after other inserted",
    "0 lrem list 0 c",
    "0 rpush waiting 1 2 3",
    "0 lmove list waiting left right",
    "2 sadd members a b c",
    "2 sadd members d e",
    "2 srem members a d nothing",
    "2 smove members others b",
    "15 zadd scores 1 one 2 two -inf least",
    "15 zadd scores 2.5 two +inf most",
    "15 zincrby scores 0.1 one",
    "15 zrem scores least",
    "15 zpopmin scores",
    "0 eval redis.call('rpush',KEYS[1],1,2)redis.call('sadd',KEYS[2],3,4)redis.call('sadd',KEYS[2],5,6) 2 waiting numbers",
    "0 copy list copied",
    "2 sadd gone only",
    "2 srem gone only",
];

/// Locks that are held shared, and changes of their holders.
const SHARED_LOCKS: [&str; 8] = [
    "0 lock.acquire shared one 20000 shared",
    "0 lock.acquire shared two 30000 shared owner me",
    "0 lock.extend shared one 40000",
    "0 lock.acquire shared three 10000 shared",
    "0 lock.release shared one",
    "0 lock.acquire shared four 9000 shared",
    "0 copy shared shared:copied",
    "3 lock.acquire alone one 9000 shared",
];

/// Databases that are swapped, by a command and within a script.
const SWAPS: [&str; 5] = [
    "0 set here 1",
    "1 set there 2 px 30000",
    "0 swapdb 0 1",
    "0 set here 3",
    "0 eval redis.call('swapdb',1,15)redis.call('set',KEYS[1],4) 1 both",
];

/// What makes several pieces of some of them.
const LARGER_COLLECTIONS: [&str; 6] = [
    "0 persist list",
    "0 persist copied",
    "15 hset last:database one 1 two 2 three 3",
    "0 rpush list m n o p q r",
    "2 sadd members f g h",
    "15 zadd scores 4 four 5 five",
];

/// What happens to those collections while a checkpoint takes them in pieces.
const BETWEEN_PIECES: [&str; 14] = [
    "15 hset last:database other value",
    "0 lmove list list left right",
    "0 lpush list first",
    "0 lmove list list left right",
    "0 lmove list list right left",
    "0 rpop list",
    "0 lset list 0 changed",
    "0 linsert list before b between",
    "0 rpush waiting last",
    "0 pexpire copied 40000",
    "2 sadd members new",
    "2 srem members e",
    "15 zadd scores 9 new",
    "15 zincrby scores 1 two",
];

fn start(incarnation: u64, pending: Option<Pending>) -> Start {
    Start {
        incarnation,
        boot: Boot([0xb0; 16]),
        fingerprint: 0x0123_4567_89ab_cdef,
        durability: Durability::Everysec,
        base: NodeTime::from_nanos(5_000_000_000),
        raw: RawTime::from_nanos(6_000_000_000),
        wall_us: 1_700_000_000_000_000,
        boottime: BootTime::from_nanos(7_000_000_000),
        pending,
        cap_ns: 60_000_000_000,
        ceiling: Ceiling::NONE,
    }
}

struct Writing {
    log: Log,
}

impl Writing {
    fn open(disk: &Arc<dyn Disk>, incarnation: u64) -> Self {
        let identity = LogIdentity {
            node_id: *b"a node for fixtures.",
            boot_id: [0xb0; 16],
            incarnation,
        };
        let recovery = Recovery::read(Arc::clone(disk), &options()).unwrap();
        Self {
            log: recovery.into_log(identity).unwrap(),
        }
    }

    fn append(&mut self, kind: FrameKind, payload: &[u8]) {
        let time_ns = self.log.appender.next_position().get() * 1_000_000_000;
        self.log.appender.append(kind, time_ns, payload);
    }

    fn record(&mut self, record: &ControlRecord) {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        self.append(FrameKind::new(record.kind()), &payload);
    }

    fn command(&mut self, engine: &mut Engine, line: &str) {
        let mut words = line.split(' ');
        let caller = Caller {
            database: words.next().unwrap().parse().unwrap(),
            ..Caller::default()
        };
        let arguments: Vec<&[u8]> = words
            .map(|word| word.trim_matches('"').as_bytes())
            .collect();
        let position = LogPosition::from_raw(self.log.appender.next_position().get());
        let now = Moment {
            node: NodeTime::from_nanos(position.get() * 1_000_000_000),
            wall_us: 1_700_000_000_000_000,
        };
        let mut effects = Effects::default();
        effects.begin(position);
        let command = Command::parse(&arguments).unwrap();
        engine.execute(now, &caller, &command, &mut effects);
        assert!(
            !effects.journal.is_empty(),
            "'{line}' must change something"
        );
        self.append(FrameKind::new(kind::GROUP), &effects.journal);
    }

    fn begin_checkpoint(&mut self) {
        let control = Control {
            start: start(1, None),
            serving: true,
            weakest: Durability::Everysec,
            ttl_bound_ns: 30_000_000_000,
        };
        let mut payload = Vec::new();
        ControlRecord::Control(control).encode(&mut payload);
        self.append(FrameKind::checkpoint_begin(kind::CONTROL), &payload);
        self.sync();
    }

    /// Large enough to go on in a second segment.
    fn checkpoint(&mut self, engine: &mut Engine) {
        self.begin_checkpoint();
        let (mut cursor, mut payload) = (Some(Default::default()), Vec::new());
        while let Some(from) = cursor {
            cursor = engine.snapshot(from, 20, &mut payload);
            self.append(FrameKind::new(kind::SNAPSHOT), &payload);
        }
        let mut large = Engine::new(EngineOptions::default());
        for number in 0..5 {
            let value = "v".repeat(1500);
            let mut effects = Effects::default();
            effects.begin(LogPosition::from_raw(1));
            let key = format!("large:{number}");
            let words: [&[u8]; 3] = [b"set", key.as_bytes(), value.as_bytes()];
            let command = Command::parse(&words).unwrap();
            large.execute(
                Moment::default(),
                &Caller::default(),
                &command,
                &mut effects,
            );
            self.append(FrameKind::new(kind::SNAPSHOT), &effects.journal);
        }
        self.append(FrameKind::checkpoint_end(kind::END), &[]);
        self.sync();
    }

    /// Before a checkpoint and behind it.
    fn swaps(&mut self, engine: &mut Engine) {
        for line in SWAPS {
            self.command(engine, line);
        }
        self.checkpoint(engine);
        self.command(engine, "0 swapdb 0 15");
    }

    /// Collections are taken an element at a time, while they change.
    fn checkpoint_of_pieces(&mut self, engine: &mut Engine) {
        self.begin_checkpoint();
        let (mut cursor, mut payload) = (Some(Default::default()), Vec::new());
        let mut lines = BETWEEN_PIECES.iter();
        while let Some(from) = cursor {
            cursor = engine.snapshot(from, 6, &mut payload);
            self.append(FrameKind::new(kind::SNAPSHOT), &payload);
            if let Some(line) = lines.next() {
                self.command(engine, line);
            }
        }
        assert!(
            lines.next().is_none(),
            "the pieces are fewer than the lines"
        );
        self.append(FrameKind::checkpoint_end(kind::END), &[]);
        self.sync();
    }

    fn sync(&mut self) {
        let mut batch = self.log.appender.take(FrameBatch::default());
        self.log.writer.write(&mut batch).unwrap();
        self.log.writer.sync().unwrap();
    }
}

/// A disk whose random numbers are counted. Nothing is prepared ahead or removed: the old segments stay.
#[derive(Debug)]
struct Counted {
    disk: MemoryDisk,
    numbers: AtomicU64,
}

impl Disk for Counted {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn random(&self) -> io::Result<u64> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}
