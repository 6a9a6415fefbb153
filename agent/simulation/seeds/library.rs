//! What lock libraries send, by the text of their scripts, and what they make of the replies.

use quorlock_engine::Reply;

/// A lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    RedisPy,
    Redislock,
    Spring,
    NodeRedlock,
    RedisSemaphore,
    Symfony,
    Laravel,
    ShedLock,
    /// No library: LOCK commands, in line for the lock.
    InLine,
    /// The same, with a fence.
    Fenced,
    /// The same, beside others who read.
    Reading,
}

/// What a library makes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was done.
    Yes,
    /// Somebody else has the lock, or it is not held any more.
    No,
    /// Nothing is known of the lock.
    Error,
    /// No server answers like this.
    Nonsense,
}

/// A request: the command's name, and its arguments.
pub(crate) type Words = Vec<String>;

impl Library {
    pub(crate) const ALL: [Library; 11] = [
        Library::RedisPy,
        Library::Redislock,
        Library::Spring,
        Library::NodeRedlock,
        Library::RedisSemaphore,
        Library::Symfony,
        Library::Laravel,
        Library::ShedLock,
        Library::InLine,
        Library::Fenced,
        Library::Reading,
    ];

    /// Whether a process uses one token for all of its locks.
    pub(crate) fn has_one_token(self) -> bool {
        self == Library::Spring
    }

    /// Whether it takes a lock again that is held under its token already.
    pub(crate) fn takes_again(self) -> bool {
        matches!(
            self,
            Library::Spring | Library::Redislock | Library::Symfony
        )
    }

    /// Whether it takes several locks together.
    pub(crate) fn takes_several(self) -> bool {
        self == Library::NodeRedlock
    }

    /// Whether who was refused, or learnt nothing, releases what its try may have taken.
    pub(crate) fn releases_failed_tries(self) -> bool {
        self == Library::NodeRedlock
    }

    pub(crate) fn acquire(self, names: &[String], token: &str, ttl_ms: u64) -> Words {
        let ttl = ttl_ms.to_string();
        match self {
            Library::RedisPy | Library::ShedLock => {
                words(&["SET", &names[0], token, "NX", "PX", &ttl])
            }
            Library::RedisSemaphore => words(&["SET", &names[0], token, "PX", &ttl, "NX"]),
            Library::Laravel => {
                let seconds = ttl_ms.div_ceil(1_000).to_string();
                words(&["SET", &names[0], token, "EX", &seconds, "NX"])
            }
            Library::Redislock => {
                let length = token.len().to_string();
                script(REDISLOCK_OBTAIN, names, &[token, &length, &ttl])
            }
            Library::Spring => script(SPRING_OBTAIN, names, &[token, &ttl]),
            Library::NodeRedlock => script(NODE_REDLOCK_ACQUIRE, names, &[token, &ttl]),
            Library::Symfony => script(SYMFONY_SAVE, names, &[token, &ttl]),
            Library::InLine | Library::Fenced | Library::Reading => {
                let options: &[&str] = match self {
                    Library::Fenced => &["WAIT", "300", "FENCE"],
                    Library::Reading => &["WAIT", "300", "SHARED"],
                    _ => &["WAIT", "300"],
                };
                words(&[&["LOCK.ACQUIRE", &names[0], token, &ttl], options].concat())
            }
        }
    }

    /// The lock is to last this long from now on; none where the library has nothing for it.
    pub(crate) fn extend(self, names: &[String], token: &str, ttl_ms: u64) -> Option<Words> {
        let ttl = ttl_ms.to_string();
        Some(match self {
            Library::RedisPy => script(REDIS_PY_REACQUIRE, names, &[token, &ttl]),
            Library::Redislock => script(REDISLOCK_REFRESH, names, &[token, &ttl]),
            Library::Spring => script(SPRING_OBTAIN, names, &[token, &ttl]),
            Library::NodeRedlock => script(NODE_REDLOCK_EXTEND, names, &[token, &ttl]),
            Library::RedisSemaphore => script(SEMAPHORE_REFRESH, names, &[token, &ttl]),
            Library::Symfony => script(SYMFONY_PUT_OFF, names, &[token, &ttl]),
            Library::ShedLock => script(SHEDLOCK_UPDATE, names, &[token, &ttl]),
            Library::InLine | Library::Fenced | Library::Reading => {
                words(&["LOCK.EXTEND", &names[0], token, &ttl])
            }
            Library::Laravel => return None,
        })
    }

    /// The lock is to last so much longer; none where the library has nothing for it.
    pub(crate) fn prolong(self, names: &[String], token: &str, more_ms: u64) -> Option<Words> {
        let more = more_ms.to_string();
        (self == Library::RedisPy).then(|| script(REDIS_PY_EXTEND, names, &[token, &more, "0"]))
    }

