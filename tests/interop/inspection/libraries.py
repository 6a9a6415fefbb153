"""Locks of redis-py, node-redlock, Redisson and our own command, held at once on the same five nodes, and what is said of them."""

import json
import os
import subprocess

import redis

# Programs of Java may take half a minute to start where much else runs.
TTL_SECONDS = 300
PY, NODE, JAVA, OURS = "seen:py", "seen:node", "seen:java", "seen:ours"


class Holder:
    """A program that holds a lock until the end of its input."""

    def __init__(self, nodes, words):
        self.process = subprocess.Popen(words, env=nodes.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline().split()
        assert line[:1] == ["held"], f"{words[0]}: {line}"
        self.tokens = line[1:]

    def release(self):
        self.process.stdin.close()
        assert "released" in self.process.stdout.read(), "it did not release"
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait(30)


class Held:
    """All of them, and the tokens that they have."""

    def __init__(self, nodes, node_folder, class_path):
        self.nodes = nodes
        self.locks = [redis.Redis.from_url(url, client_name="payroll").lock(PY, timeout=TTL_SECONDS) for url in nodes.urls]
        for lock in self.locks:
            assert lock.acquire(blocking=False, token="py-token-0123456789")
        self.node = Holder(nodes, ["node", os.path.join(node_folder, "holder.js"), NODE, str(TTL_SECONDS * 1000)])
        self.java = Holder(nodes, ["java", "-cp", class_path, "interop.Holder", JAVA, str(TTL_SECONDS)])
        out, _ = nodes.ends(0, "acquire", OURS, "--ttl", f"{TTL_SECONDS}s", "--owner", "rack 4")
        self.tokens = {PY: "py-token-0123456789", NODE: self.node.tokens[0], JAVA: self.java.tokens[0], OURS: out.strip()}
        assert len(set(self.java.tokens)) == len(nodes.urls), "Redisson's clients had ids of their own"

    def kill(self):
        self.node.kill()
        self.java.kill()


def rows(held):
    """Each row: who holds it, since when, for how long still, and on which nodes."""
    nodes = held.nodes
    found, counts = nodes.rows("seen:*")
    assert sorted(found) == sorted(held.tokens), sorted(found)
    assert (counts["locks"], counts["held"], counts["answered"], counts["complete"]) == (4, 4, 5, True), counts
    for name, row in found.items():
        assert (row["state"], row["votes"], row["answered"], row["nodes"], row["silent"]) == ("held", 5, 5, 5, []), row
        assert row["kind"] == ("hash" if name == JAVA else "string"), row
        assert row["marks"] == (["ids-differ"] if name == JAVA else []), row
        assert row["waiters"] == (0 if nodes.is_ours else None), row
        assert len(row["holders"]) == row["holder_count"] == 1, row
        holder = row["holders"][0]
        assert (holder["token"], holder["votes"], holder["on"]) == (held.tokens[name], 5, nodes.urls), row
        assert TTL_SECONDS * 500 < holder["left_ms"] <= TTL_SECONDS * 1000, row
        assert holder.get("tokens") == (held.java.tokens if name == JAVA else None), row
        since_when(nodes, name, holder)


def since_when(nodes, name, holder):
    """What a node remembers. Servers of others remember nothing."""
    if not nodes.is_ours:
        assert [holder[fact] for fact in ("held_ms", "owner", "client_address", "library")] == [None] * 4, holder
        return
    # Together they are as long as the lock and what it took to have it on all nodes. Redisson extends it once by then.
    took_ms = holder["held_ms"] + holder["left_ms"] - TTL_SECONDS * 1000
    assert holder["held_ms"] > 0 and -200 < took_ms < (30_000 if name == JAVA else 2_000), holder
    assert holder["extensions"] == (1 if name == JAVA else 0), holder
    assert holder["owner"] == ("rack 4" if name == OURS else None), holder
    assert holder["client_address"].startswith("127.0.0.1:"), holder
    # The command has ended, and the libraries are connected.
    assert holder["connected"] == (name != OURS), holder
    if name == PY:
        assert holder["client_name"] == "payroll" and "redis-py" in holder["library"], holder


def table(held):
    """People see the names and votes, and no whole token; a pattern chooses."""
    out, error = held.nodes.ends(0, "locks", "seen:*")
    assert not error and "4 locks, 4 held; 5 of 5 nodes answered" in out, out
    for name, token in held.tokens.items():
        line = next(line for line in out.splitlines() if line.startswith(name + " "))
        assert " 5/5 " in line and token not in out and token[:6] in line, line
    found, counts = held.nodes.rows("seen:[jn]*")
    assert sorted(found) == [JAVA, NODE] and counts["locks"] == 2, found
    found, counts = held.nodes.rows("nothing:*")
    assert not found and counts["locks"] == 0, found


def each_alone(held):
    """`who` and `wait`, and commands that want the lock."""
    nodes = held.nodes
    for name, token in held.tokens.items():
        out, _ = nodes.ends(0, "who", name)
        assert out.startswith(f"'{name}' is held: 5 of 5 nodes say so") and token not in out, out
        assert ("  since: " in out) == nodes.is_ours, out
        out, _ = nodes.ends(0, "who", name, "--json")
        assert json.loads(out)["holders"][0]["token"] == token, out
        _, error = nodes.ends(75, "wait", name, "--wait", "50ms")
        assert "is held" in error, error
        # To Redis a hash is no lock that another has: it says that the key is of another type.
        nodes.ends(75 if nodes.is_ours or name != JAVA else 69, "run", name, "-n", "--", "true")
        nodes.ends(70, "force-release", name, "--yes", "--token", "another")


def released(held):
    """A wait ends when the library releases its lock, or when that is ended by force on all nodes."""
    nodes = held.nodes

    def py():
        for lock in held.locks:
            lock.release()

    def java():
        # Each node has another of its fields, as `who --json` has them. What is not said to be meant stays.
        nodes.ends(64, "force-release", JAVA, "--yes")
        named = [word for token in held.java.tokens for word in ("--token", token)]
        out, _ = nodes.ends(0, "force-release", JAVA, "--yes", *named)
        assert "released on 5 of 5 nodes" in out, out

    releases = {PY: py, NODE: held.node.release, JAVA: java,
                OURS: lambda: nodes.ends(0, "release", OURS, held.tokens[OURS])}
    for name, release in releases.items():
        waiting = nodes.command("wait", name, "--wait", "30s")
        # It says so after a second.
        said = []
        while not any("is held" in line for line in said):
            said.append(waiting.stderr.readline())
            assert said[-1], f"{name}: {waiting.wait(30)}: {said}"
        release()
        out, error = waiting.communicate(timeout=60)
        assert waiting.returncode == 0 and f"'{name}' is free" in out + error, f"{name}: {out}{error}"
        nodes.ends(1, "who", name)
        assert [count for _, count in nodes.ask_all("EXISTS", name)] == [b"0"] * 5, name
    found, _ = nodes.rows("seen:*")
    assert not found, found


CHECKS = [("each row says who holds it, since when, for how long and where", rows), ("the table and a pattern", table),
          ("who, wait, run and force-release", each_alone), ("a wait ends with the lock", released)]
