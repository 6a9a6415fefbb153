//! Which commands touch a key that somebody watches: those that redis-server 7.0.15 lets touch it, also where they change
//! nothing.

use quorlock_engine::WatchedKey;

use crate::harness::Node;

#[test]
fn a_watched_key_is_touched_by_the_commands_that_touch_it_in_redis() {
    for (setup, command, touched) in TABLE {
        let mut node = Node::default();
        for line in setup.split("; ").filter(|line| !line.is_empty()) {
            let reply = node.run(line);
            assert!(!reply.starts_with("ERR"), "{line}: {reply}");
        }
        let watched: Vec<(&str, WatchedKey)> = ["k", "d"]
            .into_iter()
            .map(|key| (key, node.engine.watch(node.now.node, 0, key.as_bytes())))
            .collect();
        node.run(command);
        let mut found = String::new();
        for (key, watched) in &watched {
            if watched.has_changed(node.now.node) {
                found.push_str(key);
            }
        }
        assert_eq!(found, *touched, "{setup} | {command}");
        node.engine
            .unwatch(watched.into_iter().map(|(_, watched)| watched));
    }
}

/// What is there, a command, and which of the keys `k` and `d` it touches.
#[rustfmt::skip]
const TABLE: &[(&str, &str, &str)] = &[
    ("RPUSH k a b c", "LTRIM k 0 -1", "k"),
    ("RPUSH k a b c", "LTRIM k 0 10", "k"),
    ("RPUSH k a b c", "LTRIM k 5 10", "k"),
    ("", "LTRIM k 0 -1", ""),
    ("RPUSH k a", "LMOVE k k LEFT RIGHT", "k"),
    ("RPUSH k a", "LMOVE k k LEFT LEFT", "k"),
    ("RPUSH k a b", "LMOVE k k LEFT LEFT", "k"),
    ("RPUSH k a a", "LMOVE k k LEFT RIGHT", "k"),
    ("RPUSH k a", "RPOPLPUSH k k", "k"),
    ("RPUSH k a", "BLMOVE k k LEFT RIGHT 0", "k"),
    ("RPUSH k a", "BRPOPLPUSH k k 0", "k"),
    ("", "LMOVE k d LEFT RIGHT", ""),
    ("RPUSH k a; RPUSH d b", "LMOVE k d LEFT RIGHT", "kd"),
    ("RPUSH k a", "LSET k 0 a", "k"),
    ("RPUSH k a", "LSET k 5 a", ""),
    ("RPUSH k a", "LREM k 0 z", ""),
    ("RPUSH k a", "LINSERT k BEFORE z b", ""),
    ("RPUSH k a", "LPOP k 0", ""),
    ("RPUSH k a", "RPOP k 0", ""),
    ("", "LPOP k", ""),
    ("", "LPUSHX k a", ""),
    ("RPUSH k a", "LMPOP 2 d k LEFT COUNT 1", "k"),
    ("", "LMPOP 1 k LEFT", ""),
    ("SADD k a", "SADD k a", ""),
    ("SADD k a", "SREM k z", ""),
    ("SADD k a", "SMOVE k d z", ""),
    ("SADD k a", "SMOVE k k a", ""),
    ("SADD k a; SADD d a", "SMOVE k d a", "k"),
    ("SADD k a", "SPOP k 0", ""),
    ("", "SPOP k", ""),
    ("SADD k a", "SDIFFSTORE k k", "k"),
    ("SADD k a", "SINTERSTORE k k", "k"),
    ("SADD k a", "SUNIONSTORE k k", "k"),
    ("SADD k a", "SINTERSTORE d none none2", ""),
    ("", "SINTERSTORE k none none2", ""),
    ("SADD k a", "SINTERSTORE k none none2", "k"),
    ("ZADD k 1 a", "ZADD k 1 a", ""),
    ("ZADD k 1 a", "ZADD k NX 2 a", ""),
    ("ZADD k 1 a", "ZADD k XX 2 b", ""),
    ("ZADD k 1 a", "ZADD k GT 0 a", ""),
    ("ZADD k 1 a", "ZADD k XX GT 1 a", ""),
    ("ZADD k 1 a", "ZINCRBY k 0 a", ""),
    ("ZADD k 1 a", "ZADD k INCR 0 a", ""),
    ("ZADD k 1 a", "ZADD k NX INCR 0 a", ""),
    ("ZADD k 1 a", "ZREM k z", ""),
    ("ZADD k 1 a", "ZREMRANGEBYSCORE k 5 9", ""),
    ("ZADD k 1 a", "ZREMRANGEBYRANK k 5 9", ""),
    ("ZADD k 1 a", "ZREMRANGEBYLEX k [x [z", ""),
    ("ZADD k 1 a", "ZPOPMIN k 0", ""),
    ("", "ZPOPMIN k", ""),
    ("", "ZMPOP 1 k MIN", ""),
    ("ZADD k 1 a", "ZRANGESTORE k k 0 -1", "k"),
    ("ZADD k 1 a", "ZRANGESTORE k k 5 9", "k"),
    ("", "ZRANGESTORE k d 0 -1", ""),
    ("ZADD k 1 a", "ZUNIONSTORE k 1 k", "k"),
    ("", "ZUNIONSTORE k 1 d", ""),
    ("HSET k f v", "HSET k f v", "k"),
    ("HSET k f v", "HSETNX k f w", ""),
    ("HSET k f v", "HDEL k z", ""),
    ("HSET k f 1", "HINCRBY k f 0", "k"),
    ("HSET k f 1", "HINCRBYFLOAT k f 0", "k"),
    ("HSET k f v", "HMSET k f v", "k"),
    ("SET k v", "SET k v", "k"),
    ("SET k v", "SET k v NX", ""),
    ("SET k v", "SETNX k w", ""),
    ("", "SET k v XX", ""),
    ("SET k v", "SET k w NX GET", ""),
    ("SET k v", "GETSET k v", "k"),
    ("SET k v", "MSET k v", "k"),
    ("SET k v", "MSETNX k v d w", ""),
    ("SET k v", "APPEND k \"\"", "k"),
    ("", "APPEND k \"\"", "k"),
    ("SET k v", "SETRANGE k 0 \"\"", ""),
    ("", "SETRANGE k 0 \"\"", ""),
    ("SET k v", "SETRANGE k 0 v", "k"),
    ("SET k v", "SETRANGE k 5 \"\"", ""),
    ("SET k 1", "INCRBY k 0", "k"),
    ("SET k 1", "DECRBY k 0", "k"),
    ("SET k 1", "INCRBYFLOAT k 0", "k"),
    ("SET k v", "GETEX k", ""),
    ("SET k v", "GETEX k PERSIST", ""),
    ("SET k v PX 99999999", "GETEX k PERSIST", "k"),
    ("SET k v PX 99999999", "GETEX k PX 99999999", "k"),
    ("SET k v", "GETEX k PX 99999999", "k"),
    ("SET k v", "GETEX k PXAT 1", "k"),
    ("", "GETEX k PX 1000", ""),
    ("", "GETDEL k", ""),
    ("SET k v", "PERSIST k", ""),
    ("", "PERSIST k", ""),
    ("SET k v PX 99999999", "PERSIST k", "k"),
    ("SET k v", "EXPIRE k 1000", "k"),
    ("SET k v PX 99999999", "PEXPIRE k 99999999", "k"),
    ("SET k v PX 99999999", "PEXPIRE k 99999999 NX", ""),
    ("SET k v", "PEXPIRE k 1000 XX", ""),
    ("SET k v PX 99999999", "PEXPIRE k 1 GT", ""),
    ("SET k v", "EXPIRE k -1", "k"),
    ("", "EXPIRE k 1000", ""),
    ("SET k v", "RENAME k k", ""),
    ("SET k v", "RENAMENX k k", ""),
    ("SET k v; SET d w", "RENAMENX k d", ""),
    ("SET k v", "RENAME k d", "kd"),
    ("SET k v; SET d w", "RENAME k d", "kd"),
    ("SET k v; SET d w", "COPY k d", ""),
    ("SET k v; SET d w", "COPY k d REPLACE", "d"),
    ("SET k v", "COPY k d", "d"),
    ("", "COPY k d REPLACE", ""),
    ("SET k v", "MOVE k 1", "k"),
    ("", "MOVE k 1", ""),
    ("", "DEL k", ""),
    ("", "UNLINK k", ""),
    ("SET k v", "DEL k d", "k"),
    ("SET k v", "TOUCH k", ""),
    ("", "FLUSHDB", ""),
    ("SET k v", "FLUSHDB", "k"),
    ("SET k v", "FLUSHALL", "k"),
    ("SET z v", "FLUSHALL", ""),
    ("SET k v", "GET k", ""),
    ("RPUSH k a", "SET k v XX GET", ""),
    ("RPUSH k a", "SADD k a", ""),
    ("SET k v PXAT 4102444800000", "GETEX k PXAT 4102444800000", "k"),
    ("SET k v PXAT 4102444800000", "PEXPIREAT k 4102444800000", "k"),
    ("SET k v PXAT 4102444800000", "PEXPIREAT k 4102444800000 GT", ""),
    ("SET k v PXAT 4102444800000", "SET k v KEEPTTL", "k"),
    ("ZADD k 1 a 2 b", "ZADD k CH 1 a 2 b", ""),
    ("RPUSH k a", "EVAL return(redis.call('LTRIM',KEYS[1],0,-1)) 1 k", "k"),
    ("SET k v", "EVAL return(1) 1 k", ""),
];
