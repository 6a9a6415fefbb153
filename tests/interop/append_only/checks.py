"""Append-only files go from redis-server to a node and back, and no key, value or time to live is another one then.

usage: checks.py PROGRAM. redis-server and redis-cli have to be installed. Every server has a directory and a port of its own.
Also files that are cut off at every kind of place: redis-server and the node have to make the same of them.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from servers import Server  # noqa: E402

# The wall clock of a node is slewed, and time passes between two commands.
TOLERANCE_MS = 400
SEED = 38
CUTS = 24
VALUES = {
    b"string": [b"GET"],
    b"list": [b"LRANGE", 0, -1],
    b"hash": [b"HGETALL"],
    b"set": [b"SMEMBERS"],
    b"zset": [b"ZRANGE", 0, -1, b"WITHSCORES"],
}


def redis(folder, *options):
    os.makedirs(folder, exist_ok=True)
    return Server(["redis-server", "--dir", folder, "--save", "", "--appendonly", "yes", "--bind", "127.0.0.1",
                   "--aof-use-rdb-preamble", "no", "--appendfsync", "no", *options], os.path.dirname(folder))


class Check:
    """A folder of its own, in which files go from one server to the next."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def log(self, *words, code=0):
        done = subprocess.run([self.program, "log", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def node(self, name, *options):
        return Server([self.program, "server", "--bind", "127.0.0.1", "--dir", self.path(name), *options], self.folder)


def keys_of(server):
    """All keys with type, value and the wall time of their end."""
    found = {}
    for database in range(16):
        server.ask("SELECT", database)
        for kind, key in server.ask("KEYS", "*")[1] or []:
            assert kind == "$"
            value_type = server.ask("TYPE", key)[1]
            command, *rest = VALUES[value_type]
            value = server.ask(command, key, *rest)
            if value_type in (b"set", b"hash"):
                step = 2 if value_type == b"hash" else 1
                items = [item for _, item in value[1]]
                value = sorted(items[at : at + step] for at in range(0, len(items), step))
            elif value_type == b"zset":
                # The same number has other digits in another server's replies.
                items = [item for _, item in value[1]]
                value = [(member, float(score)) for member, score in zip(items[::2], items[1::2])]
            found[(database, key)] = (value_type, value, int(server.ask("PEXPIRETIME", key)[1]))
    server.ask("SELECT", 0)
    return found


def equal_keys(expected, found):
    missing, added = expected.keys() - found.keys(), found.keys() - expected.keys()
    assert not missing and not added, f"missing {sorted(missing)[:5]}, added {sorted(added)[:5]}"
    for name, (value_type, value, end_ms) in expected.items():
        assert found[name][:2] == (value_type, value), f"{name}: {str(value)[:200]} became {str(found[name][1])[:200]}"
        assert abs(found[name][2] - end_ms) <= TOLERANCE_MS, f"{name} ends at {end_ms}, and now at {found[name][2]}"


def fill(server):
    """Keys of every type, size and lifetime; a rewrite; and what is written behind it."""
    for number in range(200):
        server.ask("RPUSH", "list", f"element {number}")
        server.ask("SADD", "set", os.urandom(9))
        server.ask("HSET", "hash", os.urandom(9), number)
        server.ask("ZADD", "ranks", number / 7, f"member {number}")
    server.ask("SET", os.urandom(40), os.urandom(3000), "PX", 90000)
    server.ask("SADD", "numbers", *range(50))
    for line in ["ZADD ranks inf top -inf bottom 1e300 far", "SET long:lived x PX 40000", "SET short:lived x PX 150",
                 "SET lock token NX PX 200", "SELECT 9", "SET other:database x EX 60", "SELECT 0", "SET moved x",
                 "SET deleted x", "MOVE moved 3", "DEL deleted", "PFADD counted a b", "DEL counted"]:
        server.line(line)
    # Renewed before it ends, and the first end is past when the files are read.
    server.line("PEXPIRE lock 45000")
    server.line("BGREWRITEAOF")
    await_rewrite(server)
    for line in ["INCRBY counter 5", "APPEND text abc", "LPOP list", "LINSERT list BEFORE last first", "SREM numbers 1 2 3",
                 "HINCRBYFLOAT hash float 1.5", "ZINCRBY ranks 2 top:2", "GETEX long:lived PX 70000", "PERSIST text",
                 "SETRANGE text 5 x", "SETBIT bits 100 1", "LMOVE list popped LEFT RIGHT", "RENAME counter renamed",
                 "COPY renamed copied", "SETEX by:setex 70 x", "SPOP numbers 4", "ZPOPMIN ranks", "SET by:option x EX 80",
                 "SWAPDB 4 9", "SELECT 5", "SET fifth x", "SELECT 0"]:
        server.line(line)
    server.ask("EVAL", "redis.call('SET', KEYS[1], 'x', 'PX', 50000) return redis.call('INCR', KEYS[2])", 2, "by:script",
               "counted:by:script")
    for line in ["MULTI", "SET first x", "INCR second", "EXPIRE second 100", "EXEC"]:
        server.line(line)
    time.sleep(0.3)


def await_rewrite(server):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        info = server.ask("INFO", "persistence")[1]
        if b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info:
            return
        time.sleep(0.02)
    raise AssertionError("the rewrite does not end")


def round_trip(check):
    """To a node, which waits first, and back."""
    source = redis(check.path("redis"))
    fill(source)
    expected = keys_of(source)
    source.stop()
    said = check.log("import", check.path("redis"), check.path("node"))
    assert "restart-delay-max" in said, said
    assert "whole" in check.log("check", check.path("node"))
    waiting = check.node("node")
    assert waiting.ask("SET", "lock", "other", "NX")[1].startswith(b"RESTARTDELAY"), "it waits"
    waiting.stop()
    node = check.node("node", "--restart-delay", "off")
    equal_keys(expected, keys_of(node))
    node.line("SET by:node x PX 60000")
    expected = keys_of(node)
    node.stop()
    check.log("export", check.path("node"), check.path("exported"))
    again = redis(check.path("exported"))
    equal_keys(expected, keys_of(again))
    again.line("SET behind x")
    again.kill()
    again = redis(check.path("exported"))
    assert again.ask("GET", "behind")[1] == b"x", "redis-server goes on with the files"
    again.stop()


def single_file(check):
    """As Redis before version 7 has it: base and increments one behind the other, with annotations."""
    source = redis(check.path("redis"), "--aof-timestamp-enabled", "yes")
    fill(source)
    expected = keys_of(source)
    source.stop()
    folder = check.path("redis/appendonlydir")
    files = sorted(name for name in os.listdir(folder) if name.endswith(".aof"))
    assert len(files) == 2, files
    files.sort(key=lambda name: "base" not in name)
    with open(check.path("appendonly.aof"), "wb") as out:
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                # Each file begins in the first database.
                out.write(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" + file.read())
    check.log("import", check.path("appendonly.aof"), check.path("node"))
    node = check.node("node", "--restart-delay", "off")
    equal_keys(expected, keys_of(node))
    node.stop()


def snapshot(check):
    """What the refusal of a snapshot says makes files that are taken."""
    source = redis(check.path("redis"), "--aof-use-rdb-preamble", "yes")
    fill(source)
    said = check.log("import", check.path("redis"), check.path("node"), code=2)
    for command in re.findall(r"redis-cli (config set \S+ \S+|bgrewriteaof)", said)[:2]:
        source.line(command)
    await_rewrite(source)
    expected = keys_of(source)
    source.stop()
    check.log("import", check.path("redis"), check.path("node"))
    node = check.node("node", "--restart-delay", "off")
    equal_keys(expected, keys_of(node))
    node.stop()


def cut_off(check):
    """redis-server and a node make the same of files that end anywhere."""
    source = redis(check.path("redis"))
    source.line("SET before x")
    source.line("BGREWRITEAOF")
    await_rewrite(source)
    for number in range(6):
        source.line(f"SET key:{number} value PX 90000")
        for line in ["MULTI", f"RPUSH list {number}", f"HSET hash {number} x", "EXEC"]:
            source.line(line)
    source.stop()
    folder = check.path("redis/appendonlydir")
    name = next(name for name in os.listdir(folder) if name.endswith(".incr.aof"))
    length = os.path.getsize(os.path.join(folder, name))
    chosen = random.Random(SEED)
    for _ in range(CUTS):
        at = chosen.randrange(1, length)
        shutil.copytree(check.path("redis"), check.path("cut"))
        os.truncate(check.path(f"cut/appendonlydir/{name}"), at)
        check.log("import", check.path("cut"), check.path("node"))
        judge = redis(check.path("cut"))
        node = check.node("node", "--restart-delay", "off")
        try:
            equal_keys(keys_of(judge), keys_of(node))
        except AssertionError as error:
            raise AssertionError(f"cut at {at} of {length}: {error}") from error
        finally:
            judge.stop()
            node.stop()
        shutil.rmtree(check.path("cut"))
        shutil.rmtree(check.path("node"))


def line_feeds(check):
    """Files whose lines end with LF alone are none for redis-check-aof, for redis-server and for a node."""
    os.makedirs(check.path("text/appendonlydir"))
    name = "appendonly.aof.1.base.aof"
    with open(check.path(f"text/appendonlydir/{name}"), "wb") as out:
        out.write(b"*2\n$6\nSELECT\n$1\n0\n*3\n$3\nSET\n$3\nkey\n$1\nx\n")
    with open(check.path("text/appendonlydir/appendonly.aof.manifest"), "w", encoding="utf-8") as out:
        out.write(f"file {name} seq 1 type b\n")
    words = ["redis-check-aof", check.path("text/appendonlydir/appendonly.aof.manifest")]
    judge = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert judge.returncode == 1 and "Expected" in judge.stdout, judge.stdout
    words = ["redis-server", "--port", "0", "--unixsocket", check.path("socket"), "--appendonly", "yes", "--dir", check.path("text")]
    judge = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert judge.returncode == 1 and "Bad file format" in judge.stdout, judge.stdout
    said = check.log("import", check.path("text"), check.path("node"), code=2)
    assert f"{name} is damaged at offset 0" in said and "LF alone" in said, said


CHECKS = [
    ("to a node and back, every key", round_trip),
    ("a single file", single_file),
    ("files with a snapshot are refused, and the remedy works", snapshot),
    ("files that are cut off", cut_off),
    ("files that were converted as text are refused", line_feeds),
]


def main():
    program = sys.argv[1]
    for name, run in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(Check(program, folder))
                print(f"ok append-only files: {name}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                print(f"FAIL append-only files: {name}: {error}".replace("\n", " "), flush=True)
    print("done")


if __name__ == "__main__":
    main()
