# redis-rb from Debian's package, and a Redlock over it. QUORLOCK_NODES names the nodes.

require 'redis'
require_relative 'majority'
require_relative 'report'

URLS = ENV.fetch('QUORLOCK_NODES').split(',')
# A node in its restart delay, which gives no locks.
DELAYED = ENV['QUORLOCK_DELAYED']
SUFFIX = DELAYED ? ' with a node in its restart delay' : ''

def driver
  client = Redis.new(url: URLS[0])
  check('redis-rb: strings and hashes') do
    key = fresh
    equal(client.ping, 'PONG')
    equal([client.set(key, '1'), client.incrby(key, 41), client.get(key)], ['OK', 42, '42'])
    equal([client.get(fresh), client.del(key)], [nil, 1])
    client.mapped_hmset(key, 'a' => '1', 'b' => '2')
    equal(client.hgetall(key), 'a' => '1', 'b' => '2')
    client.del(key)
  end
  check('redis-rb: SET NX PX and a script') do
    key = fresh
    equal([client.set(key, 't1', nx: true, px: 30_000), client.set(key, 't2', nx: true, px: 30_000)], [true, false])
    between(client.pttl(key), 20_000, 30_000)
    equal([client.eval(UNLOCK, [key], ['t2']), client.eval(UNLOCK, [key], ['t1'])], [0, 1])
  end
  check('redis-rb: pipelining and transactions') do
    key = fresh
    replies = client.pipelined { |pipe| 100.times { |number| pipe.set(key, number) && pipe.get(key) } }
    equal([replies.size, replies.last], [200, '99'])
    equal(client.multi { |all| all.set(key, '1') && all.incr(key) }, ['OK', 2])
    stale = client.watch(key) do
      Redis.new(url: URLS[0]).incr(key)
      client.multi { |all| all.set(key, '9') }
    end
    equal([stale, client.get(key), client.del(key)], [nil, '3', 1])
  end
  check('redis-rb: channels') do
    channel = fresh
    heard = []
    listener = Redis.new(url: URLS[0])
    listener.subscribe_with_timeout(8, channel) do |on|
      on.subscribe { client.publish(channel, 'hello') }
      on.message { |_, message| heard.push(message) && listener.unsubscribe(channel) }
    end
    equal([heard, listener.ping], [['hello'], 'PONG'])
  end
end

def majority
  check("redis-rb: Redlock with scripts as redlock-rb has them, acquires, and a second owner is refused#{SUFFIX}") do
    name = fresh
    first = Majority.new(URLS, DELAYED)
    second = Majority.new(URLS, DELAYED)
    equal([first.lock(name, 't1', 30_000), second.lock(name, 't2', 30_000)], [true, false])
    first.look(name).each { |token, left| equal([token, left.between?(20_000, 30_000)], ['t1', true]) }
    equal(first.lock(name, 't1', 60_000), true)
    first.look(name).each { |_, left| between(left, 40_000, 60_000) }
    first.unlock(name, 't1')
    first.look(name).each { |found| equal(found, [nil, -2]) }
    equal(second.lock(name, 't2', 300), true)
    sleep 0.4
    equal(first.lock(name, 't1', 30_000), true)
    first.unlock(name, 't1')
  end
  check("redis-rb: Redlock with scripts as redlock-rb has them, six callers, no overlap#{SUFFIX}") do
    name = fresh
    held = Queue.new
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    callers = Array.new(6) do
      Thread.new do
        nodes = Majority.new(URLS, DELAYED)
        3.times do
          token = SecureRandom.uuid
          until nodes.lock(name, token, 10_000)
            raise 'no lock within 30 s' if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

            sleep(rand * 0.03)
          end
          start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          sleep 0.002
          held << [start, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
          nodes.unlock(name, token)
        end
      end
    end
    callers.each(&:join)
    times = Array.new(held.size) { held.pop }.sort
    equal([times.size, times.each_cons(2).count { |one, two| two[0] < one[1] }], [18, 0])
  end
end

puts "version redis-rb Ruby #{Redis::VERSION}"
driver unless DELAYED
majority
finish
