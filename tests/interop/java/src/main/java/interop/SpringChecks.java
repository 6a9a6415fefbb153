package interop;

import static interop.Nodes.await;
import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.between;
import static interop.Report.expect;

import io.lettuce.core.RedisClient;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/** The lock registry of Spring Integration, and ShedLock, on one node through Lettuce. */
final class SpringChecks {
    private final LettuceConnectionFactory factory;
    private final StringRedisTemplate template;
    private final RedisClient lettuce;

    private SpringChecks(String url) {
        URI node = URI.create(url);
        factory = new LettuceConnectionFactory(node.getHost(), node.getPort());
        factory.afterPropertiesSet();
        factory.start();
        template = new StringRedisTemplate(factory);
        lettuce = RedisClient.create(url);
    }

    static void run(Report report, String url) throws Exception {
        var spring = new SpringChecks(url);
        report.version("spring-integration",
                RedisLockRegistry.class.getPackage().getImplementationVersion());
        report.check("spring-integration: a second owner is refused",
                () -> spring.refuses(RedisLockType.SPIN_LOCK));
        report.check("spring-integration: a second owner is refused, with channels",
                () -> spring.refuses(RedisLockType.PUB_SUB_LOCK));
        report.check("spring-integration: an unlock wakes a waiter through a pattern of channels",
                spring::wakes);
        report.check("spring-integration: renews, and a lost lock is noticed", spring::renews);
        report.version("ShedLock", "net.javacrumbs.shedlock", "shedlock-provider-redis-spring");
        report.check("ShedLock: one of two runs a job, extends, keeps it for its least time",
                spring::schedules);
    }

    private RedisLockRegistry registry(String name, RedisLockType type) {
        var registry = new RedisLockRegistry(factory, name, 30_000);
        registry.setRedisLockType(type);
        return registry;
    }

    private void refuses(RedisLockType type) throws Exception {
        String name = fresh();
        Lock lock = registry(name, type).obtain("key");
        Lock other = registry(name, type).obtain("key");
        lock.lock();
        lock.lock();
        between(template.getExpire(name + ":key", TimeUnit.MILLISECONDS), 20_000, 30_000);
        expect(!outcome(start(() -> other.tryLock(300, TimeUnit.MILLISECONDS))),
                "a second owner got the lock");
        lock.unlock();
        expect(template.hasKey(name + ":key"), "a lock was given away that is still held once");
        lock.unlock();
        expect(!template.hasKey(name + ":key"), "an unlock left the lock");
        expect(other.tryLock(), "the lock is not free");
        other.unlock();
    }

    private void wakes() throws Exception {
        String name = fresh();
        Lock lock = registry(name, RedisLockType.PUB_SUB_LOCK).obtain("key");
        Lock other = registry(name, RedisLockType.PUB_SUB_LOCK).obtain("key");
        lock.lock();
        Future<Long> waiter = start(() -> {
            expect(other.tryLock(20, TimeUnit.SECONDS), "the waiter got no lock");
            long at = System.nanoTime();
            other.unlock();
            return at;
        });
        try (var connection = lettuce.connect()) {
            await("the waiter listens", () -> connection.sync().pubsubNumpat() > 0);
        }
        long unlocked = System.nanoTime();
        lock.unlock();
        between(TimeUnit.NANOSECONDS.toMillis(outcome(waiter) - unlocked), 0, 3_000);
    }

    private void renews() throws Exception {
        String name = fresh();
        var registry = registry(name, RedisLockType.SPIN_LOCK);
        Lock lock = registry.obtain("key");
        lock.lock();
        template.expire(name + ":key", Duration.ofSeconds(5));
        registry.renewLock("key");
        between(template.getExpire(name + ":key", TimeUnit.MILLISECONDS), 20_000, 30_000);
        template.delete(name + ":key");
        boolean noticed = false;
        try {
            registry.renewLock("key");
        } catch (IllegalStateException expected) {
            noticed = true;
        }
        expect(noticed, "a lost lock was renewed");
    }

    private void schedules() throws Exception {
        String name = fresh();
        var first = new RedisLockProvider(factory, name);
        var second = new RedisLockProvider(factory, name);
        var job = new LockConfiguration(
                Instant.now(), "job", Duration.ofSeconds(30), Duration.ofMillis(300));
        SimpleLock lock = first.lock(job).orElseThrow();
        expect(second.lock(job).isEmpty(), "both run the job");
        SimpleLock extended = lock.extend(Duration.ofSeconds(60), Duration.ofMillis(300))
                .orElseThrow();
        extended.unlock();
        expect(second.lock(job).isEmpty(), "the job was not kept for its least time");
        await("the least time is over", () -> second.lock(job).isPresent());
    }
}