    /// The lock is free from now on, or, where the library wants that, after this time.
    pub(crate) fn release(self, names: &[String], token: &str, keep_ms: u64) -> Words {
        match self {
            Library::RedisPy => script(REDIS_PY_RELEASE, names, &[token]),
            Library::Spring => script(SPRING_UNLOCK, names, &[token]),
            Library::NodeRedlock => script(NODE_REDLOCK_RELEASE, names, &[token]),
            Library::RedisSemaphore => script(SEMAPHORE_DELETE, names, &[token]),
            Library::ShedLock if keep_ms > 0 => {
                script(SHEDLOCK_UPDATE, names, &[token, &keep_ms.to_string()])
            }
            Library::InLine | Library::Fenced | Library::Reading => {
                words(&["LOCK.RELEASE", &names[0], token])
            }
            Library::Redislock | Library::Symfony | Library::Laravel | Library::ShedLock => {
                script(COMPARE_AND_DELETE, names, &[token])
            }
        }
    }
}

impl Verdict {
    pub(crate) fn of(reply: &Reply) -> Verdict {
        match reply {
            Reply::Integer(1..) => Verdict::Yes,
            Reply::Nil | Reply::Integer(0) => Verdict::No,
            Reply::Array(parts) if matches!(parts[..], [Reply::Integer(1), _, _, _]) => {
                Verdict::Yes
            }
            Reply::Array(parts) if matches!(parts[..], [Reply::Integer(0), Reply::Nil, _, _]) => {
                Verdict::No
            }
            // Readers have it.
            Reply::Error(error) if starts(error.as_bytes(), "WRONGTYPE ") => Verdict::No,
            Reply::Error(error) if REFUSALS.iter().any(|code| starts(error.as_bytes(), code)) => {
                Verdict::Error
            }
            reply if *reply == Reply::Ok || *reply == Reply::status("OK") => Verdict::Yes,
            _ => Verdict::Nonsense,
        }
    }
}

fn starts(text: &[u8], code: &str) -> bool {
    text.starts_with(code.as_bytes())
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn script(text: &str, names: &[String], arguments: &[&str]) -> Words {
    let count = names.len().to_string();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    words(&[&["EVAL", text, &count], &names[..], arguments].concat())
}

/// What an agent may answer to a request of a lock library that it cannot carry out.
const REFUSALS: [&str; 2] = ["NOQUORUM ", "TRYAGAIN "];

// redis-py's Lock (redis/lock.py, 5.0).
const REDIS_PY_RELEASE: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    ";
const REDIS_PY_EXTEND: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == \"0\" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    ";
const REDIS_PY_REACQUIRE: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    ";
// bsm/redislock (0.9).
const REDISLOCK_OBTAIN: &str = "
if redis.call(\"set\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[3]) then return redis.status_reply(\"OK\") end

local offset = tonumber(ARGV[2])
if redis.call(\"getrange\", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then return redis.call(\"set\", KEYS[1], ARGV[1], \"PX\", ARGV[3]) end
";
const REDISLOCK_REFRESH: &str = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"pexpire\", KEYS[1], ARGV[2]) else return 0 end";
// That of redislock, Symfony, Laravel, ShedLock and many others.
const COMPARE_AND_DELETE: &str = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"del\", KEYS[1]) else return 0 end";
// spring-integration's RedisLockRegistry (6.3) with its lock that polls.
const SPRING_OBTAIN: &str = "
            local lockClientId = redis.call('GET', KEYS[1])
            if lockClientId == ARGV[1] then
                redis.call('PEXPIRE', KEYS[1], ARGV[2])
                return true
            elseif not lockClientId then
                redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
                return true
            end
            return false
            ";
const SPRING_UNLOCK: &str = "
            local lockClientId = redis.call('GET', KEYS[1])
            if lockClientId == ARGV[1] then
                redis.call('UNLINK', KEYS[1])
                return true
            end
            return false
            ";
// node-redlock (5.0) in front of one server.
const NODE_REDLOCK_ACQUIRE: &str = "
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call(\"exists\", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2])
  end

  -- Return the number of entries added.
  return #KEYS
";
const NODE_REDLOCK_EXTEND: &str = "
  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call(\"get\", key) ~= ARGV[1] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2])
  end

  -- Return the number of entries updated.
  return #KEYS
";
const NODE_REDLOCK_RELEASE: &str = "
  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call(\"get\", key) == ARGV[1] then
      redis.pcall(\"del\", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
";
// redis-semaphore's Mutex (5.6).
const SEMAPHORE_REFRESH: &str = "
  local key = KEYS[1]
  local identifier = ARGV[1]
  local lockTimeout = ARGV[2]

  local value = redis.call('get', key)

  if value == identifier then
    redis.call('pexpire', key, lockTimeout)
    return 1
  end

  return 0
";
const SEMAPHORE_DELETE: &str = "
  local key = KEYS[1]
  local identifier = ARGV[1]

  if redis.call('get', key) == identifier then
    return redis.call('del', key)
  end

  return 0
";
// Symfony's RedisStore (7.1), for its exclusive lock.
const SYMFONY_SAVE: &str = "
            if redis.call(\"SET\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[2]) then return 1 end
            if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2]) end
            return 0
        ";
const SYMFONY_PUT_OFF: &str = "
            if redis.call(\"GET\", KEYS[1]) == ARGV[1] then
                return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2])
            else
                return 0
            end
        ";
// ShedLock's RedisLockProvider (5), which keeps a lock until its least time is over.
const SHEDLOCK_UPDATE: &str = "
            if redis.call('get',KEYS[1]) == ARGV[1] then
               return redis.call('pexpire',KEYS[1],ARGV[2])
            else
               return 0
            end
";
