"""What is checked on each system on which locks can be kept."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Connection, eventually  # noqa: E402

BUSY, UNAVAILABLE, LOST, USAGE = 75, 69, 70, 64
# What lock libraries release with.
COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Skipped(Exception):
    """What a check needs is not here."""


class System:
    """A system with an address. `secrets` are shown nowhere. `compared_as` is its name in a comparison.

    Each has `version()`, and `delete(name)`, which deletes a lock behind the back of its holder."""

    called, compared_as, address, secrets, has_fences = "", "", "", (), True

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def command(self, *words, address=None):
        # A password is not for a command line, which all users of a machine can read.
        environment = dict(os.environ, QUORLOCK_NODES=address or self.address)
        return subprocess.Popen([self.program, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ends(self, code, *words, address=None):
        command = self.command(*words, address=address)
        out, error = command.communicate(timeout=90)
        assert command.returncode == code, f"{words}: {command.returncode}: {out}{error}"
        assert not any(secret in out + error for secret in self.secrets), f"{words} shows the password"
        return out, error

    def fence(self, name="job"):
        out, _ = self.ends(0, "run", name, "--fence", "--ttl", "20s", "--", "sh", "-c", "echo $QUORLOCK_FENCE")
        return int(out)


def exclusion(server, callers=40):
    """Many commands at once, and a counter that loses counts where two of them run."""
    folder = tempfile.mkdtemp(dir=server.folder)
    script = ('mkdir busy || echo two >> wrong; read count < count; sleep 0.02; echo $((count + 1)) > count; '
              'echo $QUORLOCK_FENCE >> fences; rmdir busy')
    with open(os.path.join(folder, "count"), "w", encoding="utf-8") as file:
        file.write("0\n")
    fence = ["--fence"] if server.has_fences else []
    words = ["run", "counter", *fence, "--ttl", "10s", "--wait", "80s", "--", "sh", "-c", f"cd {folder}; {script}"]
    commands = [server.command(*words) for _ in range(callers)]
    for command in commands:
        _, error = command.communicate(timeout=120)
        assert command.returncode == 0, f"{command.returncode}: {error}"
    read = lambda name: open(os.path.join(folder, name), encoding="utf-8").read().split()  # noqa: E731
    assert read("count") == [str(callers)] and not os.path.exists(os.path.join(folder, "wrong")), read("count")
    if not server.has_fences:
        return
    fences = [int(fence) for fence in read("fences")]
    assert len(fences) == callers and all(a < b for a, b in zip(fences, fences[1:])), fences


def says(waiter, name):
    """Waits until a command says who holds the lock, as it does once it waits."""
    assert any(name in line for line in waiter.stderr), f"it does not wait for {name}"


def waiting(server):
    """A release wakes who waits, and an expiry does."""
    times = []
    for _ in range(5):
        token, _ = server.ends(0, "acquire", "turn", "--ttl", "60s")
        waiter = server.command("run", "turn", "--", "date", "+%s.%N")
        says(waiter, "turn")
        time.sleep(0.3)
        server.ends(0, "release", "turn", token.strip())
        released = time.time()
        out, error = waiter.communicate(timeout=30)
        assert waiter.returncode == 0, error
        times.append(float(out) - released)
    times.sort()
    assert times[2] < 0.1, f"woken after {times}"
    server.ends(0, "acquire", "turn", "--ttl", "2s")
    begun = time.monotonic()
    server.ends(0, "run", "turn", "--wait", "20s", "--", "true")
    took = time.monotonic() - begun
    assert 1 < took < 3, f"a lock of 2 s was waited for {took} s"


def loss(server):
    """Whoever loses the key is told."""
    holder = server.command("run", "taken", "--ttl", "3s", "--", "sleep", "60")
    eventually("it is held", lambda: server.is_held("taken"))
    server.delete("taken")
    token, _ = server.ends(0, "acquire", "taken", "--ttl", "60s", "-n")
    begun = time.monotonic()
    _, error = holder.communicate(timeout=30)
    assert holder.returncode == LOST and time.monotonic() - begun < 4, f"{holder.returncode}: {error}"
    server.ends(0, "release", "taken", token.strip())


def agent_of(server, address=None):
    """An agent in front of it, a connection to that, and the line in which it says where it is."""
    agent = server.command("agent", "--port", "0", address=address)
    line = next((line for line in agent.stdout if "find the agent under" in line), "")
    assert line, f"the agent does not start: {agent.stderr.read()}"
    return agent, Connection(int(line.rsplit(":", 1)[1].split()[0].rstrip("/")), 2), line


def through_an_agent(server):
    """What a program takes through an agent is a lock for the commands, and the reverse."""
    agent, link, line = agent_of(server)
    try:
        send = lambda *words: link.send([word.encode() for word in words])  # noqa: E731
        take = lambda token: send("SET", "through", token, "NX", "PX", "60000")  # noqa: E731
        give_back = lambda token: send("EVAL", COMPARE_AND_DELETE, "1", "through", token)  # noqa: E731
        assert take("me")[0] == "+", "the agent takes no lock"
        assert take("you") == ("$", None) and send("GET", "through") == ("$", b"me")
        server.ends(BUSY, "run", "through", "-n", "--", "true")
        assert send("PEXPIRE", "through", "90000") == (":", b"1")
        left = int(send("PTTL", "through")[1])
        # etcd counts whole seconds.
        assert 80000 < left <= 93000, left
        assert give_back("you") == (":", b"0") and give_back("me") == (":", b"1")
        token, _ = server.ends(0, "acquire", "through", "--ttl", "60s", "-n")
        assert take("me") == ("$", None), "held by a command"
        server.ends(0, "release", "through", token.strip())
        assert take("you")[0] == "+" and give_back("you") == (":", b"1")
    finally:
        agent.kill()
        out, error = agent.communicate()
    assert not any(secret in line + out + error for secret in server.secrets), "the agent shows the password"


def guarded(server):
    """A program's guards: one holder of many, rising fences or a word that there are none, a waiter that a drop wakes, and a loss."""
    example = os.path.join(os.path.dirname(server.program), "examples", "other_system")
    if not os.path.exists(example):
        raise Skipped("the examples are not beside the program")
    environment = dict(os.environ, QUORLOCK_NODES=server.address)
    program = subprocess.Popen([example, "by-hand"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(90, program.kill)
    limit.start()
    lines, deleted = [], 0
    try:
        for line in program.stdout:
            lines.append(line.strip())
            if line.startswith("delete "):
                server.delete(line.split()[1])
                deleted += 1
                program.stdin.write("deleted\n")
                program.stdin.flush()
        error = program.stderr.read()
        code = program.wait(30)
    finally:
        limit.cancel()
        program.kill()
        program.wait()
    told = f"{code}: {lines}: {error}"
    assert code == 0 and deleted > 0, told
    assert not any(secret in told for secret in server.secrets), "the program shows the password"
    fences = "fences rise" if server.has_fences else "no fences: "
    for begun in ("one holder at a time", fences, "who waits is woken", "a loss is told: "):
        assert any(line.startswith(begun) for line in lines), f"{begun}: {told}"


def compared(server, address=None, *more):
    """The comparison with other services measures our client here: one holder at a time, and a dead holder's lock is free in time."""
    folder = tempfile.mkdtemp(dir=server.folder)
    environment = dict(os.environ, QUORLOCK_SYSTEMS=address or server.address)
    words = ["experiment", "compare", "--services", "client", "--rounds", "1", "--round", "300ms", "--fault-trials", "2", "--json", *more]
    done = subprocess.run([server.program, *words, "--dir", folder], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=90)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert not any(secret in done.stdout + done.stderr for secret in server.secrets), "the comparison shows the password"
    summary = json.loads(done.stdout)
    assert summary["is_complete"] and len(summary["skipped"]) == 3, summary
    row, = summary["services"]
    assert row["service"] == f"client/{server.compared_as}" and server.version() in row["version"], row
    for load in ("apart", "together"):
        assert row[load]["cycles"] > 0 and row[load]["overlaps"] == 0 and row[load]["failed"] == 0, row
    faults = {fault["blow"]: fault for fault in row["faults"]}
    gone = faults.pop("holder-gone")
    # etcd counts whole seconds, and looks for what is over now and then.
    assert gone["trials"] == 2 and gone["outcome"] == "one-holder" and 2500 < gone["waited_ms"] < 8000, gone
    assert len(faults) == 3 and all(fault["outcome"] == "not-tried" for fault in faults.values()), faults


def self_signed(folder):
    """The command that makes a certificate of a server on this machine, and the paths of that and of its key."""
    certificate, key = (os.path.join(folder, name) for name in ("server.crt", "server.key"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=quorlock test",
               "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
               "-keyout", key, "-out", certificate]
    return command, certificate, key


# What is checked in the same way everywhere.
EVERYWHERE = [
    ("one of forty at a time", exclusion),
    ("who waits is woken", waiting),
    ("a program's guards", guarded),
    ("in a comparison", compared),
    ("through an agent", through_an_agent),
]


def attempt(server, name, run):
    """Runs a check, and says what became of it."""
    try:
        run(server)
        print(f"ok {server.called}: {name}", flush=True)
    except Skipped as reason:
        print(f"skip {server.called}: {name}: {reason}", flush=True)
    except (AssertionError, LookupError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"FAIL {server.called}: {name}: {error}".replace("\n", " "), flush=True)


def main(system, checks):
    named = sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        server = system(sys.argv[1], folder)
        try:
            print(f"version {server.called} system {server.version()}", flush=True)
            for name, run in checks:
                if not named or run.__name__ in named:
                    attempt(server, name, run)
        finally:
            server.stop()
    print("done")
