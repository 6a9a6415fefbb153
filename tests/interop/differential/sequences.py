"""Sends random sequences of commands to redis-server and to a node, and compares the replies.

Every sequence comes from a seed, half of them go with RESP2 and half with RESP3, and each ends with a
look at all keys. Arguments are often not what a command expects. What may differ stands in
differences.txt; a difference that was found here is mended and becomes a line of commands.txt.
"""

import argparse
import random
import re
import sys
import time

from compare import UNORDERED, Connection, allowed, read_doubles, rules, same, show

SEQUENCE_COMMANDS = 25
DATABASES = 3
SHOWN_MAX = 5

KEYS = [b"a", b"b", b"c", b"d", b"", b"\x00\xff\r\n"]
FIELDS = [b"f", b"g", b"h", b"1", b"", b"\r\n\x00"]
NUMBERS = [b"0", b"1", b"-1", b"2", b"7", b"10", b"-5", b"100"]
HOSTILE = [
    b"", b" ", b" 1", b"1 ", b"+1", b"-", b"+", b"01", b"-0", b"1.5", b"abc", b"1e3", b"0x10", b"\x00", b"1\x00",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
    b"99999999999999999999", b"4611686018427387904", b"2147483648", b"-2147483649",
]
FLOATS = [
    b"0.1", b"-0.3", b"1.5", b"3.0e3", b".5", b"5.", b"-0.0", b"1e17", b"1e-7", b"1e-20", b"123456789.123456789", b"inf", b"-inf",
    b"nan", b"infinity", b"1e400", b"-1e308", b"1e4932", b"1e5000", b"1e-4950", b"1e-5000", b"0x1p3", b"0x.8", b"0x", b"1e", b"1e+",
    b"+.e1", b"--1", b"1_0", b"18446744073709551615", b"36893488147419103233", b"0.333333333333333333333333333",
]
VALUES = [b"v", b"text", b"", b"\x00\xff", b"a b", b"0", b"x" * 44, b"x" * 45, b"y" * 100, b"z" * 1500]
SCORES = [b"0", b"-0", b"1", b"1", b"2", b"2.5", b"-1", b"3", b"inf", b"-inf", b"1e17", b"0.1", b"0.2", b"0.3"]
SCORED = [b"a", b"b", b"c", b"d", b"e", b"1", b"", b"\x00\xff"]
# Members are compared only where all have the same score: the order of others says nothing.
EQUAL_SCORES = b"equal"
MEMBERS = FIELDS + [b"0", b"2", b"-1", b"01", b"9223372036854775808", b"z" * 1500]
# Which members SPOP takes differs, and all that follows with it: the key goes as well.
SPOP = b"local popped = redis.call('SPOP', unpack(ARGV)) redis.call('DEL', ARGV[1]) return type(popped)"
RANDOM = {"RANDOMKEY", "HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"}
BIT_OFFSETS = [b"0", b"1", b"7", b"8", b"9", b"15", b"63", b"100", b"1000", b"12007"]
# A larger one makes redis-server take hundreds of megabytes.
BAD_OFFSETS = [b"-1", b"abc", b"", b"+1", b"01", b"1.5", b"4294967296", b"9223372036854775807", b"9223372036854775808"]
ENCODINGS = [b"u1", b"u2", b"i5", b"u8", b"i8", b"i16", b"u31", b"i32", b"u63", b"i64", b"u64", b"i65", b"u0", b"x8", b"I8", b"u", b""]
SORT_PATTERNS = [b"*", b"a*", b"*->f", b"a*->1", b"b*->", b"*a"]
SORT_CONSTANTS = [b"nosort", b"#", b"a", b"", b"a->f"]
# Redis says so as well where an earlier command has left C's `errno` at ERANGE.
NO_SCORES = b"One or more scores can't be converted into double"
TOO_LONG = b"the lengths of the two strings multiplied are more than"
PATTERNS = [b"*", b"a", b"?", b"[ab]", b"[^a]", b"\\a", b"", b"*f*", b"["]


