package interop;

import static interop.Nodes.fresh;
import static interop.Report.between;
import static interop.Report.equal;
import static interop.Report.expect;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Lettuce on one node. */
final class LettuceChecks {
    private final RedisClient client;

    private LettuceChecks(String url, int protocol) {
        client = RedisClient.create(url);
        client.setOptions(ClientOptions.builder()
                .protocolVersion(protocol == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2)
                .build());
    }

    static void run(Report report, String url, int protocol) {
        String with = " with RESP" + protocol;
        var lettuce = new LettuceChecks(url, protocol);
        report.check("Lettuce: strings and hashes" + with, lettuce::stores);
        report.check("Lettuce: SET NX PX and a script" + with, lettuce::locks);
        report.check("Lettuce: transactions" + with, lettuce::transacts);
        report.check("Lettuce: pipelining" + with, lettuce::pipelines);
        report.check("Lettuce: channels" + with, lettuce::listens);
    }

    private void stores() {
        try (var connection = client.connect()) {
            var commands = connection.sync();
            String key = fresh();
            equal(commands.ping(), "PONG");
            equal(commands.set(key, "1"), "OK");
            equal(commands.incrby(key, 41), 42L);
            equal(commands.get(key), "42");
            equal(commands.get(fresh()) == null, true);
            equal(commands.del(key), 1L);
            equal(commands.hset(key, Map.of("a", "1", "b", "2")), 2L);
            equal(commands.hgetall(key), Map.of("a", "1", "b", "2"));
            equal(commands.pexpire(key, 30_000), true);
            between(commands.pttl(key), 20_000, 30_000);
            commands.del(key);
        }
    }

    private void locks() {
        try (var connection = client.connect()) {
            var commands = connection.sync();
            String key = fresh();
            String[] keys = {key};
            equal(commands.set(key, "t1", SetArgs.Builder.nx().px(30_000)), "OK");
            equal(commands.set(key, "t2", SetArgs.Builder.nx().px(30_000)) == null, true);
            Long foreign =
                    commands.eval(JedisChecks.UNLOCK, ScriptOutputType.INTEGER, keys, "t2");
            equal(foreign, 0L);
            String digest = commands.scriptLoad(JedisChecks.UNLOCK);
            Long own = commands.evalsha(digest, ScriptOutputType.INTEGER, keys, "t1");
            equal(own, 1L);
            try {
                commands.evalsha("0".repeat(40), ScriptOutputType.INTEGER, keys);
                throw new AssertionError("an unknown script was run");
            } catch (RedisNoScriptException expected) {
                equal(commands.exists(key), 0L);
            }
        }
    }

    private void transacts() {
        try (var connection = client.connect(); var second = client.connect()) {
            var commands = connection.sync();
            var other = second.sync();
            String key = fresh();
            commands.multi();
            commands.set(key, "1");
            commands.incr(key);
            var replies = commands.exec();
            equal(List.of(replies.get(0), replies.get(1)), List.of("OK", 2L));
            commands.watch(key);
            other.incr(key);
            commands.multi();
            commands.set(key, "9");
            expect(commands.exec().wasDiscarded(), "a watched key had changed");
            commands.multi();
            commands.set(key, "9");
            try {
                commands.dispatch("NOSUCHCOMMAND"::getBytes, new StatusOutput<>(StringCodec.UTF8));
                commands.exec();
                throw new AssertionError("half of a transaction was executed");
            } catch (RedisCommandExecutionException expected) {
                commands.getStatefulConnection();
            }
            equal(other.get(key), "3");
            other.del(key);
        }
    }

    private void pipelines() throws Exception {
        try (var connection = client.connect()) {
            var commands = connection.async();
            String key = fresh();
            List<RedisFuture<String>> replies = new ArrayList<>();
            for (int number = 0; number < 300; number++) {
                commands.psetex(key, 30_000, Integer.toString(number));
                replies.add(commands.get(key));
            }
            for (int number = 0; number < 300; number++) {
                String found = replies.get(number).get(8, TimeUnit.SECONDS);
                equal(found, Integer.toString(number));
            }
            commands.del(key).get(8, TimeUnit.SECONDS);
        }
    }

    private void listens() throws Exception {
        String channel = fresh();
        var heard = new LinkedBlockingQueue<String>();
        try (var listening = client.connectPubSub(); var connection = client.connect()) {
            listening.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String name, String message) {
                    heard.add(message);
                }

                @Override
                public void message(String pattern, String name, String message) {
                    heard.add(pattern + " " + message);
                }
            });
            listening.sync().subscribe(channel);
            equal(connection.sync().publish(channel, "hello"), 1L);
            equal(heard.poll(8, TimeUnit.SECONDS), "hello");
            listening.sync().unsubscribe(channel);
            listening.sync().psubscribe(channel.substring(0, 20) + "*");
            equal(connection.sync().publish(channel, "again"), 1L);
            equal(heard.poll(8, TimeUnit.SECONDS), channel.substring(0, 20) + "* again");
        }
    }
}
