package interop;

import static interop.Nodes.await;
import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.between;
import static interop.Report.equal;
import static interop.Report.expect;

import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/** Redisson's semaphores, latch and topic on one node. */
final class RedissonCounters {
    private final RedissonClient first;
    private final RedissonClient second;

    private RedissonCounters(String url, int protocol) {
        first = Nodes.redisson(url, protocol);
        second = Nodes.redisson(url, protocol);
    }

    static void run(Report report, String url, int protocol) {
        String with = " with RESP" + protocol;
        var counters = new RedissonCounters(url, protocol);
        report.check("Redisson: semaphore, a release wakes a waiter" + with, counters::semaphore);
        report.check("Redisson: semaphore whose permits expire" + with, counters::expirable);
        report.check("Redisson: count-down latch" + with, counters::latch);
        report.check("Redisson: topic" + with, counters::topic);
    }

    private void semaphore() throws Exception {
        String name = fresh();
        var one = first.getSemaphore(name);
        var two = second.getSemaphore(name);
        expect(one.trySetPermits(3), "the permits were set already");
        expect(!two.trySetPermits(5), "the permits were set twice");
        one.acquire(2);
        expect(!two.tryAcquire(2), "four permits of three were given");
        equal(two.availablePermits(), 1);
        Future<Boolean> waiter = start(() -> two.tryAcquire(2, java.time.Duration.ofSeconds(8)));
        await("the waiter listens",
                () -> second.getTopic("redisson_sc:{" + name + "}").countSubscribers() == 1);
        one.release();
        expect(outcome(waiter), "the waiter got no permits");
        equal(one.availablePermits(), 0);
        one.delete();
    }

    private void expirable() throws Exception {
        String name = fresh();
        var one = first.getPermitExpirableSemaphore(name);
        var two = second.getPermitExpirableSemaphore(name);
        expect(one.trySetPermits(2), "the permits were set already");
        String kept = one.acquire(30, TimeUnit.SECONDS);
        String brief = one.acquire(300, TimeUnit.MILLISECONDS);
        equal(two.tryAcquire() == null, true);
        String next = two.tryAcquire(5, 30, TimeUnit.SECONDS);
        expect(next != null, "a permit did not expire");
        expect(!one.tryRelease(brief), "an expired permit was given back");
        expect(one.updateLeaseTime(kept, 60, TimeUnit.SECONDS), "a permit was not prolonged");
        between(one.getLeaseTime(kept), 40_000, 60_000);
        equal(one.acquiredPermits(), 2);
        one.release(kept);
        two.release(next);
        equal(two.availablePermits(), 2);
        one.delete();
    }

    private void latch() throws Exception {
        String name = fresh();
        var one = first.getCountDownLatch(name);
        expect(one.trySetCount(2), "the count was set already");
        Future<Boolean> waiter =
                start(() -> second.getCountDownLatch(name).await(8, TimeUnit.SECONDS));
        await("the waiter listens",
                () -> second.getTopic("redisson_countdownlatch__channel__{" + name + "}")
                        .countSubscribers() == 1);
        one.countDown();
        expect(!waiter.isDone(), "the waiter went on at 1");
        one.countDown();
        expect(outcome(waiter), "the waiter was not woken at 0");
        equal(one.getCount(), 0L);
    }

    private void topic() throws Exception {
        String name = fresh();
        var heard = new SynchronousQueue<String>();
        second.getTopic(name).addListener(String.class, (channel, message) -> {
            try {
                heard.offer(message, 8, TimeUnit.SECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        equal(first.getTopic(name).publish("hello"), 1L);
        equal(heard.poll(8, TimeUnit.SECONDS), "hello");
        second.getTopic(name).removeAllListeners();
        equal(first.getTopic(name).publish("nobody"), 0L);
    }
}