class Maker:
    """Commands from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        # Most keys of a sequence are of the same type, so that commands find what they are for.
        many = self.pick([self.string, self.hash, self.list, self.set, self.sorted_set])
        few = [self.string, self.hash, self.list, self.set, self.sorted_set, self.any_key, self.deadline]
        self.kinds = [many] * 6 + few
        self.times = self.random.sample(range(1, 1000), SEQUENCE_COMMANDS * 8)

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def pick(self, choices):
        return self.random.choice(choices)

    def key(self):
        return self.pick(KEYS[:3]) if self.chance(70) else self.pick(KEYS)

    def field(self):
        return self.pick(FIELDS)

    def number(self):
        return self.pick(NUMBERS) if self.chance(75) else self.pick(HOSTILE)

    def float(self):
        return self.pick(NUMBERS + FLOATS) if self.chance(85) else self.pick(HOSTILE)

    def value(self):
        return self.pick([self.pick(VALUES), self.pick(NUMBERS), self.number(), self.float()])

    def ttl(self, unit):
        """A time that is over, far away or none at all. No two are alike: servers measure in different steps."""
        if self.chance(20):
            return self.pick(HOSTILE + [b"0", b"-1", b"-1000"])
        count = self.times.pop() * 10
        absolute = unit.endswith("AT")
        seconds = 4102444800 + count if absolute else 100 + count
        if absolute and self.chance(15):
            seconds = 1
        return b"%d" % (seconds * (1000 if unit.startswith("P") else 1))

    def expiry(self, units):
        unit = self.pick(units)
        return [unit.encode()] if unit in ("KEEPTTL", "PERSIST") else [unit.encode(), self.ttl(unit)]

    def some(self, make, most=4):
        return [make() for _ in range(self.random.randint(1, most))]

    def pairs(self, name, most=3):
        return [part for _ in range(self.random.randint(1, most)) for part in (name(), self.value())]

    def options(self, choices):
        return [self.pick(choices) for _ in range(self.random.choice([0, 0, 0, 1, 1, 2, 3]))]

    def string(self):
        key = self.key()
        return self.pick([
            lambda: [b"SET", key, self.value()] + self.set_options(),
            lambda: [b"SET", key, self.value()],
            lambda: [b"GET", key],
            lambda: [b"SETNX", key, self.value()],
            lambda: [b"SETEX", key, self.ttl("EX"), self.value()],
            lambda: [b"PSETEX", key, self.ttl("PX"), self.value()],
            lambda: [b"GETSET", key, self.value()],
            lambda: [b"GETDEL", key],
            lambda: [b"GETEX", key] + self.get_options(),
            lambda: [b"MGET"] + self.some(self.key),
            lambda: [b"MSET"] + self.pairs(self.key),
            lambda: [b"MSETNX"] + self.pairs(self.key),
            lambda: [b"STRLEN", key],
            lambda: [b"APPEND", key, self.value()],
            lambda: [b"GETRANGE", key, self.number(), self.number()],
            lambda: [b"SUBSTR", key, self.number(), self.number()],
            lambda: [b"SETRANGE", key, self.number(), self.value()],
            lambda: [self.pick([b"INCR", b"DECR"]), key],
            lambda: [self.pick([b"INCRBY", b"DECRBY"]), key, self.number()],
            lambda: [b"INCRBYFLOAT", key, self.float()],
            lambda: [b"INCRBYFLOAT", key, self.float()],
            lambda: [b"LCS", key, self.key()] + self.options([b"LEN", b"IDX", b"WITHMATCHLEN", b"MINMATCHLEN", b"1", b"idx", b"BOGUS"]),
            self.bits,
            self.bits,
            self.bits,
        ])()

    def bit_offset(self):
        return self.pick(BIT_OFFSETS) if self.chance(93) else self.pick(BAD_OFFSETS)

    def bits(self):
        key = self.key()
        bit = lambda: self.pick([b"0", b"1"]) if self.chance(93) else self.number()
        unit = lambda: self.pick([[], [b"BIT"], [b"BYTE"], [b"bit"], [b"BITS"]])
        return self.pick([
            lambda: [b"SETBIT", key, self.bit_offset(), bit()],
            lambda: [b"SETBIT", key, self.bit_offset(), bit()],
            lambda: [b"GETBIT", key, self.bit_offset()],
            lambda: [b"BITCOUNT", key] + self.pick([[], [self.number(), self.number()] + unit(), [self.number()]]),
            lambda: [b"BITPOS", key, bit()] + self.pick([[], [self.number()], [self.number(), self.number()] + unit()]),
            lambda: [b"BITOP", self.pick([b"AND", b"OR", b"XOR", b"NOT", b"and", b"NAND"]), key] + self.some(self.key),
            lambda: [b"BITOP", b"NOT", key, self.key()],
            lambda: [b"BITFIELD", key] + sum((self.field_operation() for _ in range(self.random.randint(0, 4))), []),
            lambda: [b"BITFIELD", key] + sum((self.field_operation() for _ in range(self.random.randint(1, 4))), []),
            lambda: [b"BITFIELD_RO", key] + self.field_operation() + self.pick([[], self.field_operation()]),
        ])()

    def field_operation(self):
        encoding = self.pick(ENCODINGS[:10]) if self.chance(95) else self.pick(ENCODINGS)
        place = [encoding, self.pick([b"", b"", b"#"]) + self.bit_offset()]
        number = lambda: self.pick([b"1", b"-1", b"100", b"255", b"-128", b"65536"]) if self.chance(60) else self.number()
        return self.pick([
            lambda: [b"GET"] + place,
            lambda: [b"SET"] + place + [number()],
            lambda: [b"INCRBY"] + place + [number()],
            lambda: [b"OVERFLOW", self.pick([b"WRAP", b"SAT", b"FAIL", b"sat"])] if self.chance(95) else [b"OVERFLOW", b"NONE"],
        ])()

    def sorting(self):
        """
        Text only into a list, where Redis compares all bytes of it, and not by what keys hold: of equals it keeps no order. Numbers
        only as a reply, since `errno` decides as well. What is not sorted has no order in a set.
        """
        made = [self.pick([b"SORT", b"SORT", b"SORT", b"SORT_RO"]), self.key()]
        if self.chance(50):
            made += [b"STORE", self.key(), b"ALPHA"] + self.pick([[], [b"BY", self.pick(SORT_CONSTANTS)]])
        elif self.chance(40):
            made += [b"BY", self.pick(SORT_PATTERNS)]
        made += self.limit() + self.options([b"ASC", b"DESC", b"desc"])
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            made += [b"GET", self.pick(SORT_PATTERNS + SORT_CONSTANTS)]
        return made + ([b"BOGUS"] if self.chance(3) else [])

    def set_options(self):
        units = ["EX", "PX", "EXAT", "PXAT", "KEEPTTL"]
        plain = lambda: [self.pick([b"NX", b"XX", b"GET", b"nx", b"Xx", b"get"])]
        made = [self.pick([plain, lambda: self.expiry(units)])() for _ in range(self.random.randint(0, 3))]
        return sum(made, []) + ([b"BOGUS"] if self.chance(4) else [])

    def get_options(self):
        units = ["EX", "PX", "EXAT", "PXAT", "PERSIST", "KEEPTTL"]
        return sum((self.expiry(units) for _ in range(self.random.choice([0, 1, 1, 1, 2]))), [])

    def hash(self):
        key, field = self.key(), self.field()
        return self.pick([
            lambda: [b"HSET", key] + self.pairs(self.field),
            lambda: [b"HSET", key] + self.pairs(self.field),
            lambda: [b"HMSET", key] + self.pairs(self.field),
            lambda: [b"HSETNX", key, field, self.value()],
            lambda: [b"HGET", key, field],
            lambda: [b"HMGET", key] + self.some(self.field),
            lambda: [b"HEXISTS", key, field],
            lambda: [b"HSTRLEN", key, field],
            lambda: [b"HINCRBY", key, field, self.number()],
            lambda: [b"HINCRBYFLOAT", key, field, self.float()],
            lambda: [b"HDEL", key] + self.some(self.field),
            lambda: [self.pick([b"HLEN", b"HKEYS", b"HVALS", b"HGETALL"]), key],
            lambda: [b"HSCAN", key, self.pick([b"0", b"0", b"0", b"abc", b""]), b"COUNT", b"1000"]
            + self.options([b"MATCH", b"COUNT", b"TYPE", b"1000", b"*", b"0"]),
            lambda: [b"HRANDFIELD", key],
            lambda: [b"HRANDFIELD", key, self.pick([b"0", b"1", b"-3", b"100", self.number()])],
            lambda: [b"HRANDFIELD", key, self.pick([b"0", b"2", b"-3", self.number()]), b"WITHVALUES"],
        ])()

    def end(self):
        return self.pick([b"LEFT", b"RIGHT", b"left", b"Right"]) if self.chance(95) else self.value()

    def list(self):
        key, element = self.key(), self.element()
        return self.pick([
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key] + self.some(self.element, 6),
            lambda: [self.pick([b"LPUSH", b"RPUSH"]), key] + self.some(self.element, 6),
            lambda: [self.pick([b"LPUSHX", b"RPUSHX"]), key] + self.some(self.element),
            lambda: [self.pick([b"LPOP", b"RPOP"]), key],
            lambda: [self.pick([b"LPOP", b"RPOP"]), key, self.number()],
            lambda: [b"LLEN", key],
            lambda: [b"LINDEX", key, self.number()],
            lambda: [b"LRANGE", key, self.number(), self.number()],
            lambda: [b"LSET", key, self.number(), element],
            lambda: [b"LINSERT", key, self.pick([b"BEFORE", b"AFTER", b"after", b"AT"]), element, self.element()],
            lambda: [b"LREM", key, self.number(), element],
            lambda: [b"LTRIM", key, self.number(), self.number()],
            lambda: [b"LPOS", key, element]
            + sum(([self.pick([b"RANK", b"COUNT", b"MAXLEN", b"rank", b"BOGUS"]), self.number()] for _ in range(self.random.choice([0, 1, 1, 2, 3]))), []),
            lambda: [b"LMOVE", key, self.key(), self.end(), self.end()],
            lambda: [b"RPOPLPUSH", key, self.key()],
            lambda: [b"LMPOP"] + self.counted_keys() + [self.end()] + self.options([b"COUNT", b"2", b"1", b"0", b"count"]),
        ])()

    def element(self):
        return self.pick(FIELDS) if self.chance(80) else self.value()

    def counted_keys(self):
        keys = self.some(self.key, 3)
        return [b"%d" % len(keys) if self.chance(85) else self.number()] + keys

    def score(self):
        return self.pick(SCORES) if self.chance(80) else self.float()

    def scored_member(self):
        return self.pick(SCORED)

    def bound(self):
        """Of a range of scores."""
        made = self.pick(SCORES + [b"+inf", b"-inf"]) if self.chance(85) else self.float()
        return self.pick([b"", b"", b"("]) + made

    def member_bound(self):
        if self.chance(6):
            return self.pick([b"a", b"", b"+a", b"-\x00", b"+\x00a"])
        return self.pick([b"-", b"+", b"[" + self.scored_member(), b"(" + self.scored_member()])

    def limit(self):
        chosen = [b"0", b"1", b"2", b"-1", b"100"]
        return self.pick([[], [b"LIMIT", self.pick(chosen), self.pick(chosen)], [b"LIMIT", self.number(), self.number()]])

    def scored(self, most=4):
        return [part for _ in range(self.random.randint(1, most)) for part in (self.score(), self.scored_member())]

    def sorted_set(self):
        key, member = self.key(), self.scored_member()
        adding = [b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR", b"ch", b"BOGUS"]
        return self.pick([
            lambda: [b"ZADD", key] + self.scored(8),
            lambda: [b"ZADD", key] + self.scored(8),
            lambda: [b"ZADD", key] + self.options(adding) + self.scored(),
            lambda: [b"ZADD", key] + self.options(adding) + self.scored(1),
            lambda: [b"ZINCRBY", key, self.score(), member],
            lambda: [b"ZREM", key] + self.some(self.scored_member),
            lambda: [self.pick([b"ZSCORE", b"ZRANK", b"ZREVRANK"]), key, member],
            lambda: [b"ZMSCORE", key] + self.some(self.scored_member),
            lambda: [b"ZCARD", key],
            lambda: [b"ZCOUNT", key, self.bound(), self.bound()],
            lambda: [b"ZSCAN", key, self.pick([b"0", b"0", b"0", b"abc", b""]), b"COUNT", b"1000"]
            + self.options([b"MATCH", b"COUNT", b"TYPE", b"1000", b"*", b"0"]),
            lambda: [b"ZRANDMEMBER", key],
            lambda: [b"ZRANDMEMBER", key, self.pick([b"0", b"1", b"-3", b"100", self.number()])]
            + self.pick([[], [b"WITHSCORES"]]),
            self.sorted_range,
            self.sorted_range,
            self.sorted_removal,
            self.sorted_algebra,
            self.sorted_algebra,
            self.equal_scores,
        ])()

    def sorted_range(self):
        key, options = self.key(), self.options([b"WITHSCORES", b"REV", b"withscores", b"BYLEX", b"BOGUS"])
        named = self.pick([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE"])
        store = self.pick([[b"ZRANGE"], [b"ZRANGE"], [b"ZRANGESTORE", self.key()]]) + [key]
        if b"BYLEX" in options:
            options += [b"BYSCORE"]
        return self.pick([
            lambda: store + [self.number(), self.number()] + options,
            lambda: store + [self.number(), self.number()] + self.pick([[], [b"REV"]]),
            lambda: store + [self.bound(), self.bound(), b"BYSCORE"] + self.limit() + options,
            lambda: store + [self.bound(), self.bound(), b"BYSCORE"] + self.pick([[], [b"REV"]]) + self.limit(),
            lambda: [b"ZREVRANGE", key, self.number(), self.number()] + self.options([b"WITHSCORES", b"REV"]),
            lambda: [named, key, self.bound(), self.bound()] + self.limit() + self.options([b"WITHSCORES"]),
        ])()

    def sorted_removal(self):
        key, ends = self.key(), [b"MIN", b"MAX", b"max", b"BOGUS"]
        keys = self.some(self.key)
        return self.pick([
            lambda: [b"ZREMRANGEBYRANK", key, self.number(), self.number()],
            lambda: [b"ZREMRANGEBYSCORE", key, self.bound(), self.bound()],
            lambda: [self.pick([b"ZPOPMIN", b"ZPOPMAX"]), key],
            lambda: [self.pick([b"ZPOPMIN", b"ZPOPMAX"]), key, self.number()],
            lambda: [b"ZMPOP", self.count_of(keys)] + keys + [self.pick(ends)]
            + self.pick([[], [b"COUNT", self.number()], [b"COUNT"]]),
        ])()

    def count_of(self, keys):
        if self.chance(92):
            return b"%d" % len(keys)
        # The largest numbers overflow in Redis 7.0.
        return self.pick([b"0", b"-1", b"1", b"2", b"3", b"abc", b"", b"99999999999999999999"])

    def sorted_algebra(self):
        name, keys = self.pick([b"ZUNION", b"ZINTER", b"ZDIFF", b"ZINTERCARD"]), self.some(self.key)
        store = name != b"ZINTERCARD" and self.chance(60)
        made = ([name + b"STORE", self.key()] if store else [name]) + [self.count_of(keys)] + keys
        if self.chance(50) and name in (b"ZUNION", b"ZINTER"):
            made += [b"WEIGHTS"] + [self.score() for _ in keys]
        if self.chance(40) and name in (b"ZUNION", b"ZINTER"):
            made += [b"AGGREGATE", self.pick([b"SUM", b"MIN", b"MAX", b"max", b"BOGUS"])]
        if name == b"ZINTERCARD":
            made += self.pick([[], [b"LIMIT", self.number()], [b"LIMIT"]])
        return made + (self.pick([[], [b"WITHSCORES"]]) if not store or self.chance(10) else [])

    def equal_scores(self):
        key, low, high = EQUAL_SCORES, self.member_bound(), self.member_bound()
        return self.pick([
            lambda: [b"ZADD", key] + [part for member in self.some(self.scored_member) for part in (b"0", member)],
            lambda: [b"ZADD", key] + [part for member in self.some(self.scored_member, 8) for part in (b"0", member)],
            lambda: [self.pick([b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"]), key, low, high] + self.limit(),
            lambda: [b"ZRANGE", key, low, high, b"BYLEX"] + self.limit() + self.options([b"REV", b"WITHSCORES"]),
            lambda: [b"ZRANGESTORE", self.key(), key, low, high, b"BYLEX"] + self.limit() + self.options([b"REV"]),
            lambda: [self.pick([b"ZLEXCOUNT", b"ZREMRANGEBYLEX"]), key, low, high],
            lambda: [self.pick([b"ZRANK", b"ZREM"]), key, self.scored_member()],
        ])()

    def member(self):
        return self.pick(MEMBERS)

    def set(self):
        key, member = self.key(), self.member()
        return self.pick([
            lambda: [b"SADD", key] + self.some(self.member, 6),
            lambda: [b"SADD", key] + self.some(self.member, 6),
            lambda: [b"SADD", key] + [b"%d" % number for number in range(self.random.randrange(50, 80))],
            lambda: [b"SREM", key] + self.some(self.member),
            lambda: [b"SISMEMBER", key, member],
            lambda: [b"SMISMEMBER", key] + self.some(self.member),
            lambda: [self.pick([b"SCARD", b"SMEMBERS"]), key],
            lambda: [b"SMOVE", key, self.key(), member],
            lambda: [self.pick([b"SINTER", b"SUNION", b"SDIFF"])] + self.some(self.key),
            lambda: [self.pick([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), key] + self.some(self.key),
            lambda: [self.pick([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), key] + self.some(self.key),
            lambda: [b"SINTERCARD", self.pick([b"1", b"2", self.number()])] + self.some(self.key)
            + self.options([b"LIMIT", b"limit", self.number(), b"2"]),
            lambda: [b"SSCAN", key, self.pick([b"0", b"0", b"0", b"abc", b""]), b"COUNT", b"1000"]
            + self.options([b"MATCH", b"COUNT", b"TYPE", b"1000", b"*", b"0"]),
            lambda: [b"SRANDMEMBER", key],
            lambda: [b"SRANDMEMBER", key, self.pick([b"0", b"1", b"-3", b"100", self.number()])],
            lambda: [b"SPOP", key, self.pick([b"0", b"100", self.pick(HOSTILE)])],
            lambda: [b"EVAL", SPOP, b"0", key] + self.pick([[], [self.number()]]),
        ])()

    def any_key(self):
        key = self.key()
        return self.pick([
            lambda: [self.pick([b"DEL", b"UNLINK", b"EXISTS", b"TOUCH"])] + self.some(self.key),
            lambda: [b"TYPE", key],
            lambda: [self.pick([b"RENAME", b"RENAMENX"]), key, self.key()],
            lambda: [b"COPY", key, self.key()] + self.options([b"REPLACE", b"DB", b"1", b"2", b"99", b"replace"]),
            lambda: [b"SWAPDB", self.pick([b"0", b"1", b"2"]), self.pick([b"0", b"1", b"2", self.number()])],
            self.sorting,
            self.sorting,
            lambda: [b"RANDOMKEY"],
            lambda: [b"DBSIZE"],
            lambda: [b"KEYS", self.pick(PATTERNS)],
            lambda: [b"SCAN", b"0", b"COUNT", b"1000"] + self.options([b"MATCH", b"a", b"TYPE", b"hash"]),
            lambda: [b"SELECT", self.pick([b"0", b"1", b"2", b"-1", b"16", b"abc"])],
            lambda: [self.pick([b"FLUSHDB", b"FLUSHALL"])] + self.options([b"ASYNC", b"SYNC", b"BOGUS"]),
        ])()

    def deadline(self):
        key = self.key()
        unit = self.pick(["EX", "PX", "EXAT", "PXAT"])
        name = {"EX": b"EXPIRE", "PX": b"PEXPIRE", "EXAT": b"EXPIREAT", "PXAT": b"PEXPIREAT"}[unit]
        return self.pick([
            lambda: [name, key, self.ttl(unit)],
            lambda: [name, key, self.ttl(unit)] + self.options([b"NX", b"XX", b"GT", b"LT", b"BOGUS"]),
            lambda: [self.pick([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"]), key],
            lambda: [b"PERSIST", key],
        ])()

    def with_one_more(self, made):
        """With a word that does not belong there. A second COUNT stays without its number: a SCAN would answer with a part."""
        if made[0].endswith(b"SCAN") and made[-1] == b"COUNT":
            return made + [b"abc"]
        return made + [self.value()]

    def plain(self):
        made = self.pick(self.kinds)()
        # Without its COUNT a SCAN may answer with a part of what is there.
        if self.chance(3) and not made[0].endswith(b"SCAN"):
            made = made[: self.random.randint(1, len(made))]
        elif self.chance(3):
            made = self.with_one_more(made)
        if made[0] == b"SPOP" and len(made) == 2:
            made = [b"EVAL", SPOP, b"0", made[1]]
        if made[0] in (b"HRANDFIELD", b"SRANDMEMBER", b"ZRANDMEMBER"):
            # Nobody can wait for a reply of two thousand million fields.
            made = [b"-3" if word.startswith(b"-") and len(word) > 4 else word for word in made]
        return [self.pick([made[0], made[0], made[0].lower()])] + made[1:]

    def script(self):
        inner = self.plain()
        call = self.pick(["call", "pcall"])
        before = self.pick(["", "", "redis.setresp(3) ", "redis.call('SELECT', 1) "])
        if self.chance(30):
            first = self.plain()
            text = (
                f"{before}local one = redis.pcall(unpack(ARGV, 1, {len(first)})) "
                f"local two = redis.{call}(unpack(ARGV, {len(first) + 1})) return {{one, two}}"
            )
            return [b"EVAL", text.encode(), b"0"] + first + inner
        return [b"EVAL", f"{before}return redis.{call}(unpack(ARGV))".encode(), b"0"] + inner

    def sequence(self):
        made = [self.script() if self.chance(12) else self.plain() for _ in range(SEQUENCE_COMMANDS)]
        for database in range(DATABASES):
            made += [[b"SELECT", b"%d" % database], [b"KEYS", b"*"], [b"DBSIZE"]]
            for key in KEYS + [EQUAL_SCORES]:
                made += [[b"TYPE", key], [b"GET", key], [b"HGETALL", key], [b"LRANGE", key, b"0", b"-1"], [b"SMEMBERS", key], [b"PTTL", key]]
                made += [[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]]
        return made


def words_of(line):
    """A command as differences.txt and commands.txt write it."""
    def word(text):
        if text and re.fullmatch(rb"[!#-&(-\[\]-~]+", text):
            return text
        escaped = "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b"\\\"" else f"\\x{byte:02x}" for byte in text
        )
        return b'"' + escaped.encode() + b'"'

    return b" ".join(word(text) for text in line)


def normal(reply):
    """Without the order of parts, and with numbers as far as clocks agree."""
    kind, value = reply
    if kind == "-" and value.startswith((b"ERR string exceeds maximum", b"ERR value is larger than")):
        return (kind, "too long")
    if isinstance(value, list):
        return (kind, sorted((normal(part) for part in value), key=repr))
    if kind == ":" and len(value) > 4:
        return (kind, len(value))
    return (kind, value)


def size(reply):
    kind, value = reply
    return (kind, len(value) if isinstance(value, list) else value is None)


def is_bounded(command, one, two):
    """Whether a SORT failed by `errno` there, or an LCS by our bound here. Neither has changed anything."""
    kinds = {word.upper() for word in command}
    by_errno = one[0] == "-" and NO_SCORES in one[1] and kinds & {b"SORT", b"SORT_RO"}
    return by_errno or (two[0] == "-" and TOO_LONG in two[1] and b"LCS" in kinds)


def is_same(command, one, two):
    name = command[0].upper().decode("latin-1")
    if same(command, one, two):
        return True
    if name in RANDOM:
        return size(one) == size(two)
    if is_bounded(command, one, two):
        return True
    if name == "DBSIZE" and one[0] == two[0] == ":":
        # Redis counts a key that was set with a time in the past until it comes across it.
        return int(one[1]) >= int(two[1])
    if name != "EVAL":
        return False
    # Whatever a script calls is compared as the call alone would be.
    inner = {word.upper().decode("latin-1") for word in command[3:]}
    if inner & (RANDOM | {"DBSIZE"}):
        return one[0] == two[0]
    if inner & (UNORDERED | {"PTTL", "TTL", "PEXPIRETIME", "EXPIRETIME", "SETRANGE"}):
        return normal(read_doubles(one)) == normal(read_doubles(two))
    return False


def difference(seed, commands, number, one, two):
    """What differs at a command, with what was sent before it."""
    shown = "\n".join(f"      {words_of(sent).decode()}" for sent in commands[max(0, number - 40) : number])
    return (
        f"seed {seed} (--seed {seed} --sequences 1), command {number}:\n{shown}\n"
        f"   {words_of(commands[number]).decode()}\n      reference {show(one)}\n      subject   {show(two)}"
    )


def replies_of(commands, servers):
    """What each of the servers replies, empty at first."""
    return [server.exchange([[b"FLUSHALL"], [b"SELECT", b"0"]] + commands)[2:] for server in servers]


def differences_of(seed, servers, known):
    """The commands sent, and where the replies differ."""
    commands = Maker(seed).sequence()
    for number, (command, one, two) in enumerate(zip(commands, *replies_of(commands, servers))):
        if not is_same(command, one, two) and not allowed(words_of(command), one, two, known):
            return len(commands), difference(seed, commands, number, one, two)
    return len(commands), None


def run(arguments, called, differences_of):
    """Compares the sequences that the command line asks for. DIFFERENCES_OF gets a seed, servers, what may differ and the options."""
    arguments.add_argument("--reference", type=int, required=True)
    arguments.add_argument("--subject", type=int, required=True)
    arguments.add_argument("--sequences", type=int, default=2000)
    arguments.add_argument("--seed", type=int, help="of the first one; random if not given")
    arguments.add_argument("--all", action="store_true", help="go on after some differences")
    options = arguments.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    known = rules()
    failed = False
    for protocol in (2, 3):
        seeds = [seed for seed in range(first, first + options.sequences) if seed % 2 == protocol % 2]
        if not seeds:
            continue
        began, count, problems = time.monotonic(), 0, []
        servers = [Connection(port, protocol) for port in (options.reference, options.subject)]
        for seed in seeds:
            try:
                sent, problem = differences_of(seed, servers, known, options)
            except (OSError, ValueError) as error:
                sent, problem = 0, f"seed {seed}: {error}"
                servers = [Connection(port, protocol) for port in (options.reference, options.subject)]
            count += sent
            if problem:
                problems.append(problem)
                if len(problems) >= SHOWN_MAX and not options.all:
                    break
        check = (
            f"differential: {len(seeds)} {called} sequences with RESP{protocol} from seed {first} "
            f"({count} commands in {time.monotonic() - began:.0f} s)"
        )
        for problem in problems:
            print(f"   {problem}")
        print(f"FAIL {check}: {len(problems)} differences" if problems else f"ok {check}", flush=True)
        failed = failed or bool(problems)
    print("done")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run(argparse.ArgumentParser(description=__doc__), "random", lambda *which: differences_of(*which[:-1]))
