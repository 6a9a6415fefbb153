//! What a frame's payload says, as a line of words: read by the rules of the book's chapter, and, to compare,
//! by the program.

use quorlock_engine::control::{Ceiling, ControlRecord, Durability, Pending, Start};
use quorlock_engine::restart::Stop;
use quorlock_engine::{Change, Collection, Deadline, End, Mutation, Mutations, NewValue, NodeTime};

use super::reader::{Frame, number};

/// By the rules of the chapter.
pub(crate) fn by_the_book(frame: &Frame) -> String {
    let mut rest = Rest(&frame.payload);
    let text = match frame.kind {
        1 | 10 => rest.mutations(),
        11 => "end".to_owned(),
        kind => rest.record(kind),
    };
    assert!(rest.0.is_empty(), "nothing follows the last field: {text}");
    text
}

/// Takes fields off the front.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, length: usize) -> Vec<u8> {
        let (field, rest) = self.0.split_at(length);
        self.0 = rest;
        field.to_vec()
    }

    fn fixed(&mut self, bytes: usize) -> u64 {
        number(&self.take(bytes), 0, bytes)
    }

    fn record(&mut self, kind: u8) -> String {
        let version = self.fixed(1);
        let newest = match kind {
            2 | 9 => 3,
            4 => 2,
            _ => 1,
        };
        assert!((1..=newest).contains(&version));
        let is_second = version >= 2;
        match kind {
            2 => format!("start {}", self.start(version)),
            3 => "serving".to_owned(),
            4 => {
                let durability = self.durability();
                let (cap, complete) = if is_second {
                    (self.fixed(8), self.fixed(1) == 1)
                } else {
                    (0, false)
                };
                format!("mode {durability} cap {cap} complete {complete}")
            }
            5 => format!("promise {}", self.fixed(8)),
            7 => format!("shutdown {}", self.pending()),
            8 => "tick".to_owned(),
            9 => {
                let start = self.start(version);
                let serving = self.fixed(1) == 1;
                let weakest = self.durability();
                let promise = self.fixed(8);
                format!("control {start} serving {serving} weakest {weakest} promise {promise}")
            }
            12 => "init".to_owned(),
            13 => format!("lost {}", self.fixed(8)),
            14 => format!("wall {} at {}", self.fixed(8), self.fixed(8)),
            15 => format!("owed until {}", self.fixed(8)),
            16 => format!("ceiling{}", self.ceiling()),
            17 => format!("released {}", hexadecimal(&self.take(32))),
            18 => {
                let (incarnation, place) = (self.fixed(8), self.fixed(8));
                format!(
                    "adopted {incarnation} place {place} proven {}",
                    self.fixed(1) == 1
                )
            }
            other => panic!("kind {other} does not exist yet"),
        }
    }

    fn start(&mut self, version: u64) -> String {
        let incarnation = self.fixed(8);
        let boot = hexadecimal(&self.take(16));
        let place = self.fixed(8);
        let durability = self.durability();
        let clocks = [(); 4].map(|()| self.fixed(8));
        let pending = self.pending();
        let cap = if version >= 2 { self.fixed(8) } else { 0 };
        let ceiling = if version >= 3 {
            self.ceiling()
        } else {
            String::new()
        };
        format!(
            "incarnation {incarnation} boot {boot} place {place} {durability} clocks {clocks:?} {pending} cap {cap}{ceiling}"
        )
    }

    /// Nothing where no fence was taken, as in versions that had none.
    fn ceiling(&mut self) -> String {
        match (self.fixed(1), self.fixed(8)) {
            (1, 0) => String::new(),
            (1, value) => format!(" {value}"),
            (0, value) => format!(" at least {value}"),
            (other, _) => panic!("{other} is no ceiling"),
        }
    }

    fn durability(&mut self) -> &'static str {
        ["volatile", "no", "everysec", "always"][usize::try_from(self.fixed(1)).unwrap()]
    }

    fn pending(&mut self) -> String {
        let cause = self.fixed(1);
        if cause == 0 {
            return "owes nothing".to_owned();
        }
        assert!(cause <= 10);
        format!(
            "owes cause {cause} until {} length {}",
            self.fixed(8),
            self.fixed(8)
        )
    }

    fn mutations(&mut self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let version = self.fixed(1);
        assert!((1..=6).contains(&version), "the version of the mutations");
        let (mut all, mut place) = (Vec::new(), None);
        while !self.0.is_empty() {
            all.push(self.mutation(version >= 2, &mut place));
        }
        all.join("; ")
    }

    fn mutation(&mut self, has_far: bool, before: &mut Option<String>) -> String {
        let code = self.fixed(1);
        if code == 7 {
            return "flush all".to_owned();
        }
        let place = if code >= 128 {
            before.clone().expect("a mutation of a key before")
        } else {
            let database = self.fixed(1);
            assert!(database < 16);
            if code == 6 {
                return format!("flush {database}");
            }
            if code == 22 {
                return format!("swap {database} {}", self.fixed(1));
            }
            format!("{database} {}", self.bytes())
        };
        *before = Some(place.clone());
        match code & 127 {
            1 => {
                let deadline = self.deadline(has_far);
                format!("replace {place} {deadline} {}", self.value())
            }
            2 => format!("deadline {place} {}", self.deadline(has_far)),
            3 => format!("hash-set {place} {} {}", self.bytes(), self.bytes()),
            4 => format!("hash-delete {place} {}", self.bytes()),
            5 => format!("delete {place}"),
            8 => format!("list-push-left {place} {}", self.bytes()),
            9 => format!("list-push-right {place} {}", self.bytes()),
            10 => format!("list-pop-left {place} {}", self.variable()),
            11 => format!("list-pop-right {place} {}", self.variable()),
            12 => format!("list-rotate-left {place}"),
            13 => format!("list-rotate-right {place}"),
            14 => format!("list-set {place} {} {}", self.variable(), self.bytes()),
            15 => format!("list-insert {place} {} {}", self.variable(), self.bytes()),
            16 => format!("list-remove {place} {}", self.variable()),
            17 => format!("set-add {place} {}", self.bytes()),
            18 => format!("set-remove {place} {}", self.bytes()),
            19 => format!("score-set {place} {:016x} {}", self.fixed(8), self.bytes()),
            20 => format!("score-remove {place} {}", self.bytes()),
            23 => {
                let end = self.deadline(has_far);
                format!("holder-set {place} {end} {}", self.bytes())
            }
            24 => format!("holder-remove {place} {}", self.bytes()),
            21 => {
                let deadline = self.deadline(has_far);
                let absent = self.variable();
                format!("part {place} {deadline} after {absent} {}", self.value())
            }
            other => panic!("mutation {other} does not exist"),
        }
    }

    fn value(&mut self) -> String {
        match self.fixed(1) {
            1 => format!("string {}", self.bytes()),
            kind @ 2..=6 => {
                let count = self.variable();
                assert!(count > 0);
                let parts = (0..count).map(|_| match kind {
                    2 => format!("{} {}", self.bytes(), self.bytes()),
                    5 => format!("{:016x} {}", self.fixed(8), self.bytes()),
                    6 => format!("{} {}", self.deadline(true), self.bytes()),
                    _ => self.bytes(),
                });
                let parts = parts.collect::<Vec<_>>().join(" ");
                let name = ["hash", "list", "set", "zset", "quorlock-shared-lock"]
                    [usize::try_from(kind).unwrap() - 2];
                format!("{name} {parts}")
            }
            other => panic!("type {other} does not exist"),
        }
    }

    fn deadline(&mut self, has_far: bool) -> String {
        match self.fixed(8) {
            u64::MAX => "never".to_owned(),
            far if has_far && far >= 1 << 63 => format!("{} ms", far - (1 << 63)),
            far if far >= 1 << 63 => format!("{} ms", far.div_ceil(1_000_000)),
            nanoseconds => nanoseconds.to_string(),
        }
    }

    fn bytes(&mut self) -> String {
        let length = self.variable();
        quoted(&self.take(length))
    }

    fn variable(&mut self) -> usize {
        let mut number = 0;
        for group in 0..5 {
            let byte = usize::try_from(self.fixed(1)).unwrap();
            number |= (byte & 0x7f) << (7 * group);
            if byte & 0x80 == 0 {
                return number;
            }
        }
        panic!("at most five bytes");
    }
}

