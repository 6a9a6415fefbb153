package interop;

import static interop.Nodes.await;
import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.between;
import static interop.Report.expect;

import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.logging.LogManager;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * Lock libraries of Java that know one Redis, against agents. QUORLOCK_AGENTS names two agents of the same nodes: the
 * first owner asks one of them, the second owner the other one.
 */
public final class AgentChecks {
    private static final String SPRING = "spring-integration through an agent";
    private static final String SHEDLOCK = "ShedLock through an agent";
    private static final String REDISSON = "Redisson through an agent";

    private final List<String> agents;
    private final List<LettuceConnectionFactory> factories = new ArrayList<>();
    private final Map<Integer, RedissonClient> clients = new HashMap<>();

    private AgentChecks(List<String> agents) {
        this.agents = agents;
        for (String url : agents) {
            URI agent = URI.create(url);
            var factory = new LettuceConnectionFactory(agent.getHost(), agent.getPort());
            factory.afterPropertiesSet();
            factory.start();
            factories.add(factory);
        }
    }

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        var checks = new AgentChecks(List.of(System.getenv("QUORLOCK_AGENTS").split(",")));
        var report = new Report();
        report.version(SPRING, RedisLockRegistry.class.getPackage().getImplementationVersion());
        report.check(SPRING + ": acquires, and a second owner is refused", checks::refuses);
        report.check(SPRING + ": renews, expires, and a lost lock is not released", checks::expires);
        report.check(SPRING + ": eight callers, no overlap", checks::excludes);
        report.check(SPRING + ": its channels are refused by name", checks::publishesNothing);
        report.version(SHEDLOCK, "net.javacrumbs.shedlock", "shedlock-provider-redis-spring");
        report.check(SHEDLOCK + ": one of two runs a job, extends, keeps it for its least time",
                checks::schedules);
        report.check(SHEDLOCK + ": expires, and a lost lock is not released", checks::endsSchedules);
        report.version(REDISSON, "org.redisson", "redisson");
        report.check(REDISSON + ": RLock's hash is refused by name", checks::keepsNoHash);
        report.check(REDISSON + ": fair, read-write, spin and fenced locks and semaphores are refused by name",
                checks::keepsNoOtherLocks);
        report.check(REDISSON + ": RBucket as a lock, a second owner is refused", checks::refusesBuckets);
        report.check(REDISSON + ": RBucket as a lock, expires, and a lost lock is not released",
                checks::endsBuckets);
        System.out.println("done");
        // Clients stay open: to close those of Redisson takes longer than all checks.
        System.exit(report.hasFailed() ? 1 : 0);
    }

    private RedisLockRegistry registry(int agent, String name, RedisLockType type, long ttlMs) {
        var registry = new RedisLockRegistry(factories.get(agent), name, ttlMs);
        registry.setRedisLockType(type);
        return registry;
    }

    private Lock lock(int agent, String name) {
        return registry(agent, name, RedisLockType.SPIN_LOCK, 4_000).obtain("key");
    }

    private void refuses() throws Exception {
        String name = fresh();
        Lock lock = lock(0, name);
        Lock other = lock(1, name);
        lock.lock();
        lock.lock();
        expect(!outcome(start(() -> other.tryLock(200, TimeUnit.MILLISECONDS))),
                "a second owner got the lock");
        lock.unlock();
        expect(!outcome(start(() -> other.tryLock())), "a lock was given away that is still held once");
        lock.unlock();
        expect(other.tryLock(), "the lock is not free");
        other.unlock();
    }

    private void expires() throws Exception {
        String name = fresh();
        var registry = registry(0, name, RedisLockType.SPIN_LOCK, 1_000);
        Lock lock = registry.obtain("key");
        Lock other = lock(1, name);
        lock.lock();
        Thread.sleep(600);
        registry.renewLock("key");
        long start = System.nanoTime();
        expect(other.tryLock(10, TimeUnit.SECONDS), "it did not end");
        between(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start), 900, 10_000);
        for (Report.Check call : List.<Report.Check>of(() -> registry.renewLock("key"), lock::unlock)) {
            boolean refused = false;
            try {
                call.run();
            } catch (IllegalStateException | ConcurrentModificationException expected) {
                refused = true;
            }
            expect(refused, "a lost lock was renewed or released");
        }
        expect(!outcome(start(() -> lock(0, name).tryLock())), "the second owner lost it");
        other.unlock();
    }

    private void excludes() throws Exception {
        String name = fresh();
        List<long[]> held = Collections.synchronizedList(new ArrayList<>());
        List<Future<Boolean>> callers = new ArrayList<>();
        for (int caller = 0; caller < 8; caller++) {
            Lock lock = lock(caller % 2, name);
            callers.add(start(() -> {
                for (int round = 0; round < 3; round++) {
                    expect(patiently(() -> lock.tryLock(60, TimeUnit.SECONDS)), "no lock within 60 s");
                    long start = System.nanoTime();
                    Thread.sleep(2);
                    held.add(new long[] {start, System.nanoTime()});
                    patiently(() -> {
                        lock.unlock();
                        return true;
                    });
                }
                return true;
            }));
        }
        for (Future<Boolean> caller : callers) caller.get(90, TimeUnit.SECONDS);
        RedissonLocks.expectNoOverlap(held, 24);
    }

    /** Asks again where the agent could not reach a majority. */
    private static boolean patiently(Callable<Boolean> call) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            try {
                return call.call();
            } catch (Exception error) {
                String why = reason(error);
                boolean away = why.startsWith("NOQUORUM") || why.startsWith("TRYAGAIN");
                if (!away || System.nanoTime() > end) throw error;
            }
            Thread.sleep(20);
        }
    }

    /** What the server answered, which libraries wrap. */
    private static String reason(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause) cause = cause.getCause();
        return String.valueOf(cause.getMessage());
    }

    private static void refusedByName(Report.Check call) throws Exception {
        String why = "nothing";
        try {
            call.run();
        } catch (Exception error) {
            why = reason(error);
        }
        expect(why.contains("NOTALOCK "), "it was refused with " + why);
    }

    /** With channels an unlock tells those who wait, which takes PUBLISH. */
    private void publishesNothing() throws Exception {
        var registry = registry(0, fresh(), RedisLockType.PUB_SUB_LOCK, 2_000);
        refusedByName(() -> {
            Lock lock = registry.obtain("key");
            lock.lock();
            lock.unlock();
        });
    }

    /** Without safeUpdate its unlock deletes the lock of whoever has it. */
    private RedisLockProvider provider(int agent, String name) {
        return new RedisLockProvider.Builder(factories.get(agent)).environment(name).safeUpdate(true).build();
    }

    private void schedules() throws Exception {
        String name = fresh();
        var first = provider(0, name);
        var second = provider(1, name);
        LockConfiguration job = job(2_000);
        SimpleLock lock = first.lock(job).orElseThrow();
        expect(second.lock(job).isEmpty(), "both run the job");
        SimpleLock extended = lock.extend(Duration.ofSeconds(4), Duration.ofSeconds(1)).orElseThrow();
        extended.unlock();
        expect(second.lock(job).isEmpty(), "the job was not kept for its least time");
        await("the least time is over", () -> second.lock(job).isPresent());
    }

    private void endsSchedules() throws Exception {
        String name = fresh();
        var second = provider(1, name);
        SimpleLock lock = provider(0, name).lock(job(1_000)).orElseThrow();
        long start = System.nanoTime();
        await("the lock ends", () -> second.lock(job(4_000)).isPresent());
        between(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start), 800, 10_000);
        lock.unlock();
        expect(second.lock(job(4_000)).isEmpty(), "the second owner lost it");
    }

    private static LockConfiguration job(long mostMs) {
        return new LockConfiguration(Instant.now(), "job", Duration.ofMillis(mostMs), Duration.ZERO);
    }

    private void keepsNoHash() throws Exception {
        RLock lock = redisson(0).getLock(fresh());
        refusedByName(() -> lock.tryLock(0, 4, TimeUnit.SECONDS));
        refusedByName(lock::isHeldByCurrentThread);
        String unlocked = "nothing";
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException error) {
            unlocked = error.getMessage();
        }
        expect(unlocked.contains("not locked by current thread"), "an unlock was answered with " + unlocked);
    }

    private void keepsNoOtherLocks() throws Exception {
        RedissonClient client = redisson(0);
        var readers = client.getReadWriteLock(fresh());
        for (RLock lock : List.of(client.getFairLock(fresh()), readers.readLock(), readers.writeLock(),
                client.getFencedLock(fresh()))) {
            refusedByName(() -> lock.tryLock(0, 4, TimeUnit.SECONDS));
        }
        refusedByName(() -> client.getSpinLock(fresh()).tryLock(0, 4, TimeUnit.SECONDS));
        refusedByName(() -> client.getSemaphore(fresh()).trySetPermits(2));
        refusedByName(() -> client.getPermitExpirableSemaphore(fresh()).trySetPermits(2));
        refusedByName(() -> client.getCountDownLatch(fresh()).trySetCount(1));
    }

    private RBucket<String> bucket(int agent, String name) {
        return redisson(agent).getBucket(name, StringCodec.INSTANCE);
    }

    private void refusesBuckets() throws Exception {
        String name = fresh();
        RBucket<String> lock = bucket(0, name);
        RBucket<String> other = bucket(1, name);
        expect(lock.setIfAbsent("first", Duration.ofSeconds(4)), "a free lock was refused");
        expect(!other.setIfAbsent("second", Duration.ofSeconds(4)), "a second owner got the lock");
        expect(!other.compareAndSet("second", null), "another than the owner released it");
        expect(lock.compareAndSet("first", null), "the owner did not release it");
        expect(other.setIfAbsent("second", Duration.ofSeconds(4)), "the lock is not free");
        expect(other.compareAndSet("second", null), "the second owner did not release it");
    }

    private void endsBuckets() throws Exception {
        String name = fresh();
        RBucket<String> lock = bucket(0, name);
        RBucket<String> other = bucket(1, name);
        expect(lock.setIfAbsent("first", Duration.ofSeconds(1)), "a free lock was refused");
        long start = System.nanoTime();
        await("the lock ends", () -> other.setIfAbsent("second", Duration.ofSeconds(4)));
        between(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start), 800, 10_000);
        expect(!lock.compareAndSet("first", null), "a lost lock was released");
        expect(other.compareAndSet("second", null), "the second owner lost it");
    }

    private RedissonClient redisson(int agent) {
        return clients.computeIfAbsent(agent, index -> Nodes.redisson(agents.get(index), 2));
    }
}
