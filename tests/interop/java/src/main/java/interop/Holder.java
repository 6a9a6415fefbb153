package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Holds Redisson's RedLock over all nodes: its RLock on each, by a client for each. The arguments are the name and how long, in seconds.
 * Prints {@code held} and the field of each node, and releases it at the end of its input.
 */
public final class Holder {
    private Holder() {}

    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        List<RedissonClient> clients = new ArrayList<>();
        for (String url : System.getenv("QUORLOCK_NODES").split(",")) {
            clients.add(Nodes.redisson(url, 2));
        }
        RLock[] locks =
                clients.stream().map(client -> client.getLock(arguments[0])).toArray(RLock[]::new);
        RLock lock = clients.get(0).getRedLock(locks);
        if (!lock.tryLock(0, Long.parseLong(arguments[1]), TimeUnit.SECONDS)) {
            System.out.println("refused");
            System.exit(1);
        }
        long thread = Thread.currentThread().getId();
        var said = new StringBuilder("held");
        for (var client : clients) said.append(' ').append(client.getId()).append(':').append(thread);
        System.out.println(said);
        while (System.in.read() >= 0) {
            // Whoever started this says when it is over.
        }
        lock.unlock();
        System.out.println("released");
        System.exit(0);
    }
}
