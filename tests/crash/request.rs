//! Requests of clients: every kind of mutation, and reads that reveal them.

use super::random::Random;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) reads: Reads,
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
        Request { words, reads }
    }

    /// A request of any kind.
    pub(crate) fn any(random: &mut Random) -> Request {
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

    /// The longest grant that a delay covers.
    pub(crate) fn longest() -> Request {
        Request::new(
            &["SET", "longest", "token", "NX", "PX", "60000"],
            Reads::Nothing,
        )
    }

    /// A grant that comes after everything else.
    pub(crate) fn late() -> Request {
        Request::new(&["SET", "late", "token", "NX", "PX", "80"], Reads::Nothing)
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
        self.words.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

const TTLS_MS: [u64; 6] = [80, 900, 5_000, 20_000, 45_000, 60_000];

/// Longer than any restart delay waits for.
const BEYOND_CAP_MS: &str = "200000";

const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

const REENTER: &str = "redis.call('hincrby',KEYS[1],ARGV[1],1) \
                       redis.call('pexpire',KEYS[1],ARGV[2]) return nil";

const TWO: &str = "redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) redis.call('del',KEYS[2]) \
                   redis.call('set','k9',ARGV[1],'px',ARGV[2]) return 1";
