package interop;

import static interop.Nodes.await;
import static interop.Nodes.fresh;
import static interop.Nodes.outcome;
import static interop.Nodes.start;
import static interop.Report.between;
import static interop.Report.equal;
import static interop.Report.expect;

import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.SetParams;

/** Jedis on one node. */
final class JedisChecks {
    static final String UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then"
            + " return redis.call('del', KEYS[1]) else return 0 end";

    private final String url;
    private final int protocol;

    private JedisChecks(String url, int protocol) {
        this.url = url;
        this.protocol = protocol;
    }

    static void run(Report report, String url, int protocol) {
        String with = " with RESP" + protocol;
        var jedis = new JedisChecks(url, protocol);
        report.check("Jedis: strings and hashes" + with, jedis::stores);
        report.check("Jedis: SET NX PX and a script" + with, jedis::locks);
        report.check("Jedis: transactions" + with, jedis::transacts);
        report.check("Jedis: pipelining" + with, jedis::pipelines);
        report.check("Jedis: channels" + with, jedis::listens);
    }

    private Jedis connect() {
        var config = DefaultJedisClientConfig.builder()
                .protocol(protocol == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2)
                .clientName("interop")
                .build();
        URI node = URI.create(url);
        return new Jedis(new HostAndPort(node.getHost(), node.getPort()), config);
    }

    private void stores() {
        try (Jedis client = connect()) {
            String key = fresh();
            equal(client.ping(), "PONG");
            equal(client.clientGetname(), "interop");
            equal(client.set(key, "1"), "OK");
            equal(client.incrBy(key, 41), 42L);
            equal(client.get(key), "42");
            equal(client.get(fresh()) == null, true);
            equal(client.del(key), 1L);
            equal(client.hset(key, Map.of("a", "1", "b", "2")), 2L);
            equal(client.hgetAll(key), Map.of("a", "1", "b", "2"));
            equal(client.expire(key, 30), 1L);
            between(client.pttl(key), 20_000, 30_000);
            client.del(key);
        }
    }

    private void locks() {
        try (Jedis client = connect()) {
            String key = fresh();
            var params = SetParams.setParams().nx().px(30_000);
            equal(client.set(key, "t1", params), "OK");
            equal(client.set(key, "t2", params) == null, true);
            equal(client.eval(UNLOCK, List.of(key), List.of("t2")), 0L);
            String digest = client.scriptLoad(UNLOCK);
            equal(client.evalsha(digest, List.of(key), List.of("t1")), 1L);
            try {
                client.evalsha("0".repeat(40));
                throw new AssertionError("an unknown script was run");
            } catch (JedisNoScriptException expected) {
                equal(client.exists(key), false);
            }
        }
    }

    private void transacts() {
        try (Jedis client = connect(); Jedis other = connect()) {
            String key = fresh();
            var transaction = client.multi();
            transaction.set(key, "1");
            transaction.incr(key);
            equal(transaction.exec(), List.of("OK", 2L));
            client.watch(key);
            other.incr(key);
            var stale = client.multi();
            stale.set(key, "9");
            equal(stale.exec() == null, true);
            var spoilt = client.multi();
            spoilt.set(key, "9");
            spoilt.sendCommand("NOSUCHCOMMAND"::getBytes, new byte[0]);
            try {
                spoilt.exec();
                throw new AssertionError("half of a transaction was executed");
            } catch (JedisDataException expected) {
                expect(expected.getMessage().startsWith("EXECABORT"), expected.getMessage());
            }
            equal(other.get(key), "3");
            other.del(key);
        }
    }

    private void pipelines() {
        try (Jedis client = connect()) {
            String key = fresh();
            var pipeline = client.pipelined();
            for (int number = 0; number < 300; number++) {
                pipeline.psetex(key, 30_000, Integer.toString(number));
                pipeline.get(key);
            }
            List<Object> replies = pipeline.syncAndReturnAll();
            for (int number = 0; number < 300; number++) {
                equal(replies.get(2 * number), "OK");
                equal(replies.get(2 * number + 1), Integer.toString(number));
            }
            client.del(key);
        }
    }

    private void listens() throws Exception {
        String channel = fresh();
        var heard = new StringBuffer();
        var listener = new JedisPubSub() {
            @Override
            public void onMessage(String name, String message) {
                heard.append(message);
                unsubscribe();
            }
        };
        Future<Void> listening = start(() -> {
            try (Jedis client = connect()) {
                client.subscribe(listener, channel);
                // The connection serves for other commands again.
                equal(client.ping(), "PONG");
            }
            return null;
        });
        try (Jedis client = connect()) {
            await("a listener", () -> client.pubsubNumSub(channel).get(channel) == 1L);
            equal(client.publish(channel, "hello"), 1L);
        }
        outcome(listening);
        equal(heard.toString(), "hello");
    }
}