/// By the program.
pub(crate) fn by_the_program(kind: u8, payload: &[u8]) -> String {
    match kind {
        1 | 10 => {
            let all = Mutations::of(payload, 0).unwrap();
            let all: Vec<String> = all.map(|one| of_mutation(&one.unwrap())).collect();
            all.join("; ")
        }
        11 => "end".to_owned(),
        kind => of_record(&ControlRecord::decode(kind, payload).unwrap()),
    }
}

fn of_mutation(mutation: &Mutation<'_>) -> String {
    match mutation {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            let value = match value {
                NewValue::String(string) => format!("string {}", quoted(string)),
                NewValue::Collection(collection) => of_collection(collection),
            };
            format!(
                "replace {database} {} {} {value}",
                quoted(key),
                of_deadline(deadline.unless_never())
            )
        }
        Mutation::Part {
            database,
            key,
            part,
            absent,
            deadline,
        } => format!(
            "part {database} {} {} after {absent} {}",
            quoted(key),
            of_deadline(deadline.unless_never()),
            of_collection(part)
        ),
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => format!(
            "deadline {database} {} {}",
            quoted(key),
            of_deadline(deadline.unless_never())
        ),
        Mutation::Change {
            database,
            key,
            change,
        } => of_change(&format!("{database} {}", quoted(key)), change),
        Mutation::Delete { database, key } => format!("delete {database} {}", quoted(key)),
        Mutation::FlushDatabase { database } => format!("flush {database}"),
        Mutation::FlushAll => "flush all".to_owned(),
        Mutation::SwapDatabases { both: [one, other] } => format!("swap {one} {other}"),
    }
}

