"""`quorlock doctor` on set-ups of redis-server or valkey-server that are broken, each really so: what it finds, with its remedy."""

import os
import signal
import tempfile

from nodes import AHEAD_SECONDS, Nodes, having, the_one, wrong_clock
from servers import free_port

COUNT = 3


def no_log(nodes):
    """`appendonly no` is a problem of each, and so is a log that may lack the last second."""
    findings = nodes.findings(1)
    the_one(findings, "no-log", "problem", "appendonly yes")
    assert len(having(findings, "no-log")) == COUNT, findings
    the_one(findings, "wall-clock", "warning", "chrony")
    nodes.ask_all("CONFIG", "SET", "appendonly", "yes")
    findings = nodes.findings(1)
    the_one(findings, "forgets-in-a-crash", "problem", "appendfsync always")
    assert len(having(findings, "forgets-in-a-crash")) == COUNT and not having(findings, "no-log"), findings
    nodes.ask_all("CONFIG", "SET", "appendfsync", "always")
    assert not any(found["severity"] == "problem" for found in nodes.findings(1))


def evicts(nodes):
    nodes.servers[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    the_one(nodes.findings(1), "evicts", "problem", "noeviction", nodes.urls[0])
    nodes.servers[0].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


def full(nodes):
    nodes.servers[0].ask("CONFIG", "SET", "maxmemory", "100000")
    the_one(nodes.findings(1), "memory-full", "problem", "raise maxmemory", nodes.urls[0])
    nodes.servers[0].ask("CONFIG", "SET", "maxmemory", "0")


def few_clients(nodes):
    nodes.servers[0].ask("CONFIG", "SET", "maxclients", "5")
    the_one(nodes.findings(1), "few-clients", "warning", "raise maxclients", nodes.urls[0])
    nodes.servers[0].ask("CONFIG", "SET", "maxclients", "1")
    found = the_one(nodes.findings(1), "no-answer", "problem", "raise maxclients", nodes.urls[0])
    assert "max number of clients" in found["what"], found
    nodes.servers[0].ask("CONFIG", "SET", "maxclients", "10000")


def password(nodes):
    nodes.servers[0].ask("CONFIG", "SET", "requirepass", "secret")
    found = the_one(nodes.findings(1), "no-answer", "problem", "user and password", nodes.urls[0])
    assert "NOAUTH" in found["what"], found
    urls = [nodes.urls[0].replace("redis://", "redis://:wrong@"), *nodes.urls[1:]]
    found = the_one(nodes.findings(1, urls), "no-answer", "problem", "user and password")
    assert "WRONGPASS" in found["what"] and "wrong@" not in str(found), found
    nodes.servers[0].ask("CONFIG", "SET", "requirepass", "")


def rights(nodes):
    nodes.servers[0].ask("ACL", "SETUSER", "locks", "on", ">p", "~*", "+@all", "-info")
    urls = [nodes.urls[0].replace("redis://", "redis://locks:p@"), *nodes.urls[1:]]
    the_one(nodes.findings(1, urls), "no-answer", "problem", "right to run INFO")
    nodes.servers[0].ask("ACL", "DELUSER", "locks")


def twice(nodes):
    urls = [*nodes.urls[:2], nodes.urls[0].replace("127.0.0.1", "localhost")]
    found = the_one(nodes.findings(1, urls), "same-node", "problem", "list each node once", urls[2])
    assert f"identity of {urls[0]}: " in found["what"], found
    the_one(nodes.findings(69, nodes.urls[:1] + urls[2:]), "same-node", "problem", "list each node once", urls[2])


def replica(nodes):
    nodes.servers[0].ask("REPLICAOF", "127.0.0.1", str(nodes.servers[1].port))
    the_one(nodes.findings(1), "replica", "problem", "independent servers", nodes.urls[0])
    nodes.servers[0].ask("REPLICAOF", "NO", "ONE")


def stopped(nodes):
    """One that hangs, and one that is gone."""
    hanging = nodes.servers[0].process
    hanging.send_signal(signal.SIGSTOP)
    try:
        found = the_one(nodes.findings(1), "no-answer", "problem", "start the node", nodes.urls[0])
        assert "answer" in found["what"], found
    finally:
        hanging.send_signal(signal.SIGCONT)
    closed = "redis://127.0.0.1:1"
    found = the_one(nodes.findings(1, [*nodes.urls[:2], closed]), "no-answer", "problem", "start the node", closed)
    assert "cannot be reached" in found["what"], found
    the_one(nodes.findings(69, [nodes.urls[0], closed, "redis://127.0.0.1:2"]), "no-answer", "problem", "start the node")


def tls_to_plain(nodes):
    """redis-server takes a handshake for the beginning of a request, and is silent."""
    secure = nodes.urls[0].replace("redis://", "rediss://")
    for urls in ([secure, *nodes.urls[1:]], [secure]):
        the_one(nodes.findings(1 if urls[1:] else 69, urls), "no-answer", "problem", "redis://", secure)


def mixed(nodes):
    """A part of a Redis Cluster, a server without INFO, one whose clock is 90 s ahead, and a node of ours beside it: different versions."""
    with tempfile.TemporaryDirectory() as folder:
        others = Nodes(nodes.program, nodes.kind, folder, 0)
        ours = Nodes(nodes.program, "quorlock", os.path.join(folder, "ours"), 0)
        ours.size = COUNT
        try:
            others.add("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
            others.add(before=wrong_clock(folder))
            # It asks the kernel for the time and no library, so its clock cannot be moved so.
            ours.add()
            others.add("--rename-command", "INFO", "")
            cluster, ahead, mute = others.urls
            the_one(nodes.findings(1, [*nodes.urls[:2], mute]), "no-answer", "problem", "its own name", mute)
            found = the_one(nodes.findings(1, [*nodes.urls[:2], cluster]), "redis-cluster", "problem", "independent servers", cluster)
            assert found, cluster
            findings = nodes.findings(1, [nodes.urls[0], ahead, ours.urls[0]])
            found = the_one(findings, "clock", "warning", "chrony", ahead)
            about = int(found["what"].split(" ms ahead")[0].split()[-1])
            assert abs(about - AHEAD_SECONDS * 1000) < 5_000, found
            the_one(findings, "versions", "warning", "one version")
            assert not having(findings, "clock", nodes.urls[0]) and not having(findings, "clock", ours.urls[0]), findings
        finally:
            others.stop()
            ours.stop()


CHECKS = [("without a log, or with one that is behind", no_log), ("keys that may be evicted", evicts), ("full memory", full),
          ("few clients", few_clients), ("a password", password), ("a user without rights", rights), ("a server twice", twice),
          ("a replica", replica), ("servers that hang or are down", stopped), ("TLS to a plain port", tls_to_plain),
          ("a part of Redis Cluster, no INFO, a wrong clock, different versions", mixed)]
