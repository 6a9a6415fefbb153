//! What an operator asks of a node, as the bytes that are sent.
//!
//! Quorlock nodes know LOCK.LIST, LOCK.INFO and LOCK.FORCE-RELEASE. For Redis and Valkey, SCAN and two scripts take their
//! place, which touch one key, and at most as much of it as a lock can be.

use crate::address::NodeAddress;
use crate::protocol::request::{script, write};

/// Whether a node has the commands about locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// It has them.
    Quorlock,
    /// It is Redis, Valkey, or another server that speaks like those.
    Redis,
}

/// The requests before all others: the login and the database that the address names. Each has to be answered without an error.
#[must_use]
pub fn opening(address: &NodeAddress) -> Vec<Vec<u8>> {
    let mut questions = Vec::new();
    if let Some((user, password)) = address.requested_login() {
        let user = user.map(str::as_bytes);
        let words = [Some(&b"AUTH"[..]), user, Some(password.as_bytes())];
        let words: Vec<&[u8]> = words.into_iter().flatten().collect();
        questions.push(request(&words));
    }
    if address.database != 0 {
        let database = address.database.to_string();
        questions.push(request(&[b"SELECT", database.as_bytes()]));
    }
    questions
}

/// Some locks whose name matches, and the cursor with which to go on.
#[must_use]
pub fn list(pattern: &[u8], cursor: &[u8]) -> Vec<u8> {
    request(&[b"LOCK.LIST", pattern, cursor])
}

/// Some keys of any kind whose name matches, and the cursor with which to go on.
#[must_use]
pub fn scan(pattern: &[u8], cursor: &[u8]) -> Vec<u8> {
    request(&[b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"])
}

/// Who holds this lock.
#[must_use]
pub fn look(name: &[u8], dialect: Dialect) -> Vec<u8> {
    match dialect {
        Dialect::Quorlock => request(&[b"LOCK.INFO", name]),
        Dialect::Redis => with_script(LOOK_SCRIPT, name, &[]),
    }
}

/// Ends this lock if it is held under this token.
#[must_use]
pub fn force_release(name: &[u8], token: &[u8], dialect: Dialect) -> Vec<u8> {
    match dialect {
        Dialect::Quorlock => request(&[b"LOCK.FORCE-RELEASE", name, token]),
        Dialect::Redis => {
            let prefix: &[u8] = b"redisson_lock__channel";
            // Redisson keeps both in the same slot of a cluster.
            let channel = match name.contains(&b'{') {
                true => [prefix, b":", name].concat(),
                false => [prefix, b":{", name, b"}"].concat(),
            };
            with_script(FORCE_RELEASE_SCRIPT, name, &[token, &channel])
        }
    }
}

/// A request of these words.
#[must_use]
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, words);
    out
}

fn with_script(body: &[u8], name: &[u8], arguments: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    script(&mut out, None, body, name, arguments);
    out
}

/// The type, the time left, and the token or the fields. What is too large for a lock is not read.
const LOOK_SCRIPT: &[u8] = b"local t = redis.call('TYPE', KEYS[1])['ok'] \
local p = redis.call('PTTL', KEYS[1]) \
if t == 'none' then return false end \
if t == 'string' and redis.call('STRLEN', KEYS[1]) <= 1024 then \
return {t, p, redis.call('GET', KEYS[1])} end \
if t == 'hash' and redis.call('HLEN', KEYS[1]) <= 1000 then \
return {t, p, redis.call('HGETALL', KEYS[1])} end \
return {'other', p}";

/// What LOCK.FORCE-RELEASE does on a Quorlock node. A client of Redisson that waits is woken by the message.
const FORCE_RELEASE_SCRIPT: &[u8] = b"local t = redis.call('TYPE', KEYS[1])['ok'] \
if t == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] then \
return redis.call('DEL', KEYS[1]) end \
if t == 'hash' and ARGV[1] ~= 'mode' and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then \
redis.call('DEL', KEYS[1]) redis.pcall('PUBLISH', ARGV[2], '0') return 1 end \
return 0";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace("\r\n", " ")
    }

    #[test]
    fn the_login_and_the_database_of_the_address_come_first() {
        let opening = |url: &str| {
            let address = NodeAddress::parse(url).expect("an address");
            let questions = opening(&address);
            let texts = questions.iter().map(|question| text(question));
            texts.collect::<Vec<_>>()
        };
        assert!(opening("redis://h:1").is_empty());
        assert_eq!(opening("redis://:p@h:1"), ["*2 $4 AUTH $1 p "]);
        assert_eq!(
            opening("redis://u:p@h:1/3"),
            ["*3 $4 AUTH $1 u $1 p ", "*2 $6 SELECT $1 3 "]
        );
    }

    #[test]
    fn a_lock_ends_only_under_the_token_on_servers_of_both_kinds() {
        let node = force_release(b"job", b"t1", Dialect::Quorlock);
        assert_eq!(text(&node), "*3 $18 LOCK.FORCE-RELEASE $3 job $2 t1 ");
        let redis = text(&force_release(b"job", b"t1", Dialect::Redis));
        assert!(redis.contains("== ARGV[1]") && redis.contains("$2 t1 "));
        assert!(redis.contains("redisson_lock__channel:{job}"), "{redis}");
        let redis = text(&force_release(b"a{job}", b"t1", Dialect::Redis));
        assert!(redis.contains("redisson_lock__channel:a{job}"), "{redis}");
    }
}
