"""Random sequences over all kinds of values, nested in transactions and scripts, with expiry.

Like sequences.py, but every sequence mixes all kinds, so that commands meet keys of other kinds, and a part of
them stands between MULTI and EXEC or is called by scripts, those that wait included.
"""

import argparse

import compare
import sequences
from compare import allowed, read_doubles
from kinds import LEX_KEYS, Kinds
from sequences import DATABASES, KEYS, SEQUENCE_COMMANDS, Maker, difference, replies_of, words_of

# Kinds of values, and how often commands on them come.
KINDS = {"string": 2, "hash": 2, "list": 2, "set": 2, "sorted": 3}
LOOKS = {
    "string": [b"GET", b"KEY"],
    "hash": [b"HGETALL", b"KEY"],
    "list": [b"LRANGE", b"KEY", b"0", b"-1"],
    "set": [b"SMEMBERS", b"KEY"],
    "sorted": [b"ZRANGE", b"KEY", b"0", b"-1", b"WITHSCORES"],
}
# Queued as any other, and answered the same by both.
ABOUT_THE_NODE = [
    line.split()
    for line in [
        b"CLIENT GETNAME", b"CLIENT SETNAME one", b"CLIENT SETNAME", b"CLIENT NOSUCH", b"CLIENT GETREDIR",
        b"CLIENT TRACKINGINFO", b"CLIENT REPLY MAYBE", b"CLIENT UNBLOCK 99999999", b"CONFIG GET databases", b"CONFIG SET nosuch 1",
        b"CONFIG GET", b"PUBSUB NUMPAT", b"PUBSUB NOSUCH", b"UNSUBSCRIBE", b"PUNSUBSCRIBE a", b"HELLO 9", b"AUTH a b c",
        b"WAIT 0 0", b"COMMAND GETKEYS GET a", b"COMMAND NOSUCH", b"SCRIPT EXISTS a", b"SCRIPT KILL", b"SCRIPT", b"ROLE", b"SAVE",
        b"SHUTDOWN", b"SELECT 1", b"ECHO x",
    ]
]


class Mixed(Kinds, Maker):
    """Sequences of commands from a seed."""

    def __init__(self, seed, wanted):
        super().__init__(seed)
        self.wanted = wanted
        self.times = self.random.sample(range(1, 1000), SEQUENCE_COMMANDS * 20)

    def plain(self, waits=20):
        """One command; WAITS times in a thousand one that may wait, which costs time outside of transactions."""
        makers = [self.any_key, self.deadline]
        for kind, weight in KINDS.items():
            makers += [getattr(self, kind)] * (weight if kind in self.wanted else 0)
        if {"list", "sorted"} <= self.wanted and self.random.randrange(1000) < waits:
            # Its timeout stays where it is: some would be years.
            return self.blocking()
        made = self.pick(makers)()
        # Without its COUNT a SCAN may answer with a part of what is there, and SPOP draws one member, on each side its own.
        if self.chance(3) and not made[0].endswith((b"SCAN", b"SPOP")):
            made = made[: self.random.randint(1, len(made))]
        elif self.chance(3) and made[0] not in (b"ZRANK", b"ZREVRANK"):
            # The two take one more from 7.2 on.
            made = self.with_one_more(made)
        if made[0] in (b"HRANDFIELD", b"SRANDMEMBER", b"ZRANDMEMBER"):
            # Nobody can wait for a reply of two thousand million of them.
            made = [b"-3" if word.startswith(b"-") and len(word) > 4 else word for word in made]
        return [self.pick([made[0], made[0], made[0].lower()])] + made[1:]

    def transaction(self):
        made = [self.script() if self.chance(12) else self.plain() for _ in range(self.random.randint(1, 5))]
        if self.chance(40):
            made.insert(self.random.randint(0, len(made)), self.pick(ABOUT_THE_NODE))
        return [[b"MULTI"]] + made + [[self.pick([b"EXEC", b"EXEC", b"EXEC", b"EXEC", b"exec", b"DISCARD"])]]

    def sequence(self):
        made = []
        while len(made) < SEQUENCE_COMMANDS:
            if self.chance(6):
                made += self.transaction()
            else:
                made.append(self.script() if self.chance(12) else self.plain(waits=2))
        for database in range(DATABASES):
            made += [[b"SELECT", b"%d" % database], [b"KEYS", b"*"], [b"DBSIZE"]]
            for key in KEYS + LEX_KEYS:
                made += [[b"TYPE", key], [b"PTTL", key]]
                made += [[word.replace(b"KEY", key) for word in LOOKS[kind]] for kind in KINDS if kind in self.wanted]
        return made


def is_same(command, one, two):
    scores = [read_doubles(reply) for reply in (one, two)]
    if command[0].upper().decode("latin-1") in compare.UNORDERED:
        scores = [compare.sort(reply) for reply in scores]
    return scores[0] == scores[1] or sequences.is_same(command, one, two)


def is_same_transaction(queued, one, two, known):
    if one[0] != two[0] or not isinstance(one[1], list) or len(one[1]) != len(two[1] or []):
        return one == two
    return all(
        is_same(command, *parts) or allowed(words_of(command), *parts, known)
        for command, *parts in zip(queued, one[1], two[1])
    )


def differences_of(seed, servers, known, options):
    """The commands sent, and where the replies differ."""
    commands = Mixed(seed, set(options.kinds.split(","))).sequence()
    queued = []
    for number, (command, one, two) in enumerate(zip(commands, *replies_of(commands, servers))):
        if one == two == ("+", b"QUEUED"):
            queued.append(command)
            continue
        if command[0].upper() in (b"EXEC", b"DISCARD"):
            alike, queued = is_same_transaction(queued, one, two, known), []
        else:
            alike = is_same(command, one, two)
        if not alike and not allowed(words_of(command), one, two, known):
            return len(commands), difference(seed, commands, number, one, two)
    return len(commands), None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of values, to look at some alone")
    sequences.run(parser, "mixed", differences_of)
