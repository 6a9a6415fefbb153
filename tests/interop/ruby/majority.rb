# A Redlock over redis-rb.
#
# redlock-rb itself is in no registry that is at hand. What it sends is: scripts by EVALSHA, loaded again on
# NOSCRIPT, that fall off their end, set with `px`, and answer with a nil inside an array.

require 'redis'
require_relative 'report'

LOCK = <<~LUA
  local held = redis.call("exists", KEYS[1]) == 1
  if not held or redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("set", KEYS[1], ARGV[1], "px", ARGV[2])
  end
LUA
UNLOCK = <<~LUA
  if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
  return 0
LUA
LOOK = 'return {redis.call("get", KEYS[1]), redis.call("pttl", KEYS[1])}'

# A Redlock: a majority of nodes, one after the other, with scripts by their digests.
class Majority
  def initialize(urls, delayed = nil)
    @nodes = urls.map { |url| Redis.new(url: url, timeout: 2) }
    @serving = @nodes.reject.with_index { |_, index| urls[index] == delayed }
  end

  def lock(name, token, ttl)
    return true if count { |node| run(node, LOCK, name, token, ttl) == 'OK' } > @nodes.size / 2

    unlock(name, token)
    false
  end

  def unlock(name, token)
    count { |node| run(node, UNLOCK, name, token) == 1 }
  end

  def look(name)
    @serving.map { |node| run(node, LOOK, name) }
  end

  private

  def count
    @nodes.count do |node|
      yield node
    rescue Redis::CommandError
      false
    end
  end

  def run(node, script, name, *arguments)
    digest = Digest::SHA1.hexdigest(script)
    node.evalsha(digest, keys: [name], argv: arguments)
  rescue Redis::CommandError => e
    raise unless e.message.start_with?('NOSCRIPT')

    equal(node.script(:load, script), digest)
    retry
  end
end
