package interop;

import static interop.Nodes.await;
import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.between;
import static interop.Report.equal;
import static interop.Report.expect;

import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;

/** Redisson's locks on one node. The second owner is another client, as another process would be. */
final class RedissonLocks {
    private final String url;
    private final int protocol;
    private final RedissonClient first;
    private final RedissonClient second;

    private RedissonLocks(String url, int protocol) {
        this.url = url;
        this.protocol = protocol;
        first = Nodes.redisson(url, protocol);
        second = Nodes.redisson(url, protocol);
    }

    static void run(Report report, String url, int protocol) {
        String with = " with RESP" + protocol;
        report.check("Redisson: connects with its defaults" + with, () -> {
            RedissonClient client = Nodes.redisson(url, protocol);
            equal(client.getBucket(fresh()).isExists(), false);
            client.shutdown(0, 2, TimeUnit.SECONDS);
        });
        var locks = new RedissonLocks(url, protocol);
        report.check("Redisson: RLock, a second owner is refused" + with, locks::refuses);
        report.check("Redisson: RLock, an unlock wakes a waiter" + with, locks::wakes);
        report.check("Redisson: RLock, reentrancy" + with, locks::reenters);
        report.check("Redisson: RLock, a foreign unlock is refused" + with, locks::protectsOwner);
        report.check("Redisson: RLock, expires" + with, locks::expires);
        report.check("Redisson: RLock, the watchdog renews" + with, locks::renews);
        report.check("Redisson: RLock, ten callers, no overlap" + with, locks::excludes);
        report.check("Redisson: fair lock, in the order of asking" + with, locks::keepsOrder);
        report.check("Redisson: read-write lock" + with, locks::readsAndWrites);
        report.check("Redisson: fenced lock, tokens rise" + with, locks::fences);
        report.check("Redisson: fenced lock, beside fences of the node" + with, locks::fencesBesideTheNodes);
        report.check("Redisson: spin lock" + with, locks::spins);
        report.check("Redisson: multi lock" + with, locks::locksSeveral);
    }

    private void refuses() throws Exception {
        String name = fresh();
        RLock lock = first.getLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        between(lock.remainTimeToLive(), 20_000, 30_000);
        expect(lock.isHeldByCurrentThread(), "the owner does not know its lock");
        expect(!second.getLock(name).tryLock(0, 30, TimeUnit.SECONDS), "a second owner got the lock");
        lock.unlock();
        expect(!lock.isLocked(), "an unlock left the lock");
    }

    private void wakes() throws Exception {
        String name = fresh();
        RLock lock = first.getLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        Future<Long> waiter = start(() -> {
            RLock waiting = second.getLock(name);
            expect(waiting.tryLock(20, 30, TimeUnit.SECONDS), "the waiter got no lock");
            long at = System.nanoTime();
            waiting.unlock();
            return at;
        });
        await("the waiter listens", () -> listeners("redisson_lock__channel:{" + name + "}") == 1);
        long unlocked = System.nanoTime();
        lock.unlock();
        // The lease had 30 s to go: only the message can have woken it by then.
        between(TimeUnit.NANOSECONDS.toMillis(outcome(waiter) - unlocked), 0, 3_000);
    }

    private long listeners(String channel) {
        // Redisson has no command for it; its own connections are counted by the node.
        return second.getTopic(channel, StringCodec.INSTANCE).countSubscribers();
    }

    private void reenters() throws Exception {
        String name = fresh();
        RLock lock = first.getLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        lock.lock(30, TimeUnit.SECONDS);
        equal(lock.getHoldCount(), 2);
        lock.unlock();
        equal(lock.getHoldCount(), 1);
        expect(!second.getLock(name).tryLock(), "a lock was given away that is still held once");
        lock.unlock();
        expect(second.getLock(name).tryLock(0, 5, TimeUnit.SECONDS), "the lock is not free");
        second.getLock(name).unlock();
    }

    private void protectsOwner() {
        String name = fresh();
        RLock lock = first.getLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        boolean refused = false;
        try {
            second.getLock(name).unlock();
        } catch (IllegalMonitorStateException expected) {
            refused = true;
        }
        expect(refused, "a foreign unlock passed");
        expect(lock.isHeldByCurrentThread(), "a foreign unlock took the lock");
        expect(second.getLock(name).forceUnlock(), "an unlock by force was refused");
        expect(!lock.isLocked(), "an unlock by force left the lock");
    }

