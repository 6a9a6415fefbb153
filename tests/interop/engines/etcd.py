"""Locks in etcd: exclusion, loss, fences, waiting, and members that die.

usage: etcd.py PROGRAM. etcd has to be installed. Three members of its own for all checks.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))
import checked  # noqa: E402
from checked import BUSY, LOST, UNAVAILABLE, USAGE, compared, loss, says  # noqa: E402
from servers import eventually, free_port  # noqa: E402


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def member(name, folder, clients, peers, initial, *more):
    """The process of a member, with its data and its log in this folder."""
    words = ["etcd", "--name", name, "--data-dir", os.path.join(folder, name), "--listen-client-urls", clients,
             "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
             "--initial-cluster", initial, "--logger", "zap", "--log-level", "error", *more]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
    with open(os.path.join(folder, f"{name}.log"), "ab") as log:
        return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Etcd(checked.System):
    """Three members."""

    called = compared_as = "etcd"

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.ports = [(free_port(), free_port()) for _ in range(3)]
        self.members = [None] * 3
        for index in range(3):
            self.begin(index)
        self.address = "etcd://" + ",".join(f"127.0.0.1:{port}" for port, _ in self.ports)
        eventually("there is a leader", lambda: self.command("run", "first", "--", "true").wait(60) == 0)

    def begin(self, index):
        clients, peers = (f"http://127.0.0.1:{port}" for port in self.ports[index])
        initial = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(self.ports))
        self.members[index] = member(f"m{index}", self.folder, clients, peers, initial)

    def post(self, path, **body):
        """Asks any member that answers."""
        for port, _ in self.ports:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode())
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return json.load(answer)
            except OSError:
                pass
        raise AssertionError(f"no member answers {path}")

    def key(self, name, path="/v3/kv/range"):
        return self.post(path, key=encoded("quorlock/locks/" + name))

    def is_held(self, name):
        return "kvs" in self.key(name)

    def delete(self, name):
        self.key(name, "/v3/kv/deleterange")

    def version(self):
        return self.post("/v3/maintenance/status")["version"]

    def has_forgotten(self, revision):
        """Whether a member refuses a watch that is to begin with this revision."""
        body = json.dumps({"create_request": {"key": encoded("other"), "start_revision": revision}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[0][0]}/v3/watch", body)
        with urllib.request.urlopen(request, timeout=5) as answer:
            lines = [json.loads(answer.readline())["result"] for _ in range(2)]
        return any(line.get("canceled") and "compact_revision" in line for line in lines)

    def slow_watches(self):
        """How many watches members have put aside, because whoever asked does not read."""
        count = 0
        for port, _ in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
            values = [line.split()[1] for line in lines if line.startswith("etcd_debugging_mvcc_slow_watcher_total ")]
            count += sum(int(float(value)) for value in values)
        return count

    def kill(self, index):
        self.members[index].kill()
        self.members[index].wait()

    def stop(self):
        for member in self.members:
            member.send_signal(signal.SIGCONT)
            member.kill()
            member.wait()


def well(server):
    """A lock is one, is seen, is extended and is given back, and nothing of it stays."""
    token, _ = server.ends(0, "acquire", "job", "--ttl", "60s")
    server.ends(BUSY, "run", "job", "-n", "--", "true")
    shown, _ = server.ends(0, "locks", "--json")
    assert '"job"' in shown, shown
    shown, _ = server.ends(0, "who", "job")
    assert "held" in shown, shown
    server.ends(0, "extend", "job", token.strip(), "--ttl", "90s")
    lease = server.key("job")["kvs"][0]["lease"]
    left = int(server.post("/v3/lease/timetolive", ID=lease)["TTL"])
    assert 80 < left <= 90, left
    server.ends(BUSY, "acquire", "job", "-n")
    server.ends(0, "release", "job", token.strip())
    server.ends(0, "run", "job", "-n", "--", "true")
    server.ends(0, "run", "a\n\\\"x", "-n", "--", "true")
    told = [server.fence() for _ in range(5)]
    assert all(a < b for a, b in zip(told, told[1:])), told
    left = server.post("/v3/kv/range", key=encoded("quorlock/"), range_end=encoded("quorlock0"))
    assert "kvs" not in left, left
    time.sleep(0.5)
    leases = server.post("/v3/lease/leases").get("leases", [])
    assert len(leases) <= 1, leases
    told, _ = server.ends(0, "status")
    assert "etcd 3" in told and "serving" in told, told


def compacted(server):
    """Members that forget all revisions but the last, again and again, lose no caller that waits, and none that begins to."""
    other = encoded("other")
    token, _ = server.ends(0, "acquire", "compacted", "--ttl", "60s")
    waiters = []
    for number in range(3):
        waiters.append(server.command("run", "compacted", "-w", "40s", "--ttl", "10s", "--", "date", "+%s.%N"))
        says(waiters[-1], "compacted")
        for _ in range(5):
            revision = server.post("/v3/kv/put", key=other, value=other)["header"]["revision"]
            server.post("/v3/kv/compaction", revision=revision, physical=True)
        assert server.has_forgotten(int(revision) - 1), "members remember what was before"
    time.sleep(0.5)
    assert all(waiter.poll() is None for waiter in waiters), "the lock is held"
    server.ends(0, "release", "compacted", token.strip())
    released = time.time()
    times = []
    for waiter in waiters:
        out, error = waiter.communicate(timeout=30)
        assert waiter.returncode == 0, f"{waiter.returncode}: {error}"
        times.append(float(out) - released)
    assert min(times) < 1 and max(times) < 5, f"woken after {times}"
    server.post("/v3/kv/deleterange", key=other)


def lagging(server):
    """A caller that stands still is woken although the release that it waits for was forgotten before its watch told of it."""
    prefix = "quorlock/locks/many/"
    name = lambda number, size: encoded(f"{prefix}{number}/" + "x" * size)  # noqa: E731

    def fill(size):
        puts = [{"requestPut": {"key": name(number, size), "value": encoded("x")}} for number in range(40)]
        server.post("/v3/kv/txn", success=puts)

    token, _ = server.ends(0, "acquire", "lagging", "--ttl", "120s")
    waiter = server.command("run", "lagging", "-w", "100s", "--", "true")
    says(waiter, "lagging")
    time.sleep(0.5)
    waiter.send_signal(signal.SIGSTOP)
    try:
        before = server.slow_watches()
        # What fills the buffers of the connection, and then more deletions than a member keeps in its queue.
        for _ in range(16):
            fill(16000)
            server.post("/v3/kv/deleterange", key=encoded(prefix), range_end=encoded(prefix[:-1] + "0"))
        until = time.monotonic() + 60
        while server.slow_watches() == before:
            assert time.monotonic() < until, "the watch of a caller that stands still does not lag"
            fill(1)
            for number in range(40):
                server.post("/v3/kv/deleterange", key=name(number, 1))
        server.ends(0, "release", "lagging", token.strip())
        revision = server.post("/v3/kv/put", key=encoded("other"), value=encoded("x"))["header"]["revision"]
        server.post("/v3/kv/compaction", revision=revision, physical=True)
    finally:
        waiter.send_signal(signal.SIGCONT)
    begun = time.monotonic()
    _, error = waiter.communicate(timeout=60)
    assert waiter.returncode == 0 and time.monotonic() - begun < 20, f"{waiter.returncode}: {error}"
    server.post("/v3/kv/deleterange", key=encoded("other"))


def many(server):
    """A list goes on behind the keys that are read at once, and is whole."""
    lease = server.post("/v3/lease/grant", TTL="3600")["ID"]
    for begin in range(0, 2500, 100):
        keys = [f"quorlock/locks/many:{number:04}" for number in range(begin, begin + 100)]
        puts = [{"requestPut": {"key": encoded(key), "value": encoded("x"), "lease": lease}} for key in keys]
        server.post("/v3/kv/txn", success=puts)
    try:
        told, _ = server.ends(0, "locks", "many:23*", "--json")
        listed = json.loads(told.splitlines()[-1])
        assert listed["complete"] and listed["locks"] == listed["held"] == 100, listed
    finally:
        server.post("/v3/lease/revoke", ID=lease)


def encrypted(server):
    """A member that speaks TLS takes locks, and a certificate that nobody trusts is refused."""
    folder = os.path.join(server.folder, "tls")
    os.makedirs(folder)
    command, certificate, key = checked.self_signed(folder)
    subprocess.run(command, check=True, capture_output=True)
    clients, peers = f"https://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    address = clients.replace("https://", "etcds://")
    run = ["run", "secret", "--cacert", certificate, "-n", "--", "true"]
    process = member("alone", folder, clients, peers, f"alone={peers}", "--cert-file", certificate, "--key-file", key)
    try:
        eventually("it takes locks", lambda: server.command(*run, address=address).wait(60) == 0)
        token, _ = server.ends(0, "acquire", "secret", "--cacert", certificate, "--ttl", "60s", "-n", address=address)
        server.ends(BUSY, *run, address=address)
        waiter = server.command("run", "secret", "--cacert", certificate, "-w", "20s", "--", "true", address=address)
        says(waiter, "secret")
        server.ends(0, "release", "secret", token.strip(), "--cacert", certificate, address=address)
        _, error = waiter.communicate(timeout=30)
        assert waiter.returncode == 0, error
        _, error = server.ends(UNAVAILABLE, "run", "secret", "-n", "--", "true", address=address)
        assert "certificate" in error or "authority" in error, error
        compared(server, address, "--cacert", certificate)
        # What speaks TLS alone is not spoken to without.
        server.ends(UNAVAILABLE, "run", "secret", "-n", "--", "true", address=address.replace("etcds://", "etcd://"))
    finally:
        process.kill()
        process.wait()


def killed(server):
    """The death of one member costs a holder nothing, and that of two ends the work in time."""
    kept = server.command("run", "kept", "--ttl", "20s", "--", "sleep", "12")
    ended = server.command("run", "ended", "--ttl", "4s", "--", "sleep", "60")
    for name in ("kept", "ended"):
        eventually("it is held", lambda name=name: server.is_held(name))
    server.kill(0)
    eventually("locks go on", lambda: server.command("run", "any", "-w", "3s", "--", "true").wait(30) == 0)
    server.ends(BUSY, "run", "kept", "-w", "2s", "--", "true")
    server.kill(1)
    begun = time.monotonic()
    _, error = ended.communicate(timeout=30)
    assert ended.returncode == LOST and time.monotonic() - begun < 5, f"{ended.returncode}: {error}"
    server.ends(UNAVAILABLE, "run", "any", "-n", "--", "true")
    server.begin(0)
    server.begin(1)
    _, error = kept.communicate(timeout=40)
    assert kept.returncode == 0, f"{kept.returncode}: {error}"


def refused(server):
    """What cannot work is said."""
    run = ["run", "job", "-n", "--", "true"]
    beside = server.address + ",redis://127.0.0.1:1"
    assert "list it alone" in server.ends(USAGE, *run, address=beside)[1]
    _, error = server.ends(UNAVAILABLE, *run, address="etcd://127.0.0.1:1,127.0.0.1:2")
    assert error.count("refused") == 2, error
    assert "no locks for readers" in server.ends(UNAVAILABLE, "run", "job", "--shared", "-n", "--", "true")[1]
    # A login that is none.
    login = server.address.replace("://", "://me:s3cret@")
    error = server.ends(UNAVAILABLE, *run, address=login)[1]
    assert "authentication is not enabled" in error and "s3cret" not in error, error


def logged_in(server):
    """A user who may write these keys alone takes locks, and a wrong password is told."""
    may = {"permType": "READWRITE", "key": encoded("quorlock/"), "range_end": encoded("quorlock0")}
    server.post("/v3/auth/role/add", name="root")
    server.post("/v3/auth/role/add", name="locks")
    server.post("/v3/auth/role/grant", name="locks", perm=may)
    for user, role in (("root", "root"), ("me", "locks")):
        server.post("/v3/auth/user/add", name=user, password="s3cret")
        server.post("/v3/auth/user/grant", user=user, role=role)
    server.post("/v3/auth/enable")
    run = ["run", "job", "-w", "10s", "--", "true"]
    server.ends(0, *run, address=server.address.replace("://", "://me:s3cret@"))
    wrong = server.address.replace("://", "://me:wrong@")
    _, error = server.ends(UNAVAILABLE, "run", "job", "-n", "--", "true", address=wrong)
    assert "authentication failed" in error, error


CHECKS = [
    ("taken, seen and given back", well),
    *checked.EVERYWHERE,
    ("a loss is told", loss),
    ("members that forget what was before", compacted),
    ("a watch that lags behind what they remember", lagging),
    ("more locks than are read at once", many),
    ("what cannot work", refused),
    ("over TLS", encrypted),
    ("members that die", killed),
    ("a user with few rights", logged_in),
]

if __name__ == "__main__":
    checked.main(Etcd, CHECKS)
