package interop;

import java.util.List;
import java.util.logging.LogManager;

/** All checks with clients of Java. QUORLOCK_NODES names the nodes. */
public final class Checks {
    private Checks() {}

    public static void main(String[] arguments) throws Exception {
        // Drivers log what they try at connecting, such as commands that came with later versions.
        LogManager.getLogManager().reset();
        List<String> urls = List.of(System.getenv("QUORLOCK_NODES").split(","));
        String delayed = System.getenv().getOrDefault("QUORLOCK_DELAYED", "");
        var report = new Report();
        if (delayed.isEmpty()) {
            report.version("Redisson", "org.redisson", "redisson");
            report.version("Jedis", "redis.clients", "jedis");
            report.version("Lettuce", "io.lettuce", "lettuce-core");
            for (int protocol : new int[] {2, 3}) {
                JedisChecks.run(report, urls.get(0), protocol);
                LettuceChecks.run(report, urls.get(0), protocol);
                RedissonLocks.run(report, urls.get(0), protocol);
                RedissonCounters.run(report, urls.get(0), protocol);
            }
        }
        if (delayed.isEmpty()) SpringChecks.run(report, urls.get(0));
        RedissonNodes.run(report, urls, delayed);
        if (delayed.isEmpty()) Rights.run(report, urls.get(0));
        System.out.println("done");
        // Clients stay open: to close those of Redisson takes longer than all checks.
        System.exit(report.hasFailed() ? 1 : 0);
    }
}