    private void expires() throws Exception {
        String name = fresh();
        first.getLock(name).lock(400, TimeUnit.MILLISECONDS);
        RLock other = second.getLock(name);
        expect(!other.tryLock(), "a second owner got the lock");
        long from = System.nanoTime();
        expect(other.tryLock(5, 5, TimeUnit.SECONDS), "the lock did not expire");
        between(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - from), 100, 3_000);
        other.unlock();
    }

    /** A lock without a lease is renewed every third of the watchdog's time. */
    private void renews() throws Exception {
        String name = fresh();
        var config = Nodes.config(url, protocol);
        config.setLockWatchdogTimeout(900);
        RedissonClient owner = Redisson.create(config);
        RLock lock = owner.getLock(name);
        lock.lock();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2_000);
        while (System.nanoTime() < end) {
            between(lock.remainTimeToLive(), 1, 900);
            Thread.sleep(50);
        }
        lock.unlock();
        owner.shutdown(0, 2, TimeUnit.SECONDS);
        expect(!second.getLock(name).isLocked(), "an unlock left the lock");
    }

    private void excludes() throws Exception {
        String name = fresh();
        List<long[]> held = Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> callers = new ArrayList<>();
        for (int caller = 0; caller < 10; caller++) {
            RLock lock = (caller % 2 == 0 ? first : second).getLock(name);
            callers.add(start(() -> {
                for (int round = 0; round < 3; round++) {
                    lock.lock(30, TimeUnit.SECONDS);
                    long from = System.nanoTime();
                    Thread.sleep(2);
                    held.add(new long[] {from, System.nanoTime()});
                    lock.unlock();
                }
                return null;
            }));
        }
        for (Future<Void> caller : callers) outcome(caller);
        expectNoOverlap(held, 30);
    }

    static void expectNoOverlap(List<long[]> held, int count) {
        equal(held.size(), count);
        held.sort((one, two) -> Long.compare(one[0], two[0]));
        for (int index = 1; index < held.size(); index++) {
            expect(held.get(index)[0] >= held.get(index - 1)[1], "two callers held it at once");
        }
    }

    private void keepsOrder() throws Exception {
        String name = fresh();
        RLock lock = first.getFairLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> waiters = new ArrayList<>();
        for (int waiter = 0; waiter < 4; waiter++) {
            int number = waiter;
            RedissonClient client = waiter % 2 == 0 ? first : second;
            waiters.add(start(() -> {
                RLock waiting = client.getFairLock(name);
                waiting.lock(30, TimeUnit.SECONDS);
                order.add(number);
                waiting.unlock();
                return null;
            }));
            String queue = "redisson_lock_queue:{" + name + "}";
            await("a waiter is in the queue", () -> length(queue) == number + 1);
        }
        lock.unlock();
        for (Future<Void> waiter : waiters) outcome(waiter);
        equal(order, List.of(0, 1, 2, 3));
    }

    private long length(String list) {
        return second.getScript(StringCodec.INSTANCE)
                .eval(RScript.Mode.READ_ONLY, "return redis.call('llen', KEYS[1])",
                        RScript.ReturnType.LONG, List.of(list));
    }

    private void readsAndWrites() throws Exception {
        String name = fresh();
        var one = first.getReadWriteLock(name);
        var two = second.getReadWriteLock(name);
        one.readLock().lock(30, TimeUnit.SECONDS);
        expect(two.readLock().tryLock(0, 30, TimeUnit.SECONDS), "a second reader was refused");
        expect(!two.writeLock().tryLock(), "a writer got in beside readers");
        two.readLock().unlock();
        Future<Boolean> writer = start(() -> {
            boolean got = two.writeLock().tryLock(20, 30, TimeUnit.SECONDS);
            two.readLock().lock(30, TimeUnit.SECONDS);
            two.writeLock().unlock();
            two.readLock().unlock();
            return got;
        });
        await("the writer listens", () -> listeners("redisson_rwlock:{" + name + "}") == 1);
        one.readLock().unlock();
        expect(outcome(writer), "no writer got in after the readers");
        one.writeLock().lock(30, TimeUnit.SECONDS);
        expect(!two.readLock().tryLock(), "a reader got in beside a writer");
        expect(!two.writeLock().tryLock(), "a writer got in beside a writer");
        one.writeLock().unlock();
        expect(two.readLock().tryLock(0, 1, TimeUnit.SECONDS), "the lock is not free");
        two.readLock().unlock();
    }

    private void fences() throws Exception {
        String name = fresh();
        long last = 0;
        for (int round = 0; round < 5; round++) {
            var lock = (round % 2 == 0 ? first : second).getFencedLock(name);
            long token = lock.lockAndGetToken(30, TimeUnit.SECONDS);
            expect(token > last, "token " + token + " came after " + last);
            equal(lock.getToken(), token);
            lock.unlock();
            last = token;
        }
        first.getFencedLock(name).lock(30, TimeUnit.SECONDS);
        Long refused = second.getFencedLock(name).tryLockAndGetToken(0, 30, TimeUnit.SECONDS);
        expect(refused == null, "a second owner got token " + refused);
        first.getFencedLock(name).unlock();
    }

    /** Redisson counts in a key of its own, the node in none: under one name and beside another, both rise and neither moves the other. */
    private void fencesBesideTheNodes() throws Exception {
        String name = fresh();
        String other = fresh();
        long[] last = {0, 0, 0};
        URI node = URI.create(url);
        try (Jedis jedis = new Jedis(node.getHost(), node.getPort())) {
            if (!knowsFences(jedis)) return;
            for (int round = 0; round < 4; round++) {
                var theirs = (round % 2 == 0 ? first : second).getFencedLock(name);
                long token = theirs.lockAndGetToken(30, TimeUnit.SECONDS);
                equal(token, last[0] + 1);
                last[0] = token;
                List<?> refused = (List<?>) jedis.sendCommand(() -> "LOCK.ACQUIRE".getBytes(), name, "ours", "30000");
                equal(refused.get(0), 0L);
                last[1] = fenced(jedis, other, last[1]);
                equal(theirs.getToken(), token);
                theirs.unlock();
                last[2] = fenced(jedis, name, last[2]);
            }
        }
    }

    /** A redis-server has none. */
    private static boolean knowsFences(Jedis node) {
        try {
            node.sendCommand(() -> "LOCK.FENCE".getBytes(), fresh(), "nobody", "1");
            return true;
        } catch (JedisDataException error) {
            expect(error.getMessage().contains("unknown command"), error.getMessage());
            return false;
        }
    }

    /** Takes and frees a lock of the node's, whose fence is one above the last, while Redisson gets none under its name. */
    private long fenced(Jedis node, String name, long last) {
        List<?> granted = (List<?>) node.sendCommand(() -> "LOCK.ACQUIRE".getBytes(), name, "ours", "30000");
        equal(granted.subList(0, 2), List.of(1L, last));
        String fence = String.valueOf(last + 1);
        Object taken = node.sendCommand(() -> "LOCK.FENCE".getBytes(), name, "ours", fence);
        equal(taken, List.of(1L, last + 1));
        try {
            Long token = second.getFencedLock(name).tryLockAndGetToken();
            expect(token == null, "Redisson got token " + token + " beside the node's lock");
        } catch (RedisException wrongType) {
            expect(wrongType.getMessage().contains("WRONGTYPE"), wrongType.getMessage());
        }
        equal(node.get(name), "ours");
        equal(node.sendCommand(() -> "LOCK.RELEASE".getBytes(), name, "ours"), 1L);
        return last + 1;
    }

    private void spins() throws Exception {
        String name = fresh();
        RLock lock = first.getSpinLock(name);
        lock.lock(30, TimeUnit.SECONDS);
        expect(!second.getSpinLock(name).tryLock(), "a second owner got the lock");
        Future<Boolean> waiter = start(() -> {
            boolean got = second.getSpinLock(name).tryLock(8, 5, TimeUnit.SECONDS);
            second.getSpinLock(name).unlock();
            return got;
        });
        lock.unlock();
        expect(outcome(waiter), "the spinning waiter got no lock");
    }

    private void locksSeveral() throws Exception {
        String[] names = {fresh(), fresh(), fresh()};
        RLock all = first.getMultiLock(
                first.getLock(names[0]), first.getLock(names[1]), first.getLock(names[2]));
        second.getLock(names[1]).lock(30, TimeUnit.SECONDS);
        expect(!all.tryLock(0, 30, TimeUnit.SECONDS), "one of three was held by somebody else");
        expect(!first.getLock(names[0]).isLocked(), "a failed multi lock kept its first lock");
        second.getLock(names[1]).unlock();
        expect(all.tryLock(1, 30, TimeUnit.SECONDS), "three free locks were refused");
        for (String name : names) expect(second.getLock(name).isLocked(), name + " is free");
        all.unlock();
        for (String name : names) expect(!second.getLock(name).isLocked(), name + " is left");
    }
}
