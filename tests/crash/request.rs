//! Requests of clients: every kind of mutation, and reads that reveal them.

use super::broadcast::PREFIXES;
use super::model::{CHANNEL, EVENTS};
use super::workload::Mode;
use quorlock_simulation::Random;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) reads: Reads,
    /// Whose it is.
    pub(crate) connection: usize,
}

/// What a reply that changes nothing tells its client about earlier changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nothing: a bare refusal.
    Nothing,
    /// The state of this key.
    Key(Vec<u8>),
    /// The state of all keys of all databases, or so it counts here.
    Everything,
}

impl Request {
    pub(crate) fn new(words: &[&str], reads: Reads) -> Request {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Request {
            words,
            reads,
            connection: 0,
        }
    }

    /// A request of any kind, of any connection.
    pub(crate) fn any(random: &mut Random) -> Request {
        let connection = Request::any_connection(random);
        let request = match random.chance(1, 12) {
            true => Request::new(&["WAITAOF", "1", "0", "0"], Reads::Nothing),
            false => Request::on_keys(random),
        };
        Request {
            connection,
            ..request
        }
    }

    /// A write that takes a good part of the largest frame.
    pub(crate) fn large(random: &mut Random) -> Request {
        // Below every cap, where one is required.
        let (key, ttl) = (random.pick(&KEYS), random.pick(&TTLS_MS[..3]).to_string());
        let value = "x".repeat(Request::LARGE_BYTES);
        Request::new(&["SET", key, &value, "PX", &ttl], Reads::Nothing)
    }

    /// The value of a large write.
    pub(crate) const LARGE_BYTES: usize = 2_400;

    /// One of the clients.
    pub(crate) fn any_connection(random: &mut Random) -> usize {
        usize::try_from(random.below(CONNECTIONS as u64)).unwrap_or(0)
    }

    fn on_keys(random: &mut Random) -> Request {
        let (key, other) = (random.pick(&KEYS), random.pick(&KEYS));
        let hash = random.pick(&["h0", "h1"]);
        let token = format!("t{}", random.below(1 << 40));
        let ttl = random.pick(&TTLS_MS).to_string();
        let of = |key: &str| Reads::Key(key.as_bytes().to_vec());
        match random.below(34) {
            0..=7 => Request::new(&["SET", key, &token, "NX", "PX", &ttl], Reads::Nothing),
            8 => Request::new(&["SET", key, &token, "PX", &ttl], Reads::Nothing),
            9 => Request::new(&["SET", key, &token], Reads::Nothing),
            10 => Request::new(&["SET", key, &token, "PX", BEYOND_CAP_MS], Reads::Nothing),
            11..=12 => Request::new(&["DEL", key], of(key)),
            13 => Request::new(&["DEL", key, other, hash], Reads::Nothing),
            14..=15 => Request::new(&["PEXPIRE", key, &ttl], of(key)),
            16 => Request::new(&["PEXPIRE", hash, &ttl], of(hash)),
            17 => Request::new(&["PERSIST", key], of(key)),
            18 => Request::new(&["HSET", hash, "f1", &token], Reads::Nothing),
            19 => Request::new(&["HSET", hash, "f1", &token, "f2", "x"], Reads::Nothing),
            20 => Request::new(&["HDEL", hash, random.pick(&["f1", "f2"])], of(hash)),
            21 => Request::new(&["HINCRBY", hash, "n", "1"], Reads::Nothing),
            22 => Request::new(&["INCR", "counter"], Reads::Nothing),
            23 => Request::new(&["EVAL", COMPARE_AND_DELETE, "1", key, &token], of(key)),
            24..=25 => Request::new(&["EVAL", REENTER, "1", hash, &token, &ttl], Reads::Nothing),
            26 => Request::new(
                &["EVAL", TWO, "2", key, other, &token, &ttl],
                Reads::Nothing,
            ),
            27 => match random.below(4) {
                0 => Request::new(&["FLUSHALL"], Reads::Nothing),
                1 => Request::new(&["FLUSHDB"], Reads::Nothing),
                _ => Request::new(&["SET", key, &"x".repeat(700), "PX", &ttl], Reads::Nothing),
            },
            28..=29 => Request::new(&["GET", key], of(key)),
            30 => Request::new(&["PTTL", key], of(key)),
            31 => Request::new(&["HGETALL", hash], of(hash)),
            32 => Request::new(&["DBSIZE"], Reads::Everything),
            _ => Request::new(&["KEYS", "*"], Reads::Everything),
        }
    }

