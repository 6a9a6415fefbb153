//! Requests of clients: every kind of mutation, and reads that reveal them.

use super::random::Random;
use super::workload::Mode;

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

    /// Whether it is a script: one that runs out of room keeps what it did before.
    pub(crate) fn is_script(&self) -> bool {
        self.words[0] == b"EVAL"
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
        let others: [&[u8]; 3] = [b"SELECT", b"CONFIG", b"WAITAOF"];
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

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

const TTLS_MS: [u64; 7] = [80, 900, 5_000, 20_000, 45_000, 60_000, 85_000];

/// Longer than any restart delay waits for.
const BEYOND_CAP_MS: &str = "200000";

pub(crate) const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

pub(crate) const REENTER: &str = "redis.call('hincrby',KEYS[1],ARGV[1],1) \
                       redis.call('pexpire',KEYS[1],ARGV[2]) return nil";

pub(crate) const TWO: &str = "redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) redis.call('del',KEYS[2]) \
                   redis.call('set','k9',ARGV[1],'px',ARGV[2]) return 1";
