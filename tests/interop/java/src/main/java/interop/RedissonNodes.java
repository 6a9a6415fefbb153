package interop;

import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.expect;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Redisson's RedLock over all nodes. One of them may be in its restart delay and give no locks. */
final class RedissonNodes {
    private final List<RedissonClient> first = new ArrayList<>();
    private final List<RedissonClient> second = new ArrayList<>();
    /** The clients of nodes that answer. */
    private final List<RedissonClient> serving = new ArrayList<>();

    static void run(Report report, List<String> urls, String delayed) {
        String with = delayed.isEmpty() ? "" : " with a node in its restart delay";
        var nodes = new RedissonNodes();
        report.check("Redisson: RedLock, connects to all nodes" + with,
                () -> nodes.connect(urls, delayed));
        report.check("Redisson: RedLock, a second owner is refused" + with, nodes::refuses);
        report.check("Redisson: RedLock, releases on every node" + with, nodes::releases);
        report.check("Redisson: RedLock, expires" + with, nodes::expires);
        report.check("Redisson: RedLock, six callers, no overlap" + with, nodes::excludes);
    }

    private void connect(List<String> urls, String delayed) {
        for (String url : urls) {
            first.add(Nodes.redisson(url, 2));
            second.add(Nodes.redisson(url, 3));
            if (!url.equals(delayed)) serving.add(second.get(second.size() - 1));
        }
    }

    @SuppressWarnings("deprecation")
    private static RLock lock(List<RedissonClient> clients, String name) {
        RLock[] locks = clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
        return clients.get(0).getRedLock(locks);
    }

    private void refuses() throws Exception {
        String name = fresh();
        RLock lock = lock(first, name);
        expect(lock.tryLock(0, 30, TimeUnit.SECONDS), "a free lock was refused");
        expect(!lock(second, name).tryLock(0, 30, TimeUnit.SECONDS), "a second owner got the lock");
        lock.unlock();
        RLock next = lock(second, name);
        expect(next.tryLock(0, 30, TimeUnit.SECONDS), "a released lock was refused");
        next.unlock();
    }

    private void releases() throws Exception {
        String name = fresh();
        RLock lock = lock(first, name);
        expect(lock.tryLock(0, 30, TimeUnit.SECONDS), "a free lock was refused");
        for (var client : serving) expect(client.getLock(name).isLocked(), "a node has no lock");
        lock.unlock();
        for (var client : serving) expect(!client.getLock(name).isLocked(), "a node kept it");
    }

    private void expires() throws Exception {
        String name = fresh();
        expect(lock(first, name).tryLock(0, 500, TimeUnit.MILLISECONDS), "a free lock was refused");
        expect(!lock(second, name).tryLock(), "a second owner got the lock");
        RLock next = lock(second, name);
        expect(next.tryLock(8, 30, TimeUnit.SECONDS), "the lock did not expire");
        next.unlock();
    }

    private void excludes() throws Exception {
        String name = fresh();
        List<long[]> held = Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> callers = new ArrayList<>();
        for (int caller = 0; caller < 6; caller++) {
            List<RedissonClient> clients = caller % 2 == 0 ? first : second;
            callers.add(start(() -> {
                for (int round = 0; round < 2; round++) {
                    RLock lock = lock(clients, name);
                    while (!lock.tryLock(0, 30, TimeUnit.SECONDS)) {
                        Thread.sleep(Math.round(Math.random() * 60));
                    }
                    long from = System.nanoTime();
                    Thread.sleep(2);
                    held.add(new long[] {from, System.nanoTime()});
                    lock.unlock();
                }
                return null;
            }));
        }
        for (Future<Void> caller : callers) caller.get(60, TimeUnit.SECONDS);
        RedissonLocks.expectNoOverlap(held, 12);
    }
}
