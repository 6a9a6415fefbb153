"""Locks on a Redis Cluster: exclusion, loss, waiting, slots that move, failovers, and servers that hang.

usage: redis_cluster.py PROGRAM. redis-server and redis-cli have to be installed. Three masters of its own for all checks, with a replica each.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))
import checked  # noqa: E402
from checked import BUSY, LOST, UNAVAILABLE, USAGE, agent_of, loss, says  # noqa: E402
from servers import Connection, eventually, free_port, redis_version  # noqa: E402

# Servers call a master dead after this time, and its replica follows it a little later.
NODE_TIMEOUT_MS = 1500


class RedisCluster(checked.System):
    """Six servers."""

    called, compared_as, has_fences = "Redis Cluster", "redis-cluster", False

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.ports = [(free_port(), free_port()) for _ in range(6)]
        self.servers = [None] * 6
        for index in range(6):
            self.begin(index)
        hosts = [f"127.0.0.1:{port}" for port, _ in self.ports]
        for index in range(6):
            eventually("a server answers", lambda index=index: self.answers(index))
        subprocess.run(["redis-cli", "--cluster", "create", *hosts, "--cluster-replicas", "1", "--cluster-yes"],
                       check=True, timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.address = "redis-cluster://" + ",".join(hosts)
        eventually("all servers agree", self.is_whole)

    def begin(self, index):
        port, bus = self.ports[index]
        folder = os.path.join(self.folder, f"s{index}")
        os.makedirs(folder, exist_ok=True)
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no",
                 "--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
                 "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]
        with open(os.path.join(folder, "server.log"), "ab") as log:
            self.servers[index] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def answers(self, index):
        try:
            return self.ask(index, "PING") == ("+", b"PONG")
        except OSError:
            return False

    def ask(self, index, *words):
        """Asks one server, whatever it has."""
        return Connection(self.ports[index][0], 2).send([str(word).encode() for word in words])

    def nodes(self, index):
        """What a server knows: for each, its id, flags, master's id, and what else is told of it."""
        lines = self.ask(index, "CLUSTER", "NODES")[1].decode().splitlines()
        rows = {}
        for line in lines:
            words = line.split()
            port = int(words[1].split("@")[0].rsplit(":", 1)[1])
            where = [number for number, (known, _) in enumerate(self.ports) if known == port]
            rows[where[0]] = {"id": words[0], "flags": words[2].split(","), "master": words[3], "slots": words[8:]}
        return rows

    def is_whole(self, but=()):
        """Whether all but these servers know three masters with all slots, and that each has a replica in step."""
        for index in range(6):
            if index in but:
                continue
            try:
                info = self.ask(index, "CLUSTER", "INFO")[1]
                replication = self.ask(index, "INFO", "replication")[1]
                known = self.nodes(index)
            except (OSError, TypeError, IndexError):
                return False
            masters = [row for row in known.values() if "master" in row["flags"] and row["slots"]]
            followed = {row["master"] for row in known.values() if "slave" in row["flags"]}
            is_in_step = followed == {row["id"] for row in masters} and any(
                state in replication for state in (b"master_link_status:up", b"state=online"))
            if b"cluster_state:ok" not in info or len(masters) != 3 or len(known) != 6 or not (is_in_step or but):
                return False
        return True

    def slot(self, name):
        return int(self.ask(self.well, "CLUSTER", "KEYSLOT", name)[1])

    @property
    def well(self):
        return next(index for index in range(6) if self.servers[index].poll() is None and not self.is_stopped(index))

    def is_stopped(self, index):
        with open(f"/proc/{self.servers[index].pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    def master_of(self, name):
        """The master of this name, as the first server says that is well."""
        slot = self.slot(name)
        for index, row in self.nodes(self.well).items():
            for text in row["slots"]:
                ends = text.split("-")
                if "master" in row["flags"] and not text.startswith("[") and int(ends[0]) <= slot <= int(ends[-1]):
                    return index
        raise AssertionError(f"nobody has the slot of {name}")

    def replica_of(self, master):
        known = self.nodes(master)
        return next(index for index, row in known.items() if row["master"] == known[master]["id"])

    def names_apart(self, count=2):
        """Names on different masters."""
        found = {}
        for number in range(200):
            name = f"n{number}"
            found.setdefault(self.master_of(name), name)
            if len(found) == count:
                return [(name, master) for master, name in found.items()]
        raise AssertionError("all names are on one master")

    def is_held(self, name):
        return self.ask(self.master_of(name), "EXISTS", name) == (":", b"1")

    def delete(self, name):
        self.ask(self.master_of(name), "DEL", name)

    def version(self):
        return redis_version()

    def signal(self, index, number):
        self.servers[index].send_signal(number)

    def kill(self, index):
        self.servers[index].kill()
        self.servers[index].wait()

    def mended(self):
        """All servers run again, and what was a master is a replica."""
        for index, server in enumerate(self.servers):
            if server.poll() is not None:
                self.begin(index)
            server.send_signal(signal.SIGCONT)
        eventually("all servers agree again", self.is_whole)

    def stop(self):
        for server in self.servers:
            server.send_signal(signal.SIGCONT)
            server.kill()
            server.wait()


def well(server):
    """A lock is one, is seen, is extended and is given back; what a failover may cost is said."""
    token, error = server.ends(0, "acquire", "job", "--ttl", "60s")
    assert "failover of Redis Cluster may lose a lock" in error and "two holders" in error, error
    server.ends(BUSY, "run", "job", "-n", "--", "true")
    for name in [f"job{number}" for number in range(12)]:
        server.ends(0, "run", name, "-n", "--", "true")
    other, _ = server.ends(0, "acquire", "other", "--ttl", "60s")
    shown, _ = server.ends(0, "locks", "--json")
    assert '"job"' in shown and '"other"' in shown and "job7" not in shown, shown
    shown, _ = server.ends(0, "who", "job")
    assert "held" in shown, shown
    server.ends(0, "extend", "job", token.strip(), "--ttl", "90s")
    left = int(server.ask(server.master_of("job"), "PTTL", "job")[1])
    assert 80_000 < left <= 90_000, left
    server.ends(BUSY, "acquire", "job", "-n")
    server.ends(0, "release", "job", token.strip())
    server.ends(0, "release", "other", other.strip())
    server.ends(0, "run", "job", "-n", "--", "true")
    server.ends(0, "run", "a\n\\\"x", "-n", "--", "true")
    assert not server.is_held("job"), "it was given back"
    told, _ = server.ends(0, "status")
    assert "redis-cluster 7" in told and "serving" in told, told
    found, _ = server.ends(1, "doctor")
    assert "may lose" in found, found
    _, error = server.ends(UNAVAILABLE, "run", "job", "--fence", "-n", "--", "true")
    assert "no fences" in error, error
    observer = server.command("elect", "--listen", "lead")
    leader = server.command("elect", "lead", "first", "--ttl", "3s")
    # Where the leader is elected before the observer asks, the observer never sees the lock free.
    is_seen = any("token" in line and "leads" in line for line in observer.stdout)
    for command in (observer, leader):
        command.kill()
        command.communicate()
    assert is_seen, "the observer ends without a leader"


def several(server):
    """Several names are taken at once where they have one hash tag, and refused with the remedy where they have not."""
    words = ["run", "{order}:stock", "{order}:mail"]
    holder = server.command(*words, "--ttl", "20s", "--", "sleep", "60")
    eventually("both are held", lambda: all(map(server.is_held, words[1:])))
    server.ends(BUSY, "run", "{order}:mail", "-n", "--", "true")
    server.ends(BUSY, *words, "{order}:more", "-n", "--", "true")
    assert not server.is_held("{order}:more"), "one of three was taken"
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=30)
    assert not any(map(server.is_held, words[1:])), "they were given back"
    begun = time.monotonic()
    (one, _), (two, _) = server.names_apart()
    _, error = server.ends(UNAVAILABLE, "run", one, two, "-w", "30s", "--", "true")
    assert "different hash slots" in error and "hash tag" in error, error
    assert time.monotonic() - begun < 10, "what cannot work is not waited for"
    assert not server.is_held(one) and not server.is_held(two)