    /// A request on a list, a set or a sorted set, of any connection.
    pub(crate) fn on_elements(random: &mut Random) -> Request {
        let connection = Request::any_connection(random);
        let request = match random.below(10) {
            0..=4 => Request::on_lists(random),
            5..=6 => Request::on_sets(random),
            7..=8 => Request::on_sorted_sets(random),
            _ => Request::on_life_of_elements(random),
        };
        Request {
            connection,
            ..request
        }
    }

    fn on_lists(random: &mut Random) -> Request {
        let (key, other) = (random.pick(&LISTS), random.pick(&LISTS));
        let (element, second) = (random.pick(&ELEMENTS), random.pick(&ELEMENTS));
        let (end, other_end) = (random.pick(&ENDS), random.pick(&ENDS));
        let of = || Reads::Key(key.as_bytes().to_vec());
        match random.below(16) {
            0..=1 => Request::new(&["RPUSH", key, element], Reads::Nothing),
            2 => Request::new(&["RPUSH", key, element, second, "e"], Reads::Nothing),
            3..=4 => Request::new(&["LPUSH", key, element, second], Reads::Nothing),
            5 => Request::new(&["LPOP", key], of()),
            6 => Request::new(&["RPOP", key, "2"], of()),
            7..=8 => Request::new(&["LMOVE", key, other, end, other_end], of()),
            9 => Request::new(&["LMOVE", key, key, "RIGHT", "LEFT"], of()),
            10 => Request::new(&["LSET", key, "1", element], of()),
            11 => Request::new(&["LINSERT", key, "BEFORE", element, second], of()),
            12 => Request::new(&["LINSERT", key, "AFTER", element, second], of()),
            13 => Request::new(&["LREM", key, random.pick(&["0", "1"]), element], of()),
            14 => Request::new(&["LTRIM", key, random.pick(&["0", "1"]), "3"], of()),
            _ => Request::new(&["LRANGE", key, "0", "-1"], of()),
        }
    }

    fn on_sets(random: &mut Random) -> Request {
        let (key, other) = (random.pick(&["s0", "s1"]), random.pick(&["s0", "s1"]));
        let (member, second) = (random.pick(&ELEMENTS), random.pick(&ELEMENTS));
        let of = || Reads::Key(key.as_bytes().to_vec());
        match random.below(8) {
            0..=1 => Request::new(&["SADD", key, member], of()),
            2 => Request::new(&["SADD", key, member, second, "e"], of()),
            3 => Request::new(&["SREM", key, member], of()),
            4 => Request::new(&["SREM", key, member, second], of()),
            5..=6 => Request::new(&["SMOVE", key, other, member], of()),
            _ => Request::new(&["SMEMBERS", key], of()),
        }
    }

    fn on_sorted_sets(random: &mut Random) -> Request {
        let (key, member) = (random.pick(&["z0", "z1"]), random.pick(&ELEMENTS));
        let score = random.below(5).to_string();
        let of = || Reads::Key(key.as_bytes().to_vec());
        match random.below(9) {
            0..=3 => Request::new(&["ZADD", key, &score, member], of()),
            4 => Request::new(&["ZINCRBY", key, "2", member], Reads::Nothing),
            5 => Request::new(&["ZREM", key, member], of()),
            6 => Request::new(&["ZPOPMIN", key], of()),
            7 => Request::new(&["ZREMRANGEBYSCORE", key, "0", "1"], of()),
            _ => Request::new(&["ZRANGE", key, "0", "-1"], of()),
        }
    }

