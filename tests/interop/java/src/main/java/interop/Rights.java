package interop;

import static interop.Nodes.fresh;
import static interop.Report.expect;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;

/** A user with exactly the rights that the book gives for Redisson's lock, and with one right less. */
final class Rights {
    private static final String LIBRARY = "Redisson `RLock`";

    private final String url;

    private Rights(String url) {
        this.url = url;
    }

    static void run(Report report, String url) throws Exception {
        var rights = new Rights(url);
        List<String> rules = rules();
        report.check("Redisson: works with the rights of the book",
                () -> expect(rights.works(rules), "not with " + rules));
        report.check("Redisson: fails with one right less", () -> {
            List<String> needless = new ArrayList<>();
            for (String rule : rules) {
                var fewer = new ArrayList<>(rules);
                fewer.remove(rule);
                if (rights.works(fewer)) needless.add(rule);
            }
            expect(needless.isEmpty(), "nothing needs " + needless);
        });
    }

    /** All rules in the row of the book's table: those of commands, keys and channels. */
    private static List<String> rules() throws Exception {
        for (String line : Files.readAllLines(Path.of(System.getenv("QUORLOCK_RIGHTS")))) {
            if (!line.startsWith("| " + LIBRARY + " |")) continue;
            List<String> rules = new ArrayList<>();
            var spans = Pattern.compile("`([+~&][^`]+)`").matcher(line);
            while (spans.find()) rules.addAll(Arrays.asList(spans.group(1).replace("\\|", "|").split(" ")));
            return rules;
        }
        throw new AssertionError("no rules for " + LIBRARY);
    }

    /** Whether a lock is taken, waited for, refused, extended and released by a user with these rules. */
    private boolean works(List<String> rules) throws Exception {
        String user = "interop-" + UUID.randomUUID();
        try (var admin = new Jedis(url)) {
            List<String> arguments = new ArrayList<>(List.of("SETUSER", user, "on", ">pw", "~interop:*", "+ping"));
            arguments.addAll(rules);
            admin.sendCommand(Protocol.Command.ACL, arguments.toArray(String[]::new));
            RedissonClient client = null;
            try {
                admin.scriptFlush();
                client = client(user);
                return holds(client, admin);
            } catch (Exception | AssertionError refused) {
                return false;
            } finally {
                if (client != null) client.shutdown(0, 1, TimeUnit.SECONDS);
                admin.sendCommand(Protocol.Command.ACL, "DELUSER", user);
            }
        }
    }

    private RedissonClient client(String user) {
        var config = Nodes.config(url, 2);
        config.setLockWatchdogTimeout(1_500);
        config.useSingleServer().setUsername(user).setPassword("pw").setRetryAttempts(0).setTimeout(1_500)
                .setConnectionMinimumIdleSize(2).setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(2);
        return Redisson.create(config);
    }

    private static boolean holds(RedissonClient client, Jedis admin) throws Exception {
        String name = fresh();
        RLock lock = client.getLock(name);
        // Without a lease the watchdog extends it, every half second.
        expect(lock.tryLock(), "a free lock was refused");
        // Twice in, twice out.
        expect(lock.tryLock(), "its holder was refused");
        lock.unlock();
        admin.pexpire(name, 1_200);
        var waiter = Nodes.start(() -> {
            boolean got = client.getLock(name).tryLock(4, 10, TimeUnit.SECONDS);
            if (got) client.getLock(name).unlock();
            return got;
        });
        Thread.sleep(1_700);
        if (admin.pttl(name) <= 0 || waiter.isDone()) return false;
        lock.unlock();
        if (!Nodes.outcome(waiter) || admin.exists(name)) return false;
        String channel = "redisson_lock__channel:{" + name + "}";
        Nodes.await("nobody listens any more", () -> admin.pubsubNumSub(channel).get(channel) == 0);
        return true;
    }
}