def add_users(server):
    """A user who cannot publish, and the user of the book."""
    few = "on >s3cret ~* +eval +get +set +del +pttl +pexpire +type +strlen +info +asking +cluster|slots +cluster|info"
    more = "&quorlock:released:* +ping +scan +publish +subscribe +unsubscribe"
    for index in range(6):
        for user, rights in (("few", few), ("all", f"{few} {more}")):
            assert server.ask(index, "ACL", "SETUSER", user, *rights.split()) == ("+", b"OK")


def moved(server):
    """The slot of a lock goes to another master while it is held, and each step of that on its own keeps it one lock."""
    name, other = "{moved}:job", "{moved}:other"
    slot, source = server.slot(name), server.master_of(name)
    target = next(master for _, master in server.names_apart(3) if master != source)
    ids = {index: row["id"] for index, row in server.nodes(source).items()}
    add_users(server)
    holder = server.command("run", name, "--ttl", "3s", "--", "sleep", "12", address=server.address.replace("://", "://all:s3cret@"))
    eventually("it is held", lambda: server.is_held(name))
    agent, through, _ = agent_of(server)
    try:
        take = lambda name: through.send([b"SET", name.encode(), b"me", b"NX", b"PX", b"60000"])  # noqa: E731
        assert take(name) == ("$", None), "held"
        line = lambda index, *words: server.ask(index, *words)[0] == "+"  # noqa: E731
        assert line(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        assert line(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        # The lock is on the one, and what is new in its slot is on the other.
        server.ends(BUSY, "run", name, "-n", "--", "true")
        assert take(other)[0] == "+", "a name of the slot that nobody has"
        server.ends(BUSY, "run", other, "-n", "--", "true")
        assert server.ask(source, "EXISTS", other)[0] == "-", "it is not on the master that gives the slot away"
        assert line(source, "MIGRATE", "127.0.0.1", server.ports[target][0], name, 0, 5000)
        # Now it is on the other one, and each request for it is sent on.
        server.ends(BUSY, "run", name, "-n", "--", "true")
        assert take(name) == ("$", None), "held"
        time.sleep(2.5)
        for index in (target, source):
            assert line(index, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        server.ends(BUSY, "run", name, "-n", "--", "true")
        assert take(name) == ("$", None), "held"
        eventually("all know it", lambda: server.master_of(name) == target)
        _, error = holder.communicate(timeout=40)
        assert holder.returncode == 0, f"{holder.returncode}: {error}"
        assert take(name)[0] == "+", "given back"
    finally:
        agent.kill()


def over(server):
    """A lock that was replicated outlives its master, and so does its holder."""
    holder = server.command("run", "held", "--ttl", "12s", "--", "sleep", "16")
    eventually("it is held", lambda: server.is_held("held"))
    master = server.master_of("held")
    waiter = server.command("wait", "held", "-w", "40s")
    link = Connection(server.ports[master][0], 2)
    replies = link.exchange([[b"SET", b"{held}:kept", b"x", b"PX", b"60000"], [b"WAIT", b"1", b"5000"]])
    assert replies[1] == (":", b"1"), replies
    server.kill(master)
    eventually("its replica is the master", lambda: server.master_of("held") != master)
    eventually("the cluster is well", lambda: server.is_whole(but=(master,)))
    for name in ("held", "{held}:kept"):
        server.ends(BUSY, "run", name, "-w", "1s", "--", "true")
    out, error = holder.communicate(timeout=60)
    assert holder.returncode == 0, f"the holder: {holder.returncode}: {out}{error}"
    assert waiter.wait(timeout=30) == 0, "who waited was not woken"
    server.mended()


def cut_off(server):
    """A master that knows no other server any more says that the cluster is down, and its holder goes on with the follower, which has the lock."""
    master = server.master_of("cut")
    replica = server.replica_of(master)
    others = {index: row["id"] for index, row in server.nodes(master).items() if index != master}
    holder = server.command("run", "cut", "--ttl", "6s", "--", "sleep", "12")
    eventually("it is held", lambda: server.is_held("cut"))
    replies = Connection(server.ports[master][0], 2).exchange([[b"SET", b"{cut}:kept", b"x", b"PX", b"60000"], [b"WAIT", b"1", b"5000"]])
    assert replies[1] == (":", b"1"), replies
    for node in others.values():
        assert server.ask(master, "CLUSTER", "FORGET", node)[0] == "+"
    eventually("it is down", lambda: b"CLUSTERDOWN" in server.ask(master, "GET", "cut")[1])
    assert server.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")[0] == "+"
    out, error = holder.communicate(timeout=60)
    assert holder.returncode == 0, f"the holder: {holder.returncode}: {out}{error}"
    for index in others:
        assert server.ask(master, "CLUSTER", "MEET", "127.0.0.1", *server.ports[index])[0] == "+"
    server.mended()


def lost(server):
    """A lock that was not replicated has a second holder, and the first is told when it renews its own."""
    master = server.master_of("lost")
    replica = server.replica_of(master)
    # What the kernel has for the replica would still reach it.
    server.signal(replica, signal.SIGSTOP)
    server.ask(master, "CLIENT", "KILL", "TYPE", "replica")
    holder = server.command("run", "lost", "--ttl", "20s", "--", "sleep", "60")
    eventually("it is held", lambda: server.ask(master, "EXISTS", "lost") == (":", b"1"))
    server.kill(master)
    server.signal(replica, signal.SIGCONT)
    token, _ = server.ends(0, "acquire", "lost", "--ttl", "60s", "--wait", "40s")
    out, error = holder.communicate(timeout=60)
    assert holder.returncode == LOST, f"the first holder: {holder.returncode}: {out}{error}"
    server.ends(0, "release", "lost", token.strip())
    server.mended()


def hung(server):
    """A master that hangs with its replica holds up no lock of another one, and costs its own in time; then the cluster says that it is down."""
    (here, master), (there, _) = server.names_apart()
    replica = server.replica_of(master)
    holder = server.command("run", here, "--ttl", "4s", "--", "sleep", "60")
    eventually("it is held", lambda: server.is_held(here))
    for index in (replica, master):
        server.signal(index, signal.SIGSTOP)
    begun = time.monotonic()
    _, error = server.ends(UNAVAILABLE, "run", here, "-n", "--", "true")
    assert time.monotonic() - begun < 4, f"told after {time.monotonic() - begun} s"
    _, error = holder.communicate(timeout=30)
    assert holder.returncode == LOST and time.monotonic() - begun < 6, f"{holder.returncode}: {error}"
    is_down = lambda: b"cluster_state:fail" in server.ask(server.well, "CLUSTER", "INFO")[1]  # noqa: E731
    eventually("the cluster is down", is_down)
    begun = time.monotonic()
    _, error = server.ends(UNAVAILABLE, "run", there, "-n", "--", "true")
    assert "CLUSTERDOWN" in error and time.monotonic() - begun < 5, error
    server.mended()
    server.ends(0, "run", here, "-w", "20s", "--", "true")


def refused(server):
    """What cannot work is said, with what to do about it."""
    run = ["run", "job", "-n", "--", "true"]
    beside = server.address + " redis://127.0.0.1:1"
    assert "list it alone" in server.ends(USAGE, *run, address=beside)[1]
    _, error = server.ends(UNAVAILABLE, *run, address="redis-cluster://127.0.0.1:1,127.0.0.1:2")
    assert error.count("refused") == 2, error
    assert "no locks for readers" in server.ends(UNAVAILABLE, "run", "job", "--shared", "-n", "--", "true")[1]
    # One of several servers is enough, and the others are found by it.
    port = server.ports[3][0]
    server.ends(0, "run", "job", "-w", "5s", "--", "true", address=f"redis-cluster://127.0.0.1:1,127.0.0.1:{port}")
    wrong = server.address.replace("://", "://me:s3cret@")
    begun = time.monotonic()
    _, error = server.ends(UNAVAILABLE, "run", "job", "-w", "30s", "--", "true", address=wrong)
    assert "WRONGPASS" in error and "s3cret" not in error, error
    assert time.monotonic() - begun < 10, "what cannot work is not waited for"
    _, error = server.ends(UNAVAILABLE, "run", "job", "-w", "30s", "--", "true", address=server.address.replace("://", "://:s3cret@"))
    assert "the cluster has no password" in error and "s3cret" not in error, error
    for index in range(6):
        assert server.ask(index, "ACL", "SETUSER", "default", "on", ">s3cret") == ("+", b"OK")
    try:
        _, error = server.ends(UNAVAILABLE, "run", "job", "-w", "30s", "--", "true")
        assert "the address has none" in error, error
    finally:
        for port, _ in server.ports:
            link = Connection(port, 2)
            assert link.exchange([[b"AUTH", b"s3cret"], [b"ACL", b"SETUSER", b"default", b"nopass"]])[1] == ("+", b"OK")
    # A server on its own.
    alone = free_port()
    words = ["redis-server", "--port", str(alone), "--bind", "127.0.0.1", "--save", "", "--dir", server.folder]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            address = f"redis-cluster://127.0.0.1:{alone}"
            says = lambda: server.command(*run, address=address).communicate(timeout=30)[1]  # noqa: E731
            eventually("it is said", lambda: "write redis://HOST:PORT" in says())
        finally:
            process.kill()


@contextlib.contextmanager
def other_cluster(server, port):
    """A cluster of one server, with ids of its own."""
    folder = tempfile.mkdtemp(dir=server.folder)
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
             "--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    says = lambda *words: subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=20).stdout  # noqa: E731
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            eventually("it has all slots", lambda: "OK" in says("CLUSTER", "ADDSLOTSRANGE", "0", "16383"))
            eventually("it is a cluster", lambda: "cluster_state:ok" in says("CLUSTER", "INFO"))
            yield says
        finally:
            process.kill()


def two_clusters(server):
    """Servers of two clusters in one list are refused, and one that is put in the place of another takes no locks of who knew that."""
    port = free_port()
    address = f"redis-cluster://127.0.0.1:{port}"
    with other_cluster(server, port) as says:
        begun = time.monotonic()
        for both in (f"{server.address},127.0.0.1:{port}", f"{address},127.0.0.1:{server.ports[3][0]}"):
            _, error = server.ends(UNAVAILABLE, "run", "job", "-w", "30s", "--", "true", address=both)
            assert "are in two clusters" in error and "list servers of one cluster alone" in error, error
        assert time.monotonic() - begun < 10, "what cannot work is not waited for"
        assert not server.is_held("job") and "0" in says("EXISTS", "job")
        agent, through, _ = agent_of(server, address)
        take = lambda name: through.send([b"SET", name, b"me", b"NX", b"PX", b"60000"])  # noqa: E731
        assert take(b"one")[0] == "+"
    try:
        with other_cluster(server, port) as says:
            for number in range(8):
                kind, words = take(b"two%d" % number)
                assert kind == "-", f"taken in the other cluster: {kind}{words}"
                time.sleep(0.3)
            assert b"it names no server of the cluster" in words, words
            assert "0" in says("DBSIZE")
            server.ends(0, "run", "one", "-n", "--", "true", address=address)
    finally:
        agent.kill()
        agent.communicate()


def logged_in(server):
    """A user who may run scripts on these names and no more takes locks, and one who may not publish gives them back all the same."""
    add_users(server)
    for user in ("few", "all"):
        address = server.address.replace("://", f"://{user}:s3cret@")
        token, _ = server.ends(0, "acquire", "right", "--ttl", "60s", "-n", address=address)
        waiter = server.command("run", "right", "-w", "20s", "--", "true", address=address)
        says(waiter, "right")
        time.sleep(0.3)
        server.ends(0, "release", "right", token.strip(), address=address)
        _, error = waiter.communicate(timeout=30)
        assert waiter.returncode == 0, f"{user}: {error}"
    token, _ = server.ends(0, "acquire", "right", "--ttl", "60s", "-n", address=address)
    shown, _ = server.ends(0, "locks", address=address)
    assert "right" in shown, shown
    server.ends(0, "release", "right", token.strip(), address=address)


def encrypted(server):
    """A cluster that speaks TLS alone takes locks, and a certificate that nobody trusts is refused."""
    folder = os.path.join(server.folder, "tls")
    os.makedirs(folder)
    command, certificate, key = checked.self_signed(folder)
    subprocess.run(command, check=True, capture_output=True)
    port, bus = free_port(), free_port()
    words = ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
             "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no",
             "--tls-cluster", "yes", "--cluster-enabled", "yes", "--cluster-port", str(bus)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            ask = ["redis-cli", "-p", str(port), "--tls", "--cacert", certificate, "CLUSTER"]
            says = lambda *words: subprocess.run([*ask, *words], capture_output=True, text=True, timeout=20).stdout  # noqa: E731
            eventually("it has all slots", lambda: "OK" in says("ADDSLOTSRANGE", "0", "16383"))
            eventually("it is a cluster", lambda: "cluster_state:ok" in says("INFO"))
            address = f"redis-cluster://127.0.0.1:{port}"
            server.ends(0, "run", "job", "--tls", "--cacert", certificate, "-n", "--", "true", address=address)
            address = f"rediss-cluster://127.0.0.1:{port}"
            server.ends(0, "run", "job", "--cacert", certificate, "-n", "--", "true", address=address)
            _, error = server.ends(UNAVAILABLE, "run", "job", "-n", "--", "true", address=address)
            assert "certificate" in error, error
        finally:
            process.kill()


CHECKS = [
    ("taken, seen and given back", well),
    ("several names", several),
    *checked.EVERYWHERE,
    ("a loss is told", loss),
    ("what cannot work", refused),
    ("two clusters", two_clusters),
    ("a user with few rights", logged_in),
    ("over TLS", encrypted),
    ("a slot that moves", moved),
    ("kept over a failover", over),
    ("a master that is cut off", cut_off),
    ("lost by a failover", lost),
    ("servers that hang", hung),
]

if __name__ == "__main__":
    checked.main(RedisCluster, CHECKS)