    /// Most get a TTL some time: only then a delay has to cover them.
    fn on_life_of_elements(random: &mut Random) -> Request {
        let key = random.pick(&["l0", "l1", "s0", "s1", "z0", "z1"]);
        let ttl = random.pick(&TTLS_MS[2..]).to_string();
        let of = || Reads::Key(key.as_bytes().to_vec());
        match random.below(8) {
            0..=5 => Request::new(&["PEXPIRE", key, &ttl], of()),
            6 => Request::new(&["PERSIST", key], of()),
            _ => Request::new(&["DEL", key], of()),
        }
    }

    /// A request of one who reads, of any connection. No writer wants these locks: for how long one that was refused keeps readers out is
    /// known to the node's memory alone.
    pub(crate) fn of_reader(random: &mut Random) -> Request {
        let connection = Request::any_connection(random);
        let key = random.pick(&["shared0", "shared1"]);
        let token = random.pick(&["r0", "r1", "r2", "r3"]);
        let ttl = random.pick(&TTLS_MS).to_string();
        let words: &[&str] = match random.below(16) {
            0..=6 => &["LOCK.ACQUIRE", key, token, &ttl, "SHARED"],
            7..=10 => &["LOCK.EXTEND", key, token, &ttl],
            11..=12 => &["LOCK.RELEASE", key, token],
            13 => &["LOCK.FORCE-RELEASE", key, token],
            14 => &["DEL", key],
            _ => &["PTTL", key],
        };
        Request {
            connection,
            ..Request::new(words, Reads::Key(key.as_bytes().to_vec()))
        }
    }

    /// Requests that make up a transaction, MULTI and EXEC among them.
    pub(crate) fn transaction(random: &mut Random) -> Vec<Request> {
        let connection = Request::any_connection(random);
        let count = 2 + random.below(4);
        let queued = (0..count).map(|_| Request::in_transaction(random));
        let queued: Vec<Request> = queued.collect();
        let marks = ["MULTI", "EXEC"].map(|name| Request::new(&[name], Reads::Nothing));
        let [multi, exec] = marks;
        let mut all = vec![multi];
        all.extend(queued);
        all.push(exec);
        all.iter_mut()
            .for_each(|request| request.connection = connection);
        all
    }

    fn in_transaction(random: &mut Random) -> Request {
        let (key, hash) = (random.pick(&KEYS), random.pick(&["h0", "h1"]));
        let token = format!("t{}", random.below(1 << 40));
        let ttl = random.pick(&TTLS_MS).to_string();
        let (list, other) = (random.pick(&LISTS), random.pick(&LISTS));
        let (element, second) = (random.pick(&ELEMENTS), random.pick(&ELEMENTS));
        let score = random.below(5).to_string();
        let words: &[&str] = match random.below(14) {
            0..=3 => &["SET", key, &token, "PX", &ttl],
            4 => &["SET", key, &"y".repeat(300), "PX", &ttl],
            5 => &["DEL", key],
            6 => &["HSET", hash, "f1", &token],
            7 => &["PEXPIRE", hash, &ttl],
            8 => &["INCR", "counter"],
            9..=10 => &["RPUSH", list, element, second, "e"],
            11 => &["LMOVE", list, other, "LEFT", "RIGHT"],
            12 => &["SADD", "s0", element, second, "e"],
            _ => &["ZADD", "z0", &score, element],
        };
        Request::new(words, Reads::Nothing)
    }

    /// Whether it is a script: one that runs out of room keeps what it did before.
    pub(crate) fn is_script(&self) -> bool {
        self.words[0] == b"EVAL"
    }

    pub(crate) fn is_multi(&self) -> bool {
        self.words[0] == b"MULTI"
    }

    pub(crate) fn is_exec(&self) -> bool {
        self.words[0] == b"EXEC"
    }

