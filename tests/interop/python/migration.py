"""Five redis-servers are replaced by five nodes, one by one, while two libraries take one lock from each other.

usage: migration.py --program QUORLOCK [--before QUORLOCK]

With `--before` nodes of another version of the program are upgraded, with what they have on disk.

Who holds the lock makes a directory, which only one can do at a time. That this notices two holders is shown by servers that are replaced at
once, by nodes that do not wait.
"""

import argparse
import os
import random
import subprocess
import tempfile
import threading
import time

import pottery
import redis

from agents_killed import free_port
from report import Report

NODES = 5
TTL = 2.0
RESTART_DELAY_MAX = "3s"
REDIS = ["redis-server", "--save", "", "--bind", "127.0.0.1"]
# pottery's key of it is `redlock:night`.
NAME = "night"


class Servers:
    """Five ports with a server under each, in a folder of its own, which its successor may go on with."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = [free_port() for _ in range(NODES)]
        self.processes = {}

    def begin(self, words):
        for port in self.ports:
            self.start(port, words, "first")
        for port in self.ports:
            self.serves(port)

    def start(self, port, words, name):
        folder = os.path.join(self.folder, f"{name}-{port}")
        os.makedirs(folder, exist_ok=True)
        with open(folder + ".log", "ab") as log:
            self.processes[port] = subprocess.Popen(
                [*words, "--port", str(port), "--dir", folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def serves(self, port):
        """Waits until it gives its vote."""
        client = redis.Redis(port=port, socket_timeout=1)
        for _ in range(600):
            try:
                client.set("probe", "x", px=1)
                return
            except redis.RedisError:
                time.sleep(0.05)
        raise AssertionError(f"the server under {port} does not serve")

    def replace(self, port, words, name):
        self.stop(port)
        self.start(port, words, name)

    def stop(self, port):
        self.processes[port].terminate()
        self.processes[port].wait(30)


class Callers:
    """Threads that take the lock until they are to end, and what they saw."""

    def __init__(self, program, servers, folder):
        self.program, self.servers, self.busy = program, servers, os.path.join(folder, "busy")
        self.ended = threading.Event()
        self.taken = {"pottery": 0, "quorlock run": 0}
        self.overlaps, self.errors = 0, []
        works = [self.pottery, self.pottery, self.run, self.run]
        self.threads = [threading.Thread(target=self.repeat, args=(work, seed)) for seed, work in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def repeat(self, work, seed):
        chooser = random.Random(seed)
        while not self.ended.is_set():
            # A lock that is held for long is what a server without its past gives away.
            work(chooser.choice([0.02, 0.02, 1.2]))
            # pottery asks now and then, and whoever is told of a release would always be there before it.
            time.sleep(chooser.uniform(0.1, 0.6))

    def pottery(self, seconds):
        masters = {redis.Redis(port=port, socket_timeout=1) for port in self.servers.ports}
        lock = pottery.Redlock(key=NAME, masters=masters, auto_release_time=TTL)
        if not lock.acquire(timeout=1):
            return
        try:
            os.mkdir(self.busy)
            time.sleep(seconds)
            os.rmdir(self.busy)
        except OSError:
            self.overlaps += 1
        self.taken["pottery"] += 1
        try:
            lock.release()
        except pottery.ReleaseUnlockedLock:
            # A server was replaced while it was held.
            pass

    def run(self, seconds):
        nodes = ",".join(f"redis://127.0.0.1:{port}" for port in self.servers.ports)
        script = f"mkdir {self.busy} && sleep {seconds} && rmdir {self.busy}"
        words = ["run", f"redlock:{NAME}", "--ttl", f"{TTL:.0f}s", "--wait", "2s", "--nodes", nodes]
        words += ["--", "sh", "-c", f"{script} || exit 99"]
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        if done.returncode == 99:
            self.overlaps += 1
        elif done.returncode == 0:
            self.taken["quorlock run"] += 1
        elif done.returncode != 75:
            self.errors.append((done.returncode, done.stderr[-300:]))

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def seen(program, words, replace):
    """What callers saw while `replace` replaced the servers that `words` start."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder)
        try:
            servers.begin(words)
            callers = Callers(program, servers, folder)
            try:
                time.sleep(3)
                replace(servers, callers)
                time.sleep(3)
            finally:
                callers.end()
        finally:
            for port in servers.processes:
                servers.stop(port)
    print(f"taken: {callers.taken}, {callers.overlaps} overlaps, {len(callers.errors)} errors", flush=True)
    return callers


def one_by_one(words, name):
    def replace(servers, _callers):
        for port in servers.ports:
            servers.replace(port, words, name)
            servers.serves(port)

    return replace


def at_once(words):
    def replace(servers, callers):
        # Some turns meet no lock that is held for long.
        for turn in range(20):
            for port in servers.ports:
                servers.replace(port, words, f"at-once-{turn}")
            time.sleep(1)
            if callers.overlaps > 0:
                return

    return replace


def keeps_locks(callers):
    assert callers.overlaps == 0, f"{callers.overlaps} times two held the lock"
    assert not callers.errors, callers.errors[:3]
    assert min(callers.taken.values()) >= 3, f"too few locks to say anything: {callers.taken}"


def node(program, *options):
    words = [program, "server", "--cluster-id", "moved", "--cluster-size", str(NODES)]
    return [*words, "--restart-delay-max", RESTART_DELAY_MAX, *options]


def from_redis(program):
    keeps_locks(seen(program, REDIS, one_by_one(node(program), "node")))


def notices(program):
    forgetful = node(program, "--first-start", "serve")
    callers = seen(program, REDIS, at_once(forgetful))
    assert callers.overlaps > 0, "servers that forget and do not wait gave no lock twice"


def upgraded(program, before):
    first = node(before, "--first-start", "serve")
    keeps_locks(seen(program, first, one_by_one(node(program), "first")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--before")
    arguments = parser.parse_args()
    program, before = arguments.program, arguments.before
    report = Report()
    if before:
        report.check("upgrade: nodes of the version before are upgraded one by one, and no lock is lost", upgraded, program, before)
    else:
        report.check("migration: five redis-servers become nodes one by one, and no lock has two holders", from_redis, program)
        report.check("migration: the same callers notice servers that forget", notices, program)
    report.finish()


if __name__ == "__main__":
    main()
