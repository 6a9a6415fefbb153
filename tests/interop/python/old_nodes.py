"""Five nodes, some of them of an earlier version: what a majority knows is to be had, and the rest is refused with the name of each node that
lacks it.

usage: old_nodes.py --program QUORLOCK --old QUORLOCK

What the earlier version lacks is asked from it directly.
"""

import argparse
import contextlib
import os
import subprocess
import tempfile
import time

import redis

from migration import NODES, Servers
from report import Report, between, equal

NAME = "night"
# A program may take a second to start on a busy machine.
TTL = "8s"
NO_QUORUM, BUSY = 69, 75
# What is asked of a node itself, and what a client says of one that lacks it.
KINDS = {
    "fences": (["LOCK.ACQUIRE", "probe:fences", "t", "100"], "it has no fences"),
    "readers": (["LOCK.ACQUIRE", "probe:readers", "t", "100", "SHARED"], "it has no shared locks"),
}


def lacking(old):
    """What nodes of this version do not know."""
    with nodes_of(old, old, NODES) as servers:
        client = redis.Redis(port=servers.ports[0])
        return [kind for kind, (words, _) in KINDS.items() if is_refused(client, words)]


def is_refused(client, words):
    try:
        client.execute_command(*words)
    except redis.ResponseError as error:
        if "unknown command" in str(error) or "syntax error" in str(error):
            return True
        raise
    return False


def node(program):
    return [program, "server", "--cluster-id", "mixed", "--cluster-size", str(NODES), "--first-start", "serve"]


@contextlib.contextmanager
def nodes_of(program, old, count):
    """Five nodes of the earlier version, all but `count` of which were upgraded."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder, node(old))
        try:
            for port in servers.ports[count:]:
                servers.replace(port, node(program), "first")
                servers.serves(port)
            os.environ["QUORLOCK_NODES"] = ",".join(f"redis://127.0.0.1:{port}" for port in servers.ports)
            yield servers
        finally:
            for port in servers.ports:
                servers.stop(port)


def called(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)


def succeeds(program, *words):
    done = called(program, *words)
    equal((done.returncode, done.stderr if done.returncode else ""), (0, ""))
    return done.stdout.split()


def acquired(program, *options):
    return succeeds(program, "acquire", NAME, "--ttl", TTL, "--wait", "3s", *options)


def gives_fences(program):
    last = 0
    for _ in range(3):
        token, fence = acquired(program, "--fence")
        assert int(fence) > last, f"fence {fence} after {last}"
        last = int(fence)
        succeeds(program, "release", NAME, token)


def lets_readers_in(program):
    """One reads while another one does, and a writer is refused meanwhile."""
    reading = ["run", NAME, "--shared", "--ttl", TTL, "--wait", "3s", "--"]
    succeeds(program, *reading, program, *reading, "true")
    done = called(program, *reading, program, "acquire", NAME, "--ttl", TTL, "--no-wait")
    equal(done.returncode, BUSY)


GIVES = {"fences": gives_fences, "readers": lets_readers_in}
ASKS = {
    "fences": ["acquire", NAME, "--fence", "--ttl", TTL, "--wait", "1s"],
    "readers": ["run", NAME, "--shared", "--ttl", TTL, "--wait", "1s", "--", "echo", "it ran"],
}


def hands_over(program):
    """Who waits has the lock once it is free, at the end of its lease at the latest, and nobody has it beside its holder."""
    (token,) = acquired(program)
    equal(called(program, "acquire", NAME, "--ttl", TTL, "--no-wait").returncode, BUSY)
    began = time.monotonic()
    waiting = subprocess.Popen([program, "acquire", NAME, "--ttl", TTL, "--wait", "20s"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    equal(waiting.poll(), None)
    succeeds(program, "release", NAME, token)
    next_token = waiting.communicate(timeout=40)[0].strip()
    equal(waiting.returncode, 0)
    between(time.monotonic() - began, 0.3, 12)
    succeeds(program, "release", NAME, next_token)


def by_a_majority(program, old):
    with nodes_of(program, old, 2):
        for gives in GIVES.values():
            gives(program)
        hands_over(program)


def by_name(program, old, lacks):
    with nodes_of(program, old, 3) as servers:
        for kind, words in ASKS.items():
            if kind not in lacks:
                GIVES[kind](program)
                continue
            done = called(program, *words)
            equal((done.returncode, done.stdout), (NO_QUORUM, ""))
            for port in servers.ports[:3]:
                lines = [line for line in done.stderr.splitlines() if f"127.0.0.1:{port}" in line]
                assert any(KINDS[kind][1] in line for line in lines), f"{port} is not named: {done.stderr}"
        hands_over(program)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--old", required=True)
    arguments = parser.parse_args()
    program, old = arguments.program, arguments.old
    report = Report()
    lacks = lacking(old)
    known = f"upgrade: beside nodes without {' and '.join(lacks)}"
    report.check("upgrade: the earlier version lacks something", lambda: equal(bool(lacks), True))
    report.check(f"{known}, a majority that knows them grants them", by_a_majority, program, old)
    report.check(f"{known}, too few that know them refuse by name", by_name, program, old, lacks)
    report.finish()


if __name__ == "__main__":
    main()
