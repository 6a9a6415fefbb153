//! The scripts a node knows: found by their text or by their SHA-1, compiled when used, bounded.
//!
//! Of the texts that came with EVAL those not used for the longest time are evicted when memory is
//! short. Those that SCRIPT LOAD loaded stay until SCRIPT FLUSH, since their clients rely on EVALSHA
//! alone. The compiled form of either is evicted in the same order and made again when needed: it
//! takes up to fifty times the memory of the text. One request evicts a few at most.
//! Nothing is logged: after a restart a client gets NOSCRIPT and sends the text again, as with
//! Redis.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable};
use sha1_smol::Sha1;

use crate::script::recency::{Recency, Slot};

/// A script's name: the SHA-1 of its text.
pub(crate) type Sha = [u8; 20];

/// One script. `F` is what the interpreter made of it.
#[derive(Debug)]
pub(crate) struct Script<F> {
    pub(crate) body: Box<[u8]>,
    pub(crate) sha: Sha,
    /// Its first line says that it writes nothing.
    pub(crate) is_read_only: bool,
    /// Kept until SCRIPT FLUSH.
    is_loaded: bool,
    /// `None` where the present interpreter has not compiled it.
    function: Option<CachedFunction<F>>,
}

#[derive(Debug)]
struct CachedFunction<F> {
    function: F,
    /// The memory that it takes.
    bytes: usize,
}

/// All scripts.
#[derive(Debug)]
pub(crate) struct Cache<F> {
    scripts: Vec<Option<Script<F>>>,
    free: Vec<Slot>,
    by_body: HashTable<Slot>,
    by_sha: HashMap<Sha, Slot, FixedState>,
    /// The scripts that came with EVAL, by their last use.
    evaluated: Recency,
    evaluated_bytes: usize,
    loaded_bytes: usize,
    /// The scripts that are compiled, by their last use.
    compiled: Recency,
    compiled_bytes: usize,
    seed: u64,
}

/// There is no room for another loaded script: the memory that those take, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) scripts: usize,
    pub(crate) bytes: usize,
}

impl<F: Clone> Cache<F> {
    pub(crate) fn new(seed: u64) -> Cache<F> {
        Cache {
            scripts: Vec::new(),
            free: Vec::new(),
            by_body: HashTable::new(),
            by_sha: HashMap::with_hasher(FixedState::with_seed(seed)),
            evaluated: Recency::new(),
            evaluated_bytes: 0,
            loaded_bytes: 0,
            compiled: Recency::new(),
            compiled_bytes: 0,
            seed,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.scripts.len().saturating_sub(self.free.len())
    }

    /// The memory of the texts and of what finds them.
    pub(crate) fn bytes(&self) -> usize {
        self.evaluated_bytes.saturating_add(self.loaded_bytes)
    }

    /// The script with this text.
    pub(crate) fn find(&self, body: &[u8]) -> Option<Slot> {
        let matches = |&slot: &Slot| self.get(slot).is_some_and(|script| *script.body == *body);
        self.by_body.find(hash(self.seed, body), matches).copied()
    }

    /// The script with this SHA-1.
    pub(crate) fn find_sha(&self, sha: &Sha) -> Option<Slot> {
        self.by_sha.get(sha).copied()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Script<F>> {
        self.scripts.get(slot as usize)?.as_ref()
    }

    /// What the interpreter made of a script, which is about to be used.
    pub(crate) fn function(&mut self, slot: Slot) -> Option<F> {
        let script = self.scripts.get(slot as usize)?.as_ref()?;
        let (function, is_loaded) = (script.function.as_ref()?.function.clone(), script.is_loaded);
        if !is_loaded {
            self.evaluated.touch(slot);
        }
        self.compiled.touch(slot);
        Some(function)
    }

    /// Keeps what the interpreter made of a script and what of it takes `bytes` of memory. Returns
    /// how many others were forgotten to make room.
    pub(crate) fn set_function(&mut self, slot: Slot, function: F, bytes: usize) -> usize {
        self.forget_function(slot);
        let Some(script) = self.script_mut(slot) else {
            return 0;
        };
        script.function = Some(CachedFunction { function, bytes });
        if !script.is_loaded {
            self.evaluated.touch(slot);
        }
        self.compiled.touch(slot);
        self.compiled_bytes = self.compiled_bytes.saturating_add(bytes);
        let mut forgotten: usize = 0;
        while forgotten < LEAVING_MAX
            && (self.compiled.len() > COMPILED_MAX || self.compiled_bytes > COMPILED_BYTES_MAX)
        {
            match self.compiled.oldest() {
                Some(oldest) if oldest != slot => self.forget_function(oldest),
                _ => break,
            }
            forgotten = forgotten.saturating_add(1);
        }
        forgotten
    }

    /// Adds a script that came with EVAL and is not known; those that were not used for the longest
    /// time make room.
    pub(crate) fn insert(&mut self, body: &[u8], is_read_only: bool) -> Slot {
        let bytes = cost_of(body);
        let mut removed: usize = 0;
        while removed < LEAVING_MAX
            && (self.evaluated.len() >= EVALUATED_MAX
                || self.evaluated_bytes.saturating_add(bytes) > EVALUATED_BYTES_MAX)
        {
            let Some(oldest) = self.evaluated.oldest() else {
                break;
            };
            self.remove(oldest);
            removed = removed.saturating_add(1);
        }
        let slot = self.add(body, is_read_only);
        self.evaluated.touch(slot);
        self.evaluated_bytes = self.evaluated_bytes.saturating_add(bytes);
        slot
    }

    /// Adds a script that is not known and stays; all such scripts may take `bytes_max` of memory.
    pub(crate) fn insert_loaded(
        &mut self,
        body: &[u8],
        is_read_only: bool,
        bytes_max: usize,
    ) -> Result<Slot, Full> {
        let bytes = self.admit(body, bytes_max)?;
        let slot = self.add(body, is_read_only);
        self.loaded_bytes = bytes;
        if let Some(script) = self.script_mut(slot) {
            script.is_loaded = true;
        }
        Ok(slot)
    }

    /// Makes a known script stay.
    pub(crate) fn keep(&mut self, slot: Slot, bytes_max: usize) -> Result<(), Full> {
        let Some(script) = self.get(slot).filter(|script| !script.is_loaded) else {
            return Ok(());
        };
        let cost = cost_of(&script.body);
        self.loaded_bytes = self.admit(&script.body, bytes_max)?;
        self.evaluated_bytes = self.evaluated_bytes.saturating_sub(cost);
        self.evaluated.remove(slot);
        if let Some(script) = self.script_mut(slot) {
            script.is_loaded = true;
        }
        Ok(())
    }

    /// What all loaded scripts would take with this one.
    fn admit(&self, body: &[u8], bytes_max: usize) -> Result<usize, Full> {
        let bytes = self.loaded_bytes.saturating_add(cost_of(body));
        if bytes <= bytes_max {
            return Ok(bytes);
        }
        Err(Full {
            scripts: self.len().saturating_sub(self.evaluated.len()),
            bytes: self.loaded_bytes,
        })
    }

    /// How many scripts are compiled, and the memory that takes.
    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, usize) {
        (self.compiled.len(), self.compiled_bytes)
    }

    pub(crate) fn clear(&mut self) {
        *self = Cache::new(self.seed);
    }

    /// Forgets what the interpreter compiled, before it is replaced by a new one.
    pub(crate) fn forget_functions(&mut self) {
        while let Some(oldest) = self.compiled.oldest() {
            self.forget_function(oldest);
        }
    }

    fn forget_function(&mut self, slot: Slot) {
        self.compiled.remove(slot);
        let function = self
            .script_mut(slot)
            .and_then(|script| script.function.take());
        let bytes = function.map_or(0, |compiled| compiled.bytes);
        self.compiled_bytes = self.compiled_bytes.saturating_sub(bytes);
    }

    fn add(&mut self, body: &[u8], is_read_only: bool) -> Slot {
        let sha = Sha1::from(body).digest().bytes();
        let script = Script {
            body: body.into(),
            sha,
            is_read_only,
            is_loaded: false,
            function: None,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.scripts.push(None);
            let slot = self.scripts.len().saturating_sub(1);
            Slot::try_from(slot).expect("each script costs more than a byte of a bounded memory")
        });
        self.scripts[slot as usize] = Some(script);
        self.by_sha.insert(sha, slot);
        let (seed, scripts) = (self.seed, &self.scripts);
        self.by_body
            .insert_unique(hash(seed, body), slot, |&other| {
                let other = scripts[other as usize].as_ref();
                hash(seed, other.map_or(&[], |script| &script.body))
            });
        slot
    }

