"""Random commands on lists, sets and sorted sets, for sequences.py.

Members that are drawn by chance cannot be compared: what pops or draws takes all there is, or none.
"""

MEMBERS = [b"f", b"g", b"h", b"1", b"2", b"-3", b"", b"\r\n\x00", b"m" * 70, b"a b"]
SCORES = [b"0", b"1", b"2", b"-1", b"1.5", b"-0", b"0.1", b"3e2", b"inf", b"-inf", b"+inf", b"1e17", b"17179869184.25", b"0.30000000000000004"]
BAD_SCORES = [b"nan", b"", b"abc", b"1e400", b"0x10", b" 1", b"1 ", b"--1", b"+", b"infinit", b"1,5"]
LEX_BOUNDS = [b"-", b"+", b"[a", b"(a", b"[c", b"(c", b"[", b"(", b"[zz", b"[f\x00", b"a", b"", b"+a", b"[-"]
# Only ever given one score: what a range by name finds among several is not defined.
LEX_KEYS = [b"lex", b"lex2"]
LEX_MEMBERS = [b"a", b"b", b"c", b"d", b"ab", b"", b"zz", b"f", b"f\x00"]
# What waits is answered after this many seconds where nothing comes.
TIMEOUTS = [b"0.001", b"0.01", b"0.005", b"-1", b"abc", b"", b"nan", b"-0.1"]


