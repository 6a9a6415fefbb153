//! The scripts a node knows: found by their text or by its SHA-1, compiled once, bounded.
//!
//! Texts that came with EVAL leave oldest first when room is short. Those that were loaded on
//! purpose stay until SCRIPT FLUSH, since their clients rely on EVALSHA alone. Nothing is logged:
//! after a restart a client is told NOSCRIPT and sends the text again, as with Redis.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable};
use mlua::Function;
use sha1_smol::Sha1;

use crate::error::ErrorReply;

/// A script's name: the SHA-1 of its text.
pub(crate) type Sha = [u8; 20];

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) body: Box<[u8]>,
    pub(crate) sha: Sha,
    /// Compiled by the present interpreter.
    pub(crate) function: Option<Function>,
    /// Its first line says that it writes nothing.
    pub(crate) is_read_only: bool,
    /// Kept until SCRIPT FLUSH.
    is_loaded: bool,
    hash: u64,
}

/// All scripts.
#[derive(Debug)]
pub(crate) struct Cache {
    scripts: HashMap<u64, Script, FixedState>,
    by_body: HashTable<(u64, u64)>,
    by_sha: HashMap<Sha, u64, FixedState>,
    /// The numbers of the scripts that may leave, oldest first; some may have been loaded since.
    evaluated: VecDeque<u64>,
    next_number: u64,
    bytes: usize,
    hasher: FixedState,
    seed: u64,
}

impl Cache {
    pub(crate) fn new(seed: u64) -> Cache {
        Cache {
            scripts: HashMap::with_hasher(FixedState::with_seed(seed)),
            by_body: HashTable::new(),
            by_sha: HashMap::with_hasher(FixedState::with_seed(seed)),
            evaluated: VecDeque::new(),
            next_number: 0,
            bytes: 0,
            hasher: FixedState::with_seed(seed),
            seed,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// The number of the script with this text.
    pub(crate) fn find(&self, body: &[u8]) -> Option<u64> {
        let hash = self.hash(body);
        let matches = |&(_, number): &(u64, u64)| {
            self.scripts
                .get(&number)
                .is_some_and(|script| *script.body == *body)
        };
        self.by_body.find(hash, matches).map(|&(_, number)| number)
    }

    /// The number of the script with this SHA-1.
    pub(crate) fn find_sha(&self, sha: &Sha) -> Option<u64> {
        self.by_sha.get(sha).copied()
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Script> {
        self.scripts.get_mut(&number)
    }

    /// Adds a script that came with EVAL; the oldest such scripts make room.
    pub(crate) fn insert(&mut self, body: &[u8], function: Function, is_read_only: bool) -> u64 {
        while self.evaluated.len() >= EVALUATED_MAX || self.bytes > BYTES_MAX / 2 {
            let Some(oldest) = self.evaluated.pop_front() else {
                break;
            };
            if self
                .scripts
                .get(&oldest)
                .is_some_and(|script| !script.is_loaded)
            {
                self.remove(oldest);
            }
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let hash = self.hash(body);
        let sha = Sha1::from(body).digest().bytes();
        self.bytes = self.bytes.saturating_add(body.len());
        self.by_body
            .insert_unique(hash, (hash, number), |&(hash, _)| hash);
        self.by_sha.insert(sha, number);
        self.evaluated.push_back(number);
        let script = Script {
            body: body.into(),
            sha,
            function: Some(function),
            is_read_only,
            is_loaded: false,
            hash,
        };
        self.scripts.insert(number, script);
        number
    }

    /// Makes a script stay. Refused when too many do already.
    pub(crate) fn keep(&mut self, number: u64) -> Result<(), ErrorReply> {
        let is_full = self.bytes > BYTES_MAX || self.scripts.len() > LOADED_MAX;
        let Some(script) = self.scripts.get_mut(&number) else {
            return Ok(());
        };
        if script.is_loaded || !is_full {
            script.is_loaded = true;
            return Ok(());
        }
        Err(FULL)
    }

    pub(crate) fn clear(&mut self) {
        *self = Cache::new(self.seed);
    }

    /// Forgets what the interpreter compiled, before it is replaced by a new one.
    pub(crate) fn forget_functions(&mut self) {
        for script in self.scripts.values_mut() {
            script.function = None;
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(script) = self.scripts.remove(&number) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(script.body.len());
        self.by_sha.remove(&script.sha);
        if let Ok(entry) = self
            .by_body
            .find_entry(script.hash, |&(_, other)| other == number)
        {
            entry.remove();
        }
    }

    fn hash(&self, body: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(body);
        hasher.finish()
    }
}

/// A SHA-1 as clients write it, in upper or lower case.
pub(crate) fn sha_of_text(text: &[u8]) -> Option<Sha> {
    if text.len() != 40 {
        return None;
    }
    let mut sha = Sha::default();
    for (byte, digits) in sha.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (hex_digit(digits[0])?, hex_digit(digits[1])?);
        *byte = high << 4 | low;
    }
    Some(sha)
}

/// A SHA-1 in lower case, as Redis writes it.
pub(crate) fn text_of_sha(sha: &Sha) -> String {
    sha.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(hex_letter)
        .collect()
}

fn hex_digit(letter: u8) -> Option<u8> {
    char::from(letter)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

fn hex_letter(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0')
}

const FULL: ErrorReply = ErrorReply::fixed(
    "ERR too many scripts are loaded; SCRIPT FLUSH forgets them all, and clients load theirs again",
);

/// Programs have a handful of scripts. More than this means that values were written into texts.
const EVALUATED_MAX: usize = 500;
const LOADED_MAX: usize = 5000;
/// EVAL may use one half, SCRIPT LOAD all.
const BYTES_MAX: usize = 16 << 20;