fn of_collection(collection: &Collection) -> String {
    let parts: Vec<String> = match collection {
        Collection::Hash(fields) => fields
            .iter()
            .map(|(field, value)| format!("{} {}", quoted(field), quoted(value)))
            .collect(),
        Collection::List(list) => list.iter().map(|element| quoted(element)).collect(),
        Collection::Set(members) => members.iter().map(|member| quoted(member)).collect(),
        Collection::SortedSet(set) => set
            .iter()
            .map(|(member, score)| format!("{:016x} {}", score.to_bits(), quoted(member)))
            .collect(),
        Collection::SharedLock(holders) => holders
            .iter()
            .map(|(token, end)| format!("{} {}", of_deadline(Some(end)), quoted(token)))
            .collect(),
    };
    format!("{} {}", collection.type_name(), parts.join(" "))
}

fn of_change(place: &str, change: &Change<'_>) -> String {
    let side = |end: End| {
        if end == End::Left { "left" } else { "right" }
    };
    match *change {
        Change::HashSet { field, value } => {
            format!("hash-set {place} {} {}", quoted(field), quoted(value))
        }
        Change::HashDelete { field } => format!("hash-delete {place} {}", quoted(field)),
        Change::ListPush { end, element } => {
            format!("list-push-{} {place} {}", side(end), quoted(element))
        }
        Change::ListPop { end, count } => format!("list-pop-{} {place} {count}", side(end)),
        Change::ListRotate { from } => format!("list-rotate-{} {place}", side(from)),
        Change::ListSet { index, element } => {
            format!("list-set {place} {index} {}", quoted(element))
        }
        Change::ListInsert { index, element } => {
            format!("list-insert {place} {index} {}", quoted(element))
        }
        Change::ListRemove { index } => format!("list-remove {place} {index}"),
        Change::SetAdd { member } => format!("set-add {place} {}", quoted(member)),
        Change::SetRemove { member } => format!("set-remove {place} {}", quoted(member)),
        Change::ScoreSet { member, score } => {
            format!(
                "score-set {place} {:016x} {}",
                score.to_bits(),
                quoted(member)
            )
        }
        Change::ScoreRemove { member } => format!("score-remove {place} {}", quoted(member)),
        Change::HolderSet { token, end } => {
            format!(
                "holder-set {place} {} {}",
                of_deadline(Some(end)),
                quoted(token)
            )
        }
        Change::HolderRemove { token } => format!("holder-remove {place} {}", quoted(token)),
    }
}

