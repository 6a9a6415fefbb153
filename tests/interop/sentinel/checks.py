"""Locks on a master that Sentinels watch: exclusion, loss, waiting, over a failover, and what a failover loses.

usage: checks.py PROGRAM [CHECK...]. redis-server and redis-cli have to be installed. A master, a replica and three Sentinels of its own for each check.
"""

import os
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "../engines"))
import checked  # noqa: E402
from checked import BUSY, LOST, UNAVAILABLE, agent_of, loss  # noqa: E402
from servers import Server, eventually, redis_version  # noqa: E402

MASTER = "locks"
# Sentinels call a master dead after this time, and agree on another one a little later.
DOWN_AFTER_MS = 500


class Set(checked.System):
    """A master, a replica that has all of it, and three Sentinels that know both."""

    called, compared_as, has_fences = "Sentinel", "sentinel", False

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.servers = []

    def begin(self):
        self.master = self.start("master", "--repl-diskless-sync-delay", "0")
        self.replica = self.start("replica", "--replicaof", f"127.0.0.1 {self.master.port}")
        eventually("the replica is in step", lambda: "state=online" in self.info(self.master))
        self.sentinels = [self.sentinel(number) for number in range(3)]
        known = ["num-slaves:1", "num-other-sentinels:2"]
        eventually("the Sentinels know each other", lambda: all(self.watched(one) == known for one in self.sentinels))
        ports = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        self.address = f"redis+sentinel://{ports}/{MASTER}"

    def start(self, name, *options):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        server = Server(["redis-server", "--dir", folder, "--save", "", "--bind", "127.0.0.1", *options], folder)
        self.servers.append(server)
        return server

    def sentinel(self, number):
        folder = os.path.join(self.folder, f"sentinel-{number}")
        os.makedirs(folder)
        path = os.path.join(folder, "sentinel.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"sentinel monitor {MASTER} 127.0.0.1 {self.master.port} 2\n"
                       f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n"
                       f"sentinel failover-timeout {MASTER} 5000\nbind 127.0.0.1\n")
        server = Server(["redis-server", path, "--sentinel"], folder)
        self.servers.append(server)
        return server

    def info(self, server):
        # A failover ends the connections of clients, at any moment.
        try:
            server.connection = server.connected()
            return server.ask("INFO", "replication")[1].decode()
        except (ConnectionError, EOFError):
            return ""

    def watched(self, sentinel):
        """What it knows of the master's replicas and of other Sentinels."""
        words = [part[1].decode() for part in sentinel.ask("SENTINEL", "MASTER", MASTER)[1]]
        told = dict(zip(words[::2], words[1::2]))
        return [f"{name}:{told.get(name)}" for name in ("num-slaves", "num-other-sentinels")]

    def names_the_replica(self, sentinel):
        port = str(self.replica.port).encode()
        return sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1][1][1] == port

    def fail_over(self):
        """Kills the master, and waits for the replica to be the one that a majority of the Sentinels name."""
        self.master.kill()
        self.servers.remove(self.master)
        eventually("the replica is the master", lambda: all(map(self.names_the_replica, self.sentinels)))
        eventually("it says so", lambda: "role:master" in self.info(self.replica))

    def is_held(self, name):
        return self.master.ask("EXISTS", name) == (":", b"1")

    def delete(self, name):
        self.master.ask("DEL", name)

    def version(self):
        return redis_version()

    def stop(self):
        for server in self.servers:
            server.process.send_signal(signal.SIGCONT)
            server.kill()


def well(locks):
    """A lock is one, is seen and is given back; what a failover may cost is said."""
    token, error = locks.ends(0, "acquire", "job", "--ttl", "60s")
    assert "two holders" in error, error
    locks.ends(BUSY, "run", "job", "-n", "--", "true")
    shown, _ = locks.ends(0, "locks", "--json")
    assert '"job"' in shown, shown
    found, _ = locks.ends(1, "doctor")
    assert "may lose" in found, found
    locks.ends(0, "release", "job", token.strip())
    locks.ends(0, "run", "job", "-n", "--", "true")


def over(locks):
    """A lock that was replicated outlives the master, and so does its holder."""
    holder = locks.command("run", "held", "--ttl", "20s", "--", "sleep", "12")
    eventually("it is held", lambda: locks.is_held("held"))
    token, _ = locks.ends(0, "acquire", "kept", "--ttl", "60s")
    assert locks.master.ask("WAIT", "1", "5000") == (":", b"1"), "it was not replicated"
    locks.fail_over()
    for name in ("kept", "held"):
        locks.ends(BUSY, "run", name, "-n", "--", "true")
    locks.ends(0, "release", "kept", token.strip())
    locks.ends(0, "run", "kept", "-n", "--", "true")
    out, error = holder.communicate(timeout=60)
    assert holder.returncode == 0, f"the holder: {holder.returncode}: {out}{error}"


