"""Commands that speak to plain redis-server or valkey-server: the whole life of a lock on five of them."""

import json


def taken(nodes):
    """acquire, extend, release and run."""
    out, _ = nodes.ends(0, "acquire", "job", "--ttl", "60s")
    token = out.strip()
    assert [value for _, value in nodes.ask_all("GET", "job")] == [token.encode()] * 5
    _, error = nodes.ends(75, "acquire", "job", "-n")
    assert "held" in error, error
    nodes.ends(0, "extend", "job", token, "--ttl", "90s")
    assert all(80_000 < int(left) <= 95_000 for _, left in nodes.ask_all("PTTL", "job"))
    nodes.ends(70, "release", "job", "another")
    nodes.ends(0, "release", "job", token)
    assert [count for _, count in nodes.ask_all("EXISTS", "job")] == [b"0"] * 5
    nodes.ends(70, "release", "job", token)
    out, _ = nodes.ends(0, "run", "job", "--", "sh", "-c", "echo $QUORLOCK_NAME")
    assert out == "job\n", out
    nodes.ends(3, "run", "job", "--", "sh", "-c", "exit 3")
    assert [count for _, count in nodes.ask_all("EXISTS", "job")] == [b"0"] * 5


def kinds(nodes):
    """What needs commands that these servers have not ends with the reason."""
    for flag in ("--fence", "--shared"):
        _, error = nodes.ends(69, "run", "job", flag, "--", "true")
        assert "which no wait changes" in error and f"leave {flag} out" in error, error
    assert [count for _, count in nodes.ask_all("EXISTS", "job")] == [b"0"] * 5


def seen(nodes):
    """locks, who and wait: strings, hashes, keys without a ttl, and keys that are no locks."""
    for server in nodes.servers[:3]:
        server.ask("SET", "most", "token-of-most", "PX", "60000")
    nodes.servers[0].ask("SET", "left", "t", "PX", "60000")
    nodes.ask_all("SET", "stuck", "for-ever")
    nodes.ask_all("HSET", "rw", "mode", "read", "c1:1", "1", "c2:1", "1")
    nodes.ask_all("PEXPIRE", "rw", "60000")
    nodes.ask_all("RPUSH", "list", "a")
    nodes.ask_all("PEXPIRE", "list", "60000")
    nodes.ask_all("SET", "long", "v" * 2000, "PX", "60000")
    found, counts = nodes.rows()
    assert sorted(found) == ["left", "most", "rw"], sorted(found)
    assert (counts["held"], counts["without_ttl"]) == (2, 1), counts
    assert [(found[name]["state"], found[name]["votes"]) for name in ("left", "most", "rw")] == [
        ("minority", 1), ("held", 3), ("held", 5)], found
    assert [holder["token"] for holder in found["rw"]["holders"]] == ["c1:1", "c2:1"], found["rw"]
    assert found["most"]["waiters"] is None and found["most"]["holders"][0]["held_ms"] is None, found["most"]
    found, _ = nodes.rows("--all")
    assert found["stuck"]["marks"] == ["no-ttl"] and found["stuck"]["holders"][0]["left_ms"] is None, found["stuck"]
    out, _ = nodes.ends(0, "locks", "s*")
    assert "not shown: 1 key without a ttl" in out, out
    for code, name, text in [(0, "most", "3 of 5 nodes say so"), (1, "left", "is not held"), (1, "none", "is free"),
                             (0, "stuck", "without a ttl"), (1, "list", "is no lock"), (1, "long", "is no lock")]:
        out, _ = nodes.ends(code, "who", name)
        assert text in out, out
    nodes.ends(75, "wait", "most", "--wait", "50ms")
    nodes.ends(0, "wait", "left", "--wait", "50ms")
    nodes.ends(75, "wait", "list", "--wait", "50ms")


def long_name(nodes):
    """A name of 1 MB with control characters reaches no terminal as it is, and programs as it is."""
    name = "\x07\x1b[2J\r\n" * 150_000
    nodes.ask_all("SET", name, "t", "PX", "60000")
    out, error = nodes.ends(0, "locks")
    assert not error and len(out) < 3_000 and f"({len(name)} bytes)" in out, f"{len(out)}: {out[:2000]}"
    assert all(character == "\n" or character.isprintable() for character in out), out[:2000]
    found, _ = nodes.rows()
    assert found[name]["votes"] == 5, found[name]["votes"]
    nodes.ask_all("DEL", name)


def ended(nodes):
    """force-release: of the token that is shown, of a lock that stays, and of a lock with readers."""
    nodes.ends(70, "force-release", "none", "--yes")
    nodes.ends(70, "force-release", "most", "--yes", "--token", "another")
    out, _ = nodes.ends(0, "force-release", "most", "--yes")
    assert "released on 3 of 5 nodes" in out, out
    out, _ = nodes.ends(0, "force-release", "stuck", "--yes", "--json")
    assert json.loads(out)["freed"] == 5, out
    # Both readers are meant, or one of them: nothing is done before it is said. The hash ends as a whole.
    _, error = nodes.ends(64, "force-release", "rw", "--yes")
    assert "nothing was released" in error and "--token" in error, error
    assert [count for _, count in nodes.ask_all("EXISTS", "rw")] == [b"1"] * 5
    out, _ = nodes.ends(0, "force-release", "rw", "--yes", "--token", "c2:1")
    assert "released on 5 of 5 nodes" in out, out
    assert [count for _, count in nodes.ask_all("EXISTS", "rw", "most", "stuck")] == [b"0"] * 5
    nodes.ends(70, "force-release", "list", "--yes")


def away(nodes):
    """status and the others while one server, and then a majority, is away."""
    out, _ = nodes.ends(0, "status")
    assert out.count("serving") == 5 and "2 more nodes may fail" in out, out
    version = nodes.kind.removesuffix("-server")
    for node in json.loads(nodes.ends(0, "status", "--json")[0])["nodes"]:
        assert node["state"] == "serving" and node["votes"] and node["version"].startswith(version + " "), node
        assert node["id"] and abs(node["clock_ahead_ms"]) < 5_000 and node["fsync"] == "none", node
    nodes.ask_all("SET", "kept", "t", "PX", "60000")
    urls = nodes.urls
    nodes.servers[4].kill()
    found, counts = nodes.rows("kept")
    row = found["kept"]
    assert (row["state"], row["votes"], row["answered"]) == ("held", 4, 4), row
    assert row["silent"][0]["node"] == urls[4] and counts["silent"][0]["node"] == urls[4], counts
    out, _ = nodes.ends(0, "status")
    assert "cannot be reached" in out and "1 more node may fail" in out, out
    out, _ = nodes.ends(0, "force-release", "kept", "--yes")
    assert "released on 4 of 5 nodes" in out and urls[4] in out, out
    nodes.ends(0, "run", "job", "-n", "--", "true")
    for server in nodes.servers[2:4]:
        server.kill()
    for words in (["status"], ["locks"], ["who", "kept"], ["doctor"], ["run", "job", "-n", "--", "true"],
                  ["acquire", "job", "-n"]):
        nodes.ends(69, *words)


CHECKS = [("acquire, extend, release and run", taken), ("fences and readers are refused with the reason", kinds),
          ("locks, who and wait", seen), ("a name of a megabyte", long_name), ("force-release", ended), ("status, with servers away", away)]