    /// What a connection of this number says first: those behind the others listen, track and wait.
    pub(crate) fn introductions(connection: usize) -> Vec<Request> {
        let [one, two, three] = PREFIXES;
        let words: &[&[&str]] = match connection {
            LISTENER => &[
                &["HELLO", "3"],
                &["CONFIG", "SET", "notify-keyspace-events", "K$lshzg"],
                &["PSUBSCRIBE", EVENTS],
                &["SUBSCRIBE", CHANNEL],
            ],
            TRACKER => &[&["HELLO", "3"], &["CLIENT", "TRACKING", "ON"]],
            PREFIX_TRACKER => &[
                &["HELLO", "3"],
                &[
                    "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", one, "PREFIX", two, "PREFIX",
                    three,
                ],
            ],
            _ => &[],
        };
        let requests = words.iter().map(|words| Request {
            connection,
            ..Request::new(words, Reads::Nothing)
        });
        requests.collect()
    }

    /// Requests beside the others where clients listen: they read, wait, and make something to be told of.
    pub(crate) fn beside_listeners(random: &mut Random) -> Vec<Request> {
        let mut request = match random.below(8) {
            0..=1 => Request::to_track(random),
            2..=3 => Request::to_wait(random),
            4 => Request::publishing(random),
            _ => Request::for_who_waits(random),
        };
        if request.connection == 0 {
            request.connection = Request::any_connection(random);
        }
        vec![request]
    }

    /// Its reply is the same with RESP3.
    fn to_track(random: &mut Random) -> Request {
        let key = random.pick(&["k0", "k1", "k2", "k3", "k0", "k1", "l0", "l1", "z0", "z1"]);
        let words: &[&str] = match key.as_bytes()[0] {
            b'k' => &["GET", key],
            b'l' => &["LRANGE", key, "0", "-1"],
            _ => &["ZRANGE", key, "0", "-1"],
        };
        Request {
            connection: random.pick(&[TRACKER, TRACKER, PREFIX_TRACKER]),
            ..Request::new(words, Reads::Key(key.as_bytes().to_vec()))
        }
    }

    fn to_wait(random: &mut Random) -> Request {
        let words: &[&str] = match random.below(6) {
            0..=1 => &["BLPOP", "q0", "q1", "0"],
            2 => &["BRPOP", "q1", "0"],
            3 => &["BLMOVE", "q0", "l1", "LEFT", "RIGHT", "0"],
            4 => &["BLPOP", "q0", "0"],
            _ => &["BZPOPMIN", "q2", "0"],
        };
        Request {
            connection: WAITER,
            ..Request::new(words, Reads::Nothing)
        }
    }

    /// Keys of their own, so that they are mostly empty.
    fn for_who_waits(random: &mut Random) -> Request {
        let (key, element) = (random.pick(&["q0", "q1"]), random.pick(&ELEMENTS));
        let ttl = random.pick(&TTLS_MS[2..]).to_string();
        let words: &[&str] = match random.below(8) {
            0..=3 => &["RPUSH", key, element],
            4 => &["LPUSH", key, element, "e"],
            5 => &["ZADD", "q2", "1", element],
            _ => &["PEXPIRE", key, &ttl],
        };
        Request::new(words, Reads::Nothing)
    }

    fn publishing(random: &mut Random) -> Request {
        let (key, ttl) = (random.pick(&KEYS), random.pick(&TTLS_MS).to_string());
        let token = format!("t{}", random.below(1 << 40));
        Request::new(&["EVAL", PUBLISH, "1", key, &token, &ttl], Reads::Nothing)
    }

    /// Whether its client may wait for an element.
    pub(crate) fn is_for_element(&self) -> bool {
        let names: [&[u8]; 4] = [b"BLPOP", b"BRPOP", b"BLMOVE", b"BZPOPMIN"];
        names.contains(&self.words[0].as_slice())
    }

