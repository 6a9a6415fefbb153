# redis-rb and a Redlock of one server, which is an agent. QUORLOCK_AGENTS names two agents of the same nodes: the first
# owner asks one of them, the second owner the other one.

require 'redis'
require_relative 'majority'
require_relative 'report'

AGENTS = ENV.fetch('QUORLOCK_AGENTS').split(',')
CLIENT = 'redis-rb through an agent: Redlock with scripts as redlock-rb has them'

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def locked(owner, name, token, ttl)
  limit = now + 60
  until owner.lock(name, token, ttl)
    raise 'no lock within 60 s' if now > limit

    sleep(0.005 + (rand * 0.02))
  end
end

def owners
  AGENTS.map { |url| Majority.new([url]) }
end

def refuses_and_extends
  first, second = owners
  name = fresh
  equal([first.lock(name, 't1', 800), second.lock(name, 't2', 4000)], [true, false])
  equal(first.lock(name, 't1', 4000), true)
  sleep 1.2
  equal([second.lock(name, 't2', 4000), second.look(name).first.first], [false, 't1'])
  equal([first.unlock(name, 't1'), second.lock(name, 't2', 4000), second.unlock(name, 't2')], [1, true, 1])
  equal(first.look(name), [[nil, -2]])
end

def expires
  first, second = owners
  name = fresh
  equal(first.lock(name, 't1', 500), true)
  start = now
  locked(second, name, 't2', 4000)
  between(now - start, 0.5, 10)
  equal([first.unlock(name, 't1'), second.look(name).first.first, second.unlock(name, 't2')], [0, 't2', 1])
end

def excludes
  name = fresh
  held = Queue.new
  callers = Array.new(8) do |index|
    Thread.new do
      owner = Majority.new([AGENTS[index % 2]])
      3.times do
        token = SecureRandom.uuid
        locked(owner, name, token, 4000)
        start = now
        sleep 0.002
        held << [start, now]
        owner.unlock(name, token)
      end
    end
  end
  callers.each(&:join)
  times = Array.new(held.size) { held.pop }.sort
  equal([times.size, times.each_cons(2).count { |one, two| two[0] < one[1] }], [24, 0])
end

def counts_nothing
  Redis.new(url: AGENTS[0]).incr(fresh)
  raise 'it is not refused'
rescue Redis::CommandError => e
  raise unless e.message.start_with?('NOTALOCK ')
end

puts "version redis-rb through an agent Ruby #{Redis::VERSION}"
check("#{CLIENT}, a second owner is refused, extends") { refuses_and_extends }
check("#{CLIENT}, expires, and a lost lock is not released") { expires }
check("#{CLIENT}, eight callers, no overlap") { excludes }
check('redis-rb through an agent: a counter is refused by name') { counts_nothing }
finish