class Kinds:
    """To be mixed into a maker that has pick, chance, key, number, some and options."""

    def member(self):
        return self.pick(MEMBERS) if self.chance(90) else self.value()

    def score(self):
        return self.pick(SCORES) if self.chance(90) else self.pick(BAD_SCORES)

    def bound(self):
        """Of a range of scores."""
        return self.pick([b"", b"", b"("]) + self.score()

    def index(self):
        return self.pick([b"0", b"1", b"-1", b"2", b"-2", b"5", b"-100", b"100"]) if self.chance(85) else self.number()

    def count(self):
        return self.pick([b"0", b"1", b"2", b"-1", b"-2", b"100"]) if self.chance(85) else self.number()

    def keys(self, most=3):
        """A count and as many keys, or nearly."""
        keys = self.some(self.key, most)
        return [b"%d" % len(keys) if self.chance(92) else self.count()] + keys

    def limit(self):
        return [b"LIMIT", self.index(), self.count()] if self.chance(30) else []

    def timeout(self):
        return self.pick(TIMEOUTS[:3]) if self.chance(80) else self.pick(TIMEOUTS)

    def end(self):
        return self.pick([b"LEFT", b"RIGHT", b"left", b"Right"]) if self.chance(95) else self.pick([b"UP", b""])

    def list(self):
        key = self.key()
        return self.pick([
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key] + self.some(self.member),
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key] + self.some(self.member, 8),
            lambda: [self.pick([b"LPUSHX", b"RPUSHX"]), key] + self.some(self.member),
            lambda: [self.pick([b"LPOP", b"RPOP"]), key],
            lambda: [self.pick([b"LPOP", b"RPOP"]), key, self.count()],
            lambda: [b"LLEN", key],
            lambda: [b"LINDEX", key, self.index()],
            lambda: [b"LRANGE", key, self.index(), self.index()],
            lambda: [b"LSET", key, self.index(), self.member()],
            lambda: [b"LINSERT", key, self.pick([b"BEFORE", b"AFTER", b"after", b"BESIDE"]), self.member(), self.member()],
            lambda: [b"LREM", key, self.count(), self.member()],
            lambda: [b"LTRIM", key, self.index(), self.index()],
            lambda: [b"LPOS", key, self.member()] + self.position_options(),
            lambda: [b"RPOPLPUSH", key, self.key()],
            lambda: [b"LMOVE", key, self.key(), self.end(), self.end()],
            lambda: [b"LMPOP"] + self.keys() + [self.end()] + self.options([b"COUNT", b"2", b"0", b"1"]),
        ])()

    def position_options(self):
        made = [[self.pick([b"RANK", b"COUNT", b"MAXLEN", b"rank", b"BOGUS"]), self.count()] for _ in range(self.pick([0, 1, 1, 2, 3]))]
        return sum(made, [])

    def blocking(self):
        """Rarely, since each that finds nothing waits; in transactions and scripts none does."""
        key = self.key()
        return self.pick([
            lambda: [self.pick([b"BLPOP", b"BRPOP", b"BZPOPMIN", b"BZPOPMAX"])] + self.some(self.key) + [self.timeout()],
            lambda: [b"BRPOPLPUSH", key, self.key(), self.timeout()],
            lambda: [b"BLMOVE", key, self.key(), self.end(), self.end(), self.timeout()],
            lambda: [b"BLMPOP", self.timeout()] + self.keys() + [self.end()] + self.options([b"COUNT", b"2", b"0"]),
            lambda: [b"BZMPOP", self.timeout()] + self.keys() + [self.pick([b"MIN", b"MAX"])] + self.options([b"COUNT", b"2"]),
        ])()

    def set(self):
        key = self.key()
        return self.pick([
            lambda: [b"SADD", key] + self.some(self.member),
            lambda: [b"SADD", key] + self.some(self.number, 6),
            lambda: [b"SREM", key] + self.some(self.member),
            lambda: [b"SISMEMBER", key, self.member()],
            lambda: [b"SMISMEMBER", key] + self.some(self.member),
            lambda: [self.pick([b"SCARD", b"SMEMBERS"]), key],
            lambda: [b"SMOVE", key, self.key(), self.member()],
            lambda: [self.pick([b"SINTER", b"SUNION", b"SDIFF"])] + self.some(self.key),
            lambda: [self.pick([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), key] + self.some(self.key),
            lambda: [b"SINTERCARD"] + self.keys() + self.options([b"LIMIT", b"1", b"0", b"-1", b"2"]),
            lambda: [b"SPOP", key, self.pick([b"1000", b"0", b"-1", b"abc"])],
            lambda: [b"SRANDMEMBER", key],
            lambda: [b"SRANDMEMBER", key, self.pick([b"1000", b"0", b"-3", b"2", b"abc"])],
            lambda: [b"SSCAN", key, b"0", b"COUNT", b"1000"] + self.options([b"MATCH", b"COUNT", b"*", b"f*", b"0"]),
        ])()

    def sorted(self):
        key = self.key()
        return self.pick([self.sorted_change, self.sorted_change, self.sorted_look, self.sorted_range, self.sorted_many])(key)

    def scored(self, most=4):
        return [part for _ in range(self.random.randint(1, most)) for part in (self.score(), self.member())]

    def sorted_change(self, key):
        return self.pick([
            lambda: [b"ZADD", key] + self.scored(),
            lambda: [b"ZADD", key] + self.scored(8),
            lambda: [b"ZADD", key] + self.options([b"NX", b"XX", b"GT", b"LT", b"CH", b"gt", b"ch"]) + self.scored(),
            lambda: [b"ZADD", key] + self.options([b"NX", b"XX", b"GT", b"CH"]) + [b"INCR"] + self.scored(1),
            lambda: [b"ZINCRBY", key, self.score(), self.member()],
            lambda: [b"ZREM", key] + self.some(self.member),
            lambda: [self.pick([b"ZPOPMIN", b"ZPOPMAX"]), key],
            lambda: [self.pick([b"ZPOPMIN", b"ZPOPMAX"]), key, self.count()],
            lambda: [b"ZREMRANGEBYRANK", key, self.index(), self.index()],
            lambda: [b"ZREMRANGEBYSCORE", key, self.bound(), self.bound()],
            lambda: [b"ZMPOP"] + self.keys() + [self.pick([b"MIN", b"MAX", b"min", b"MID"])] + self.options([b"COUNT", b"2", b"0"]),
        ])()

    def sorted_look(self, key):
        return self.pick([
            lambda: [b"ZSCORE", key, self.member()],
            lambda: [b"ZMSCORE", key] + self.some(self.member),
            lambda: [b"ZCARD", key],
            lambda: [b"ZCOUNT", key, self.bound(), self.bound()],
            lambda: [self.pick([b"ZRANK", b"ZREVRANK"]), key, self.member()],
            lambda: [b"ZRANDMEMBER", key],
            lambda: [b"ZRANDMEMBER", key, self.pick([b"1000", b"0", b"-3", b"2", b"abc"])] + self.options([b"WITHSCORES"]),
            lambda: [b"ZSCAN", key, b"0"] + self.options([b"MATCH", b"COUNT", b"1000", b"*", b"f*", b"0"]),
        ])()

    def sorted_range(self, key):
        scores = lambda: self.options([b"WITHSCORES", b"withscores"])
        return self.pick([
            lambda: [self.pick([b"ZRANGE", b"ZREVRANGE"]), key, self.index(), self.index()] + scores(),
            lambda: [b"ZRANGE", key, self.index(), self.index()] + self.options([b"REV", b"WITHSCORES", b"rev"]) + self.limit(),
            lambda: [b"ZRANGE", key, self.bound(), self.bound(), b"BYSCORE"] + self.options([b"REV", b"WITHSCORES"]) + self.limit(),
            lambda: [self.pick([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE"]), key, self.bound(), self.bound()] + scores() + self.limit(),
            lambda: [b"ZRANGESTORE", key, self.key(), self.index(), self.index()] + self.options([b"REV", b"WITHSCORES"]),
            lambda: [b"ZRANGESTORE", key, self.key(), self.bound(), self.bound(), b"BYSCORE"] + self.options([b"REV"]) + self.limit(),
            self.by_name,
            self.by_name,
        ])()

    def by_name(self):
        """Members of one score, in the order of their bytes."""
        key, low, high = self.pick(LEX_KEYS), self.pick(LEX_BOUNDS), self.pick(LEX_BOUNDS)
        return self.pick([
            lambda: [b"ZADD", key] + [part for _ in range(4) for part in (b"0", self.pick(LEX_MEMBERS))],
            lambda: [b"ZRANGE", key, low, high, b"BYLEX"] + self.options([b"REV", b"WITHSCORES", b"BYSCORE"]) + self.limit(),
            lambda: [self.pick([b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"]), key, low, high] + self.limit(),
            lambda: [b"ZLEXCOUNT", key, low, high],
            lambda: [b"ZREMRANGEBYLEX", key, low, high],
            lambda: [b"ZRANGESTORE", self.pick(LEX_KEYS), key, low, high, b"BYLEX"] + self.limit(),
        ])()

    def sorted_many(self, key):
        """Of several keys, sets among them."""
        return self.pick([
            lambda: [self.pick([b"ZUNION", b"ZINTER"])] + self.keys() + self.weights() + self.options([b"WITHSCORES"]),
            lambda: [b"ZDIFF"] + self.keys() + self.options([b"WITHSCORES"]),
            lambda: [self.pick([b"ZUNIONSTORE", b"ZINTERSTORE"]), key] + self.keys() + self.weights(),
            lambda: [b"ZDIFFSTORE", key] + self.keys(),
            lambda: [b"ZINTERCARD"] + self.keys() + self.options([b"LIMIT", b"1", b"0", b"-1"]),
        ])()

    def weights(self):
        made = []
        if self.chance(40):
            made += [b"WEIGHTS"] + self.some(self.score, 3)
        if self.chance(40):
            made += [b"AGGREGATE", self.pick([b"SUM", b"MIN", b"MAX", b"max", b"AVG"])]
        return made