    /// Whether it changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        let names: [&[u8]; 8] = [
            b"GET",
            b"PTTL",
            b"HGETALL",
            b"DBSIZE",
            b"KEYS",
            b"LRANGE",
            b"SMEMBERS",
            b"ZRANGE",
        ];
        names.contains(&self.words[0].as_slice())
    }

    pub(crate) fn is_flush(&self) -> bool {
        self.words[0].starts_with(b"FLUSH")
    }

    pub(crate) fn asks_for_events(&self) -> bool {
        self.sets("notify-keyspace-events").is_some()
    }

    pub(crate) fn subscribes_to_events(&self) -> bool {
        self.words[0] == b"PSUBSCRIBE"
    }

    pub(crate) fn subscribes(&self) -> bool {
        self.words[0] == b"SUBSCRIBE"
    }

    pub(crate) fn starts_tracking(&self) -> bool {
        self.words[0] == b"CLIENT"
    }

    pub(crate) fn starts_broadcasts(&self) -> bool {
        self.starts_tracking() && self.words.iter().any(|word| word == b"BCAST")
    }

    /// Whether it asks that everything this connection knows of is synced.
    pub(crate) fn is_for_sync(&self) -> bool {
        self.words[0] == b"WAITAOF"
    }

    /// The database that it goes over to.
    pub(crate) fn selects(&self) -> Option<u8> {
        match self.words.as_slice() {
            [name, number] if name == b"SELECT" => text_of(number).parse().ok(),
            _ => None,
        }
    }

    /// The mode that it sets.
    pub(crate) fn sets_mode(&self) -> Option<Mode> {
        let name = self.sets("appendfsync")?;
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The cap that it sets, in nanoseconds.
    pub(crate) fn sets_cap(&self) -> Option<u64> {
        let seconds: u64 = self
            .sets("restart-delay-max")?
            .strip_suffix('s')?
            .parse()
            .ok()?;
        Some(seconds * 1_000_000_000)
    }

    fn sets(&self, directive: &str) -> Option<String> {
        match self.words.as_slice() {
            [config, _, name, value] if config == b"CONFIG" && text_of(name) == directive => {
                Some(text_of(value))
            }
            _ => None,
        }
    }

    /// Whether it reads or changes keys.
    pub(crate) fn is_on_keys(&self) -> bool {
        let others: [&[u8]; 7] = [
            b"SELECT",
            b"CONFIG",
            b"WAITAOF",
            b"HELLO",
            b"CLIENT",
            b"SUBSCRIBE",
            b"PSUBSCRIBE",
        ];
        !others.contains(&self.words[0].as_slice())
    }

    /// The request as people write it, long words cut.
    pub(crate) fn text(&self) -> String {
        let word = |word: &Vec<u8>| {
            let mut text = String::from_utf8_lossy(word).into_owned();
            if text.len() > 24 {
                text.truncate(21);
                text.push_str("...");
            }
            text
        };
        let words: Vec<String> = self.words.iter().map(word).collect();
        format!("{}> {}", self.connection, words.join(" "))
    }
}

fn text_of(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// So many clients at once.
pub(crate) const CONNECTIONS: usize = 3;

/// So many more, where clients listen: one to events and messages, one to changes of what it reads, one waits for
/// elements, and one listens to changes of all keys with its prefixes.
pub(crate) const LISTENERS: usize = 4;
const LISTENER: usize = CONNECTIONS;
const TRACKER: usize = CONNECTIONS + 1;
const WAITER: usize = CONNECTIONS + 2;
const PREFIX_TRACKER: usize = CONNECTIONS + 3;

const LISTS: [&str; 2] = ["l0", "l1"];

const ELEMENTS: [&str; 4] = ["a", "b", "c", "d"];

const ENDS: [&str; 2] = ["LEFT", "RIGHT"];

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

const TTLS_MS: [u64; 7] = [80, 900, 5_000, 20_000, 45_000, 60_000, 85_000];

/// Longer than any restart delay waits for.
const BEYOND_CAP_MS: &str = "200000";

pub(crate) const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

pub(crate) const REENTER: &str = "redis.call('hincrby',KEYS[1],ARGV[1],1) \
                       redis.call('pexpire',KEYS[1],ARGV[2]) return nil";

pub(crate) const PUBLISH: &str = "redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) \
                                  redis.call('publish','news',ARGV[1]) return 1";

pub(crate) const TWO: &str = "redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) redis.call('del',KEYS[2]) \
                   redis.call('set','k9',ARGV[1],'px',ARGV[2]) return 1";
