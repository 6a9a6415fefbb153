"""What happens to locks when nodes die, lose power, hang and are cut off."""

import uuid

import redis


def take(cluster, name, ttl_ms):
    """Takes a lock where a majority grants it; in its place stands your library. Gives the token, or nothing."""
    token = uuid.uuid4().hex
    votes = 0
    for url in cluster.urls:
        # A node that does not answer must not take the lock's time.
        with redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=None) as node:
            try:
                votes += bool(node.set(name, token, nx=True, px=ttl_ms))
            except redis.RedisError:
                pass
    return token if votes >= cluster.quorum else None


def test_a_majority_is_enough(cluster):
    cluster.do("kill", "1")
    cluster.do("kill", "2")
    assert take(cluster, "a", ttl_ms=30_000)
    cluster.do("kill", "3")
    assert not take(cluster, "b", ttl_ms=30_000)


def test_nodes_that_hang_or_are_cut_off_do_not_vote(cluster):
    cluster.do("pause", "1")
    cluster.do("cut", "2")
    assert take(cluster, "a", ttl_ms=30_000)
    cluster.do("slow", "3", "2s")
    assert not take(cluster, "b", ttl_ms=30_000)
    cluster.do("heal")
    assert take(cluster, "c", ttl_ms=30_000)


def test_a_lock_ends_by_its_ttl(cluster):
    assert take(cluster, "a", ttl_ms=30_000)
    assert not take(cluster, "a", ttl_ms=30_000)
    cluster.do("advance", "31s")
    assert take(cluster, "a", ttl_ms=30_000)


def test_a_node_that_lost_power_grants_nothing_until_what_it_forgot_has_expired(cluster):
    assert take(cluster, "a", ttl_ms=30_000)
    for node in ("1", "2", "3"):
        cluster.do("lose-power", node)
        cluster.do("restart", node)
    # Three nodes may have forgotten it, and would be a majority for somebody else.
    assert not take(cluster, "a", ttl_ms=30_000)
    cluster.do("advance", "10m")
    assert take(cluster, "a", ttl_ms=30_000)