def lost(locks):
    """A lock that was not replicated has a second holder, and the first is told when it renews its own."""
    # What the kernel has for the replica would still reach it.
    locks.replica.process.send_signal(signal.SIGSTOP)
    locks.master.line("CLIENT KILL TYPE replica")
    holder = locks.command("run", "lost", "--ttl", "20s", "--", "sleep", "60")
    eventually("it is held", lambda: locks.is_held("lost"))
    locks.master.kill()
    locks.servers.remove(locks.master)
    locks.replica.process.send_signal(signal.SIGCONT)
    eventually("the replica is the master", lambda: "role:master" in locks.info(locks.replica))
    locks.ends(0, "acquire", "lost", "--ttl", "60s", "--wait", "30s")
    out, error = holder.communicate(timeout=60)
    assert holder.returncode == LOST, f"the first holder: {holder.returncode}: {out}{error}"


def planned(locks):
    """A master that was followed and still serves gets no locks any more, and a client that stays takes them on its follower."""
    agent, there, _ = agent_of(locks)
    try:
        assert there.send([b"SET", b"before", b"me", b"NX", b"PX", b"60000"])[0] == "+", "the agent takes no lock"
        assert locks.master.ask("WAIT", "1", "5000") == (":", b"1"), "it was not replicated"
        locks.sentinels[0].line(f"SENTINEL FAILOVER {MASTER}")
        eventually("the replica is the master", lambda: all(map(locks.names_the_replica, locks.sentinels)))
        # The Sentinels are asked once a second.
        time.sleep(2.5)
        set_after = [b"SET", b"after", b"me", b"NX", b"PX", b"60000"]
        eventually("the agent takes locks again", lambda: there.send(set_after)[0] == "+")
        # The old master was the other one's replica by then, or would give it as well.
        locks.ends(BUSY, "run", "after", "-n", "--", "true")
        locks.ends(BUSY, "run", "before", "-n", "--", "true")
    finally:
        agent.kill()


def refused(locks):
    """Sentinels that are away or know no such master are named, each with its reason."""
    away = locks.address.replace("/" + MASTER, "/other")
    _, error = locks.ends(UNAVAILABLE, "run", "job", "-n", "--", "true", address=away)
    assert error.count("watches no master 'other'") == 3, error
    # One that names something else is outvoted, wherever it stands in the list.
    wrong = locks.sentinels[2]
    wrong.line(f"SENTINEL REMOVE {MASTER}")
    wrong.line(f"SENTINEL MONITOR {MASTER} 127.0.0.1 {locks.replica.port} 2")
    first = locks.address.split("://")[1].split("/")[0].split(",")
    address = f"redis+sentinel://{first[2]},{first[0]},{first[1]}/{MASTER}"
    locks.ends(0, "run", "job", "--", "true", address=address)
    wrong.line(f"SENTINEL REMOVE {MASTER}")
    wrong.line(f"SENTINEL MONITOR {MASTER} 127.0.0.1 {locks.master.port} 2")
    # Two of three that are down or silent cost time alone.
    locks.sentinels[0].process.send_signal(signal.SIGSTOP)
    locks.sentinels[1].kill()
    locks.servers.remove(locks.sentinels[1])
    locks.ends(0, "run", "job", "--", "true")
    # A replica that a Sentinel takes for the master is not believed.
    locks.sentinels[2].line(f"SENTINEL MONITOR wrong 127.0.0.1 {locks.replica.port} 1")
    address = f"redis+sentinel://127.0.0.1:{locks.sentinels[2].port}/wrong"
    _, error = locks.ends(UNAVAILABLE, "run", "job", "-n", "--", "true", address=address)
    assert "not the master" in error, error
    _, error = locks.ends(UNAVAILABLE, "wait", "job", "-w", "1s", address=address)
    assert "is a replica" in error, error


CHECKS = [
    ("taken, seen and given back", well),
    *checked.EVERYWHERE,
    ("a loss is told", loss),
    ("kept over a failover", over),
    ("lost by a failover", lost),
    ("a failover that somebody asks for", planned),
    ("what cannot be found", refused),
]


def main():
    program, named = sys.argv[1], sys.argv[2:]
    print(f"version {Set.called} system {redis_version()}", flush=True)
    for name, run in CHECKS:
        if named and run.__name__ not in named:
            continue
        with tempfile.TemporaryDirectory() as folder:
            locks = Set(program, folder)
            try:
                checked.attempt(locks, name, lambda locks, run=run: (locks.begin(), run(locks)))
            finally:
                locks.stop()
    print("done")


if __name__ == "__main__":
    main()
