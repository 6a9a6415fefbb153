package interop;

import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/** What the checks of Redisson share: clients, names, waiting, callers in threads of their own. */
final class Nodes {
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(run -> {
        var thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    });

    private Nodes() {}

    /** A client with Redisson's defaults, which opens 25 connections. */
    static RedissonClient redisson(String url, int protocol) {
        return Redisson.create(config(url, protocol));
    }

    static Config config(String url, int protocol) {
        var config = new Config();
        config.setProtocol(protocol == 3 ? Protocol.RESP3 : Protocol.RESP2);
        config.useSingleServer().setAddress(url);
        return config;
    }

    static String fresh() {
        return "interop:" + UUID.randomUUID();
    }

    static <T> Future<T> start(Callable<T> work) {
        return THREADS.submit(work);
    }

    /** What a thread came to, which may take ten seconds. */
    static <T> T outcome(Future<T> future) throws Exception {
        return future.get(10, TimeUnit.SECONDS);
    }

    static void await(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!holds.call()) {
            Report.expect(System.nanoTime() < end, "10 s passed, and not yet: " + what);
            Thread.sleep(5);
        }
    }
}
