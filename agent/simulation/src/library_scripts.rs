//! The scripts of lock libraries, by their text: what the checks of agents send.

/// redis-py's Lock (redis/lock.py, 5.0): its release.
pub const REDIS_PY_RELEASE: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    ";
/// Its extension, by a time or to a time.
pub const REDIS_PY_EXTEND: &str = "
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
/// Its extension to the lock's whole time.
pub const REDIS_PY_REACQUIRE: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    ";
/// bsm/redislock (0.9): the acquisition.
pub const REDISLOCK_OBTAIN: &str = "
if redis.call(\"set\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[3]) then return redis.status_reply(\"OK\") end

local offset = tonumber(ARGV[2])
if redis.call(\"getrange\", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then return redis.call(\"set\", KEYS[1], ARGV[1], \"PX\", ARGV[3]) end
";
/// Its extension.
pub const REDISLOCK_REFRESH: &str = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"pexpire\", KEYS[1], ARGV[2]) else return 0 end";
/// The release of redislock, Symfony, Laravel, ShedLock and many others.
pub const COMPARE_AND_DELETE: &str = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.call(\"del\", KEYS[1]) else return 0 end";
/// spring-integration's RedisLockRegistry (6.3), with its lock that polls: acquisition and extension.
pub const SPRING_OBTAIN: &str = "
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
/// Its release.
pub const SPRING_UNLOCK: &str = "
            local lockClientId = redis.call('GET', KEYS[1])
            if lockClientId == ARGV[1] then
                redis.call('UNLINK', KEYS[1])
                return true
            end
            return false
            ";
/// node-redlock (5.0) in front of one server: the acquisition.
pub const NODE_REDLOCK_ACQUIRE: &str = "
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
/// Its extension.
pub const NODE_REDLOCK_EXTEND: &str = "
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
/// Its release.
pub const NODE_REDLOCK_RELEASE: &str = "
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
/// redis-semaphore's Mutex (5.6): its extension.
pub const SEMAPHORE_REFRESH: &str = "
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
/// Its release.
pub const SEMAPHORE_DELETE: &str = "
  local key = KEYS[1]
  local identifier = ARGV[1]

  if redis.call('get', key) == identifier then
    return redis.call('del', key)
  end

  return 0
";
/// Symfony's RedisStore (7.1), for its exclusive lock: the acquisition.
pub const SYMFONY_SAVE: &str = "
            if redis.call(\"SET\", KEYS[1], ARGV[1], \"NX\", \"PX\", ARGV[2]) then return 1 end
            if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2]) end
            return 0
        ";
/// Its extension.
pub const SYMFONY_PUT_OFF: &str = "
            if redis.call(\"GET\", KEYS[1]) == ARGV[1] then
                return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2])
            else
                return 0
            end
        ";
/// ShedLock's RedisLockProvider (5), which keeps a lock until its least time is over.
pub const SHEDLOCK_UPDATE: &str = "
            if redis.call('get',KEYS[1]) == ARGV[1] then
               return redis.call('pexpire',KEYS[1],ARGV[2])
            else
               return 0
            end
";
