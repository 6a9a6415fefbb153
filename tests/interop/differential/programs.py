"""Draws programs over several connections from a seed; several.py runs them.

A program draws few keys and channels and two or three subjects, so that its connections meet. `{A}` in a command is the
number of connection A.
"""

import random

from several import WAITING

STEPS_MAX = 28
CONNECTIONS = "ABCDEF"
CHANNELS = [b"c1", b"c2", b"__keyspace@0__:q1", b"__keyevent@0__:del", b"__keyevent@0__:lpush", b"__redis__:invalidate"]
CHANNEL_PATTERNS = [b"c*", b"*", b"__key*", b"c[12]"]
UNPAUSE = [b"CLIENT", b"UNPAUSE"]
SCRIPTS = [
    b"return redis.call('GET', KEYS[1])",
    b"redis.call('SET', KEYS[1], 'x') return redis.call('GET', KEYS[1])",
    b"redis.call('RPUSH', KEYS[1], 'x', 'y') return redis.call('LLEN', KEYS[1])",
    b"redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x') return redis.call('LPOP', KEYS[1])",
    b"redis.call('PUBLISH', 'c1', 'x') return redis.call('INCR', KEYS[1])",
    b"redis.call('ZADD', KEYS[1], 1, 'a') return redis.call('ZCARD', KEYS[1])",
    b"redis.call('SELECT', 1) redis.call('SET', KEYS[1], 'x') return 1",
    b"redis.call('FLUSHDB') return 1",
    b"redis.call('RPUSH', KEYS[1], 'x') return redis.call('BLPOP', KEYS[1], 0)",
    b"return redis.call('EXPIRE', KEYS[1], -1)",
]