fn of_record(record: &ControlRecord) -> String {
    match record {
        ControlRecord::Init => "init".to_owned(),
        ControlRecord::Start(start) => format!("start {}", of_start(start)),
        ControlRecord::Serving => "serving".to_owned(),
        ControlRecord::Mode(mode) => {
            let (durability, cap) = (of_durability(mode.durability), mode.cap_ns);
            format!("mode {durability} cap {cap} complete {}", mode.is_complete)
        }
        ControlRecord::Promise(ttl_ns) => format!("promise {ttl_ns}"),
        ControlRecord::Shutdown(pending) => format!("shutdown {}", of_pending(pending.as_ref())),
        ControlRecord::Tick => "tick".to_owned(),
        ControlRecord::Control(control) => format!(
            "control {} serving {} weakest {} promise {}",
            of_start(&control.start),
            control.serving,
            of_durability(control.weakest),
            control.ttl_bound_ns
        ),
        ControlRecord::Lost(ttl_ns) => format!("lost {ttl_ns}"),
        ControlRecord::Wall { wall_us, boottime } => {
            format!("wall {wall_us} at {}", boottime.as_nanos())
        }
        ControlRecord::Owed(until) => format!("owed until {}", until.as_nanos()),
        ControlRecord::Ceiling(ceiling) => format!("ceiling{}", of_ceiling(*ceiling)),
        ControlRecord::Released(digest) => format!("released {}", hexadecimal(digest)),
        ControlRecord::Adopted(adoption) => format!(
            "adopted {} place {} proven {}",
            adoption.incarnation, adoption.fingerprint, adoption.is_proven
        ),
    }
}

fn of_start(start: &Start) -> String {
    let clocks = [
        start.base.as_nanos(),
        start.raw.as_nanos(),
        start.wall_us,
        start.boottime.as_nanos(),
    ];
    let boot = hexadecimal(&start.boot.0);
    format!(
        "incarnation {} boot {boot} place {} {} clocks {clocks:?} {} cap {}{}",
        start.incarnation,
        start.fingerprint,
        of_durability(start.durability),
        of_pending(start.pending.as_ref()),
        start.cap_ns,
        of_ceiling(start.ceiling)
    )
}

fn of_ceiling(ceiling: Ceiling) -> String {
    match ceiling {
        Ceiling::Known(0) => String::new(),
        Ceiling::Known(value) => format!(" {value}"),
        Ceiling::Uncertain(value) => format!(" at least {value}"),
    }
}

fn of_durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => "volatile",
        Durability::No => "no",
        Durability::Everysec => "everysec",
        Durability::Always => "always",
    }
}

fn of_pending(pending: Option<&Pending>) -> String {
    let Some(pending) = pending else {
        return "owes nothing".to_owned();
    };
    let causes = [
        Stop::Unclean,
        Stop::Clean,
        Stop::Complete,
        Stop::PowerLoss,
        Stop::Moved,
        Stop::Emptied,
        Stop::Unknown,
        Stop::NeverServed,
        Stop::NeverRan,
        Stop::Lost,
    ];
    let cause = causes
        .iter()
        .position(|cause| *cause == pending.cause)
        .unwrap()
        + 1;
    let (until, length) = (pending.until.as_nanos(), pending.length_ns);
    format!("owes cause {cause} until {until} length {length}")
}

fn of_deadline(deadline: Option<Deadline>) -> String {
    deadline.map_or("never".to_owned(), |deadline| match deadline.as_nanos() {
        far if far >= 1 << 63 => {
            let ms = deadline.left_ms(NodeTime::ZERO);
            format!("{ms} ms")
        }
        nanoseconds => nanoseconds.to_string(),
    })
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