    fn remove(&mut self, slot: Slot) {
        self.forget_function(slot);
        self.evaluated.remove(slot);
        let Some(script) = self.scripts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        self.evaluated_bytes = self.evaluated_bytes.saturating_sub(cost_of(&script.body));
        if self.by_sha.get(&script.sha) == Some(&slot) {
            self.by_sha.remove(&script.sha);
        }
        let hash = hash(self.seed, &script.body);
        if let Ok(entry) = self.by_body.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
    }

    fn script_mut(&mut self, slot: Slot) -> Option<&mut Script<F>> {
        self.scripts.get_mut(slot as usize)?.as_mut()
    }
}

fn hash(seed: u64, body: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(seed).build_hasher();
    hasher.write(body);
    hasher.finish()
}

/// The memory that a script takes without what is compiled: its text and what finds it.
fn cost_of(body: &[u8]) -> usize {
    body.len().saturating_add(SCRIPT_BYTES)
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
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_digit(letter: u8) -> Option<u8> {
    let digit = HEX_DIGITS[usize::from(letter)];
    (digit < 16).then_some(digit)
}

/// The value of each letter, 16 for what is no digit. Forty comparisons for each EVALSHA would cost
/// more than finding the script.
const HEX_DIGITS: [u8; 256] = {
    let mut table = [16; 256];
    let mut digit: u8 = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit as usize] as usize] = digit;
        table[b"0123456789ABCDEF"[digit as usize] as usize] = digit;
        digit += 1;
    }
    table
};

/// Programs have a handful of scripts. More than this means that values were written into texts.
pub(crate) const EVALUATED_MAX: usize = 500;
pub(crate) const EVALUATED_BYTES_MAX: usize = 8 << 20;

/// What the interpreter may keep of all scripts.
pub(crate) const COMPILED_MAX: usize = 500;
pub(crate) const COMPILED_BYTES_MAX: usize = 16 << 20;

/// So many leave in one request at most, which takes some ten microseconds. One script comes with a
/// request, so after a few requests there is room for the largest.
pub(crate) const LEAVING_MAX: usize = 64;

/// A slot, its share of two tables and of two lists, and what the allocator adds.
pub(crate) const SCRIPT_BYTES: usize = 256;