class Drawer:
    """One program from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = CONNECTIONS[: self.random.randint(2, 6)]
        self.protocols = {name: self.pick([2, 3]) for name in self.names}
        # A pause that holds up everything ends by itself, which the other kind would put off.
        self.pauses = self.pick([[b"CLIENT", b"PAUSE", b"100000", b"WRITE"]] * 4 + [[b"CLIENT", b"PAUSE", b"3"], [b"CLIENT", b"PAUSE", b"3", b"ALL"]])
        self.queueing, self.silent = set(), set()
        subjects = [
            self.lists, self.lists, self.sorted_sets, self.strings, self.transactions, self.channels, self.tracking, self.tracking,
            self.replies, self.kill, self.pause, self.clients, self.databases, self.events, self.scripts, self.greeting,
        ]
        self.subjects = self.random.sample(subjects, self.random.randint(1, 4))
        self.subjects += [self.pick([self.strings, self.lists])]

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def program(self):
        made = [(name, [[b"HELLO", b"3"]]) for name in self.names if self.protocols[name] == 3]
        for _ in range(self.random.randint(4, STEPS_MAX)):
            made.append(self.step())
        return made

    def step(self):
        # Two of them more often than others, so that what one does meets what it has done before.
        name = self.pick(self.names[:2]) if self.chance(40) else self.pick(self.names)
        count = self.pick([1, 1, 1, 1, 1, 2, 2, 3, 5])
        commands = [self.pick(self.subjects)() for _ in range(count)]
        if self.tracking in self.subjects and self.chance(10):
            # What it has read is still to be told of, whichever way it tracks then.
            commands = [self.tracking(), [b"GET", b"k1"], [b"CLIENT", b"TRACKING", b"OFF"], *commands[:1], [b"CLIENT", b"TRACKING", b"ON"]]
        if self.chance(4):
            commands = [[b"MULTI"], *commands, [b"EXEC"]]
        return (name, self.told_apart(name, commands) or [[b"PING"]])

    def told_apart(self, name, commands):
        """Without what would leave a connection in a state in which nothing says that it has executed a command."""
        if len(commands) > 1 and self.pauses[-1] != b"WRITE":
            commands = [command for command in commands if command != self.pauses]
        if len(commands) > 1 or self.pause in self.subjects:
            # A short wait that begins later would end at some moment of what others do.
            commands = [[b"0" if word == b"0.01" else word for word in command] for command in commands]
        if self.pause in self.subjects:
            # Redis 7.0 ends where a client is unblocked that a pause holds up.
            commands = [command for command in commands if command[:2] != [b"CLIENT", b"UNBLOCK"]]
        if self.pauses in commands:
            # None that waits for the end of another one.
            commands = [self.pauses, *(command for command in commands if command != self.pauses)]
        if UNPAUSE in commands:
            # What stands behind it and what the pause has held up is executed in any order by several workers.
            commands = commands[: commands.index(UNPAUSE) + 1]
        waiting = [number for number, command in enumerate(commands) if WAITING.fullmatch(command[0])]
        commands = [command for number, command in enumerate(commands) if number not in waiting[1:]]
        is_quiet = name in self.silent or any(command[:2] == [b"CLIENT", b"REPLY"] for command in commands)
        if is_quiet and name not in self.queueing:
            # Nor does Redis close a connection that has sent QUIT while nothing is written to it.
            commands = [command for command in commands if command[0] not in (b"MULTI", b"EXEC", b"QUIT")]
        for command in commands:
            if command[0] == b"MULTI":
                self.queueing.add(name)
            elif command[0] in (b"EXEC", b"DISCARD", b"RESET"):
                self.queueing.discard(name)
            if command[0] == b"RESET" or command[1:] in ([b"REPLY", b"ON"], [b"REPLY", b"OFF"]):
                (self.silent.add if command[-1] == b"OFF" else self.silent.discard)(name)
        if name in self.queueing or name in self.silent:
            # No PING can stand behind them, and nobody counts how often SUBSCRIBE and its kin are answered.
            commands = [command for command in commands if not command[0].endswith(b"SUBSCRIBE")]
        return commands

    def key(self):
        return self.pick([b"q1", b"q1", b"q2", b"k1", b"k2", b"z1", b"s1"]) if self.chance(20) else self.pick([b"q1", b"q2", b"k1"])

    def other(self):
        return b"{%s}" % self.pick(self.names).encode()

    def keys(self, names):
        return [self.pick(names) for _ in range(self.pick([1, 1, 2, 3]))]

    def timeout(self):
        return self.pick([b"0", b"0", b"0", b"0", b"100", b"100", b"0.01"])

    def lists(self):
        key = self.pick([b"q1", b"q1", b"q1", b"q2", b"q2", b"k1"])
        names = [b"q1", b"q1", b"q2", b"k1"]
        ends = [b"LEFT", b"RIGHT"]
        several = self.keys(names)
        return self.pick([
            lambda: [self.pick([b"BLPOP", b"BRPOP"]), *several, self.timeout()],
            lambda: [self.pick([b"BLPOP", b"BRPOP"]), *several, self.timeout()],
            lambda: [b"BLMOVE", key, self.pick(names), self.pick(ends), self.pick(ends), self.timeout()],
            lambda: [b"BRPOPLPUSH", key, self.pick(names), self.timeout()],
            lambda: [b"BLMPOP", self.timeout(), b"%d" % len(several), *several, self.pick(ends)] + self.pick([[], [b"COUNT", b"2"]]),
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key, *self.keys([b"a", b"b", b"c"])],
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key, *self.keys([b"a", b"b", b"c"])],
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key, *self.keys([b"a", b"b", b"c"])],
            lambda: [self.pick([b"LPUSHX", b"RPUSHX"]), key, b"x"],
            lambda: [b"LMOVE", key, self.pick(names), self.pick(ends), self.pick(ends)],
            lambda: [self.pick([b"LPOP", b"RPOP", b"LLEN", b"DEL", b"UNLINK"]), key],
            lambda: [b"LRANGE", key, b"0", b"-1"],
            lambda: [b"LTRIM", key, b"1", b"-1"],
            lambda: [b"RENAME", key, self.pick(names)],
            lambda: [b"COPY", key, self.pick(names), b"REPLACE"],
            lambda: [b"SORT", key, b"ALPHA", b"STORE", b"k2"],
            lambda: [b"SET", key, b"text"],
            lambda: [b"CLIENT", b"UNBLOCK", self.other()] + self.pick([[], [b"TIMEOUT"], [b"ERROR"]]),
        ])()

    def sorted_sets(self):
        key, several = self.pick([b"z1", b"z1", b"z2", b"q1"]), self.keys([b"z1", b"z2", b"q1"])
        end = self.pick([b"MIN", b"MAX"])
        return self.pick([
            lambda: [self.pick([b"BZPOPMIN", b"BZPOPMAX"]), *several, self.timeout()],
            lambda: [b"BZMPOP", self.timeout(), b"%d" % len(several), *several, end] + self.pick([[], [b"COUNT", b"2"]]),
            lambda: [b"ZADD", key, self.pick([b"1", b"2"]), self.pick([b"a", b"b"])],
            lambda: [b"ZADD", key, b"1", b"a", b"2", b"b", b"3", b"c"],
            lambda: [b"ZADD", key, b"XX", b"CH", b"5", b"a"],
            lambda: [b"ZPOPMIN", key],
            lambda: [b"ZREM", key, b"a"],
            lambda: [b"ZINCRBY", key, b"1", b"a"],
            lambda: [b"ZUNIONSTORE", b"z2", b"2", b"z1", b"z2"],
            lambda: [b"ZINTERSTORE", b"z2", b"2", b"z1", b"q1"],
            lambda: [b"ZRANGESTORE", b"z2", b"z1", b"0", b"-1"],
            lambda: [self.pick([b"DEL", b"ZCARD", b"TYPE"]), key],
            # Into keys that no STORE overwrites: whether that serves those who wait differs (docs/book/compatibility.md).
            lambda: [b"RPUSH", self.pick([b"z1", b"q1"]), b"x"],
            lambda: [b"SADD", self.pick([b"z1", b"q1"]), b"x"],
        ])()

    def strings(self):
        key = self.key()
        return self.pick([
            lambda: [b"SET", key, self.pick([b"1", b"2", b"text"])],
            lambda: [b"SET", key, self.pick([b"1", b"2", b"text"])],
            lambda: [b"SET", key, b"v", self.pick([b"NX", b"XX", b"GET", b"KEEPTTL"])],
            lambda: [b"GET", key],
            lambda: [b"GET", key],
            lambda: [b"MGET", key, self.key()],
            lambda: [b"MSET", key, b"v", self.key(), b"w"],
            lambda: [b"MSETNX", key, b"v", self.key(), b"w"],
            lambda: [b"DEL", key, self.key()],
            lambda: [self.pick([b"UNLINK", b"EXISTS", b"TOUCH", b"TYPE", b"PERSIST", b"EXPIRETIME", b"STRLEN", b"INCR", b"GETDEL"]), key],
            lambda: [b"APPEND", key, b"x"],
            lambda: [b"GETSET", key, b"g"],
            lambda: [b"GETEX", key, self.pick([b"PERSIST", b"KEEP"])],
            lambda: [b"SETRANGE", key, b"2", b"x"],
            lambda: [self.pick([b"RENAME", b"RENAMENX", b"COPY"]), key, self.key()],
            lambda: self.pick([
                [b"EXPIRE", key, b"-1"], [b"EXPIRE", key, b"0"], [b"PEXPIREAT", key, b"1"], [b"GETEX", key, b"EXAT", b"1"],
                [b"EXPIREAT", key, b"4102444800"], [b"EXPIREAT", key, b"4102444801", b"NX"], [b"SET", key, b"d", b"EXAT", b"4102444802"],
                [b"EXPIREAT", key, b"4102440000", b"GT"],
            ]),
        ])()

    def transactions(self):
        several = [self.key() for _ in range(self.pick([1, 1, 2]))]
        return self.pick([
            [b"WATCH", *several], [b"WATCH", *several], [b"MULTI"], [b"MULTI"], [b"EXEC"], [b"EXEC"], [b"EXEC"], [b"DISCARD"], [b"UNWATCH"],
            [b"GET"], [b"NOSUCH"], [b"SET", self.key(), b"t"], [b"INCR", self.key()], [b"PUBLISH", b"c1", b"t"],
        ])

    def channels(self):
        names, patterns = self.keys(CHANNELS), self.keys(CHANNEL_PATTERNS)
        return self.pick([
            [b"SUBSCRIBE", *names], [b"SUBSCRIBE", *names], [b"PSUBSCRIBE", *patterns], [b"UNSUBSCRIBE", *names], [b"UNSUBSCRIBE"],
            [b"PUNSUBSCRIBE"], [b"PUNSUBSCRIBE", *patterns], [b"PUBLISH", names[0], b"m"], [b"PUBLISH", b"c1", b"m"], [b"PUBLISH", b"c2", b"m"],
            [b"PUBLISH", b"c1", b"n"], [b"PUBSUB", b"NUMSUB", b"c1", b"c2"], [b"PUBSUB", b"NUMPAT"], [b"PING"], [b"PING", b"p"],
            [b"SSUBSCRIBE", b"c1"], [b"SUNSUBSCRIBE"], [b"SPUBLISH", b"c1", b"s"], [b"PUBSUB", b"CHANNELS", b"c1"], [b"UNSUBSCRIBE", b"none"],
        ])

    def tracking(self):
        on = [b"CLIENT", b"TRACKING", b"ON"]
        prefixes = self.pick([[], [], [b"PREFIX", b"k"], [b"PREFIX", b"q", b"PREFIX", b"k"], [b"PREFIX", b"k", b"PREFIX", b"k1"]])
        redirect = self.pick([[], [], [b"REDIRECT", self.other()]])
        return self.pick([
            [*on, *redirect], [*on, *redirect], [*on, b"BCAST", *prefixes, *redirect], [*on, b"BCAST", *prefixes, *redirect],
            [*on, b"BCAST", *prefixes, b"NOLOOP", *redirect], [*on, b"NOLOOP", *redirect], [*on, b"OPTIN"], [*on, b"OPTOUT"],
            [*on, b"OPTIN", b"BCAST"], [*on, b"PREFIX", b"k"], [b"CLIENT", b"TRACKING", b"OFF"], [b"CLIENT", b"TRACKING", b"OFF"],
            [b"CLIENT", b"CACHING", b"YES"], [b"CLIENT", b"CACHING", b"YES"], [b"CLIENT", b"CACHING", b"NO"], [b"CLIENT", b"TRACKINGINFO"],
            [b"CLIENT", b"GETREDIR"], [b"GET", b"k1"], [b"GET", b"k1"], [b"GET", b"k2"], [b"MGET", b"k1", b"k2", b"q1"], [b"LRANGE", b"q1", b"0", b"-1"],
            [b"SET", b"k1", b"n"], [b"SET", b"k1", b"n"], [b"MSET", b"k2", b"n", b"k1", b"n"], [b"DEL", b"k1", b"q1"], [b"RPUSH", b"q1", b"n"],
            [b"SUBSCRIBE", b"__redis__:invalidate"], [b"EXISTS", b"k1"], [b"FLUSHALL"],
        ])

    def replies(self):
        modes = [b"ON", b"OFF", b"SKIP", b"SKIP", b"SKIP", b"ON"]
        return self.pick([[b"CLIENT", b"REPLY", self.pick(modes)], [b"PING"], [b"SET", b"k1", b"r"], [b"GET", b"k1"], [b"NOSUCH"]])

    def kill(self):
        yes = self.pick([[], [b"SKIPME", b"no"], [b"SKIPME", b"yes"]])
        kind = self.pick([b"normal", b"pubsub", b"master", b"replica"])
        return self.pick([
            [b"CLIENT", b"KILL", b"ID", self.other(), *yes], [b"CLIENT", b"KILL", b"ID", self.other()], [b"CLIENT", b"KILL", b"ID", b"999999"],
            [b"CLIENT", b"KILL", b"TYPE", kind, b"ID", self.other(), *yes], [b"PUBLISH", b"c1", b"k"], [b"QUIT"], [b"CLIENT", b"LIST"],
            [b"CLIENT", b"ID"], [b"SUBSCRIBE", b"c1"], [b"BLPOP", b"q1", b"0"], [b"RPUSH", b"q1", b"k"], [b"CLIENT", b"UNBLOCK", self.other()],
        ])

    def pause(self):
        return self.pick([
            self.pauses, self.pauses, UNPAUSE, UNPAUSE,
            UNPAUSE, [b"CLIENT", b"PAUSE", b"x"], [b"CLIENT", b"PAUSE", b"-1"], [b"CLIENT", b"PAUSE", b"10", b"READ"],
            [b"CLIENT", b"PAUSE", b"x", b"READ"], [b"SET", self.key(), b"p"], [b"INCR", self.key()], [b"RPUSH", b"q1", b"p"], [b"PUBLISH", b"c1", b"p"],
            [b"GET", self.key()], [b"EVAL", SCRIPTS[1], b"1", self.key()], [b"BLPOP", b"q1", b"0"], [b"CLIENT", b"LIST"],
        ])

    def clients(self):
        return self.pick([
            [b"CLIENT", b"LIST"], [b"CLIENT", b"LIST"], [b"CLIENT", b"LIST", b"ID", self.other()], [b"CLIENT", b"INFO"],
            [b"CLIENT", b"LIST", b"TYPE", self.pick([b"normal", b"pubsub", b"none"])], [b"CLIENT", b"SETNAME", self.pick([b"n1", b"n2", b"", b"a b"])],
            [b"CLIENT", b"GETNAME"], [b"CLIENT", b"NO-EVICT", self.pick([b"ON", b"OFF", b"on", b"x"])], [b"CLIENT", b"ID"],
            [b"CLIENT", b"UNBLOCK", self.other()],
        ])

    def databases(self):
        return self.pick([
            [b"SELECT", self.pick([b"0", b"1", b"99"])], [b"SELECT", self.pick([b"0", b"1"])], [b"SWAPDB", b"0", b"1"], [b"FLUSHDB"],
            [b"FLUSHALL"], [b"DBSIZE"], [b"MOVE", self.key(), b"1"], [b"COPY", self.key(), self.key(), b"DB", b"1"], [b"RPUSH", b"q1", b"d"],
            [b"BLPOP", b"q1", b"0"], [b"GET", b"k1"],
        ])

    def events(self):
        classes = self.pick([b"KEA", b"KEA", b"AKEnm", b"Kl", b"Eg$", b"", b"KEn", b"Em", b"x"])
        return self.pick([
            [b"CONFIG", b"SET", b"notify-keyspace-events", classes], [b"CONFIG", b"GET", b"notify-keyspace-events"],
            [b"PSUBSCRIBE", b"__key*"], [b"SUBSCRIBE", b"__keyspace@0__:q1"], [b"PSUBSCRIBE", b"__keyevent@*__:*"], self.strings(), self.lists(),
        ])

    def scripts(self):
        return self.pick([
            [b"EVAL", self.pick(SCRIPTS), b"1", self.key()], [b"EVAL", self.pick(SCRIPTS), b"1", b"q1"],
            [b"EVAL_RO", SCRIPTS[0], b"1", b"k1"], [b"EVAL", self.pick(SCRIPTS), b"1", b"z1"],
        ])

    def greeting(self):
        return self.pick([
            [b"HELLO", self.pick([b"2", b"3"])], [b"HELLO", b"9"], [b"HELLO", b"3", b"SETNAME", b"h"], [b"HELLO"], [b"RESET"], [b"QUIT"],
            [b"AUTH", b"x"], [b"ECHO", b"e"], [b"PING"],
        ])


def draw(seed):
    return Drawer(seed).program()
