"""Lock libraries of Python, each behind the same six calls, and the checks they all must pass."""

import time
import urllib.parse
import uuid

import pottery
import redis
import redlock

from report import between, equal, hold_alone


class RedlockPy:
    """redlock-py: SET NX PX on every node, release by EVAL. It cannot extend."""

    name = "redlock-py"
    package = "redlock-py"
    extends = False

    def __init__(self, urls):
        self.manager = redlock.Redlock(list(urls), retry_count=1)

    def acquire(self, resource, ttl_ms):
        return self.manager.lock(resource, ttl_ms) or None

    def release(self, resource, lock):
        self.manager.unlock(lock)

    def key(self, resource):
        return resource


class Pottery:
    """pottery's Redlock: scripts by EVALSHA for query, extension and release."""

    name = "pottery"
    package = "pottery"
    extends = True

    def __init__(self, urls):
        self.masters = {redis.Redis.from_url(url, socket_timeout=1) for url in urls}

    def acquire(self, resource, ttl_ms):
        lock = pottery.Redlock(
            key=resource, masters=self.masters, auto_release_time=ttl_ms / 1000
        )
        return lock if lock.acquire(blocking=False) else None

    def extend(self, resource, lock):
        lock.extend()

    def release(self, resource, lock):
        lock.release()

    def key(self, resource):
        return f"redlock:{resource}"


class RedisPyLock:
    """redis-py's own Lock on one node: scripts by EVALSHA, SCRIPT LOAD, EVALSHA."""

    name = "redis-py Lock"
    package = "redis"
    extends = True

    def __init__(self, urls):
        self.client = redis.Redis.from_url(list(urls)[0])

    def acquire(self, resource, ttl_ms):
        lock = self.client.lock(resource, timeout=ttl_ms / 1000, thread_local=False)
        return lock if lock.acquire(blocking=False) else None

    def extend(self, resource, lock):
        lock.reacquire()

    def release(self, resource, lock):
        lock.release()

    def key(self, resource):
        return resource


class RedlockPyOverTls(RedlockPy):
    """The URL says how TLS is spoken."""

    name = "redlock-py over TLS"


class PotteryOverTls(Pottery):
    name = "pottery over TLS"


class RedisPyLockOverTls(RedisPyLock):
    """By arguments in place of a URL, and by the name that the certificate has beside the address."""

    name = "redis-py Lock over TLS"

    def __init__(self, urls):
        url = urllib.parse.urlsplit(list(urls)[0])
        authority = urllib.parse.parse_qs(url.query)["ssl_ca_certs"][0]
        self.client = redis.Redis(host="localhost", port=url.port, ssl=True, ssl_ca_certs=authority)


LIBRARIES = [RedlockPy, Pottery, RedisPyLock]
OVER_TLS = [RedlockPyOverTls, PotteryOverTls, RedisPyLockOverTls]


class Nodes:
    """The nodes a library is given, and those of them that serve."""

    def __init__(self, urls, serving):
        self.urls = urls
        self.serving = serving


def time_left(urls, key):
    """The middle of the times left on the nodes, in ms; -2 where the key is gone."""
    left = sorted(redis.Redis.from_url(url).pttl(key) for url in urls)
    return left[len(left) // 2]


def fresh():
    return f"interop:{uuid.uuid4().hex}"


def acquires_and_refuses(library, nodes):
    resource = fresh()
    first = library(nodes.urls)
    lock = first.acquire(resource, 10_000)
    equal(lock is not None, True)
    if not issubclass(library, RedisPyLock):
        between(time_left(nodes.serving, first.key(resource)), 5_000, 10_000)
    equal(library(nodes.urls).acquire(resource, 10_000), None)
    first.release(resource, lock)


def extends(library, nodes):
    resource = fresh()
    owner = library(nodes.urls)
    lock = owner.acquire(resource, 3_000)
    time.sleep(0.3)
    holding = nodes.urls[:1] if issubclass(library, RedisPyLock) else nodes.serving
    before = time_left(holding, owner.key(resource))
    owner.extend(resource, lock)
    # pottery answers at a majority, and its last requests may be on their way: no time left grows by itself.
    end = time.monotonic() + 2
    while (after := time_left(holding, owner.key(resource))) < before + 100 and time.monotonic() < end:
        time.sleep(0.01)
    between(after, before + 100, 3_000)
    owner.release(resource, lock)


def releases(library, nodes):
    resource = fresh()
    owner = library(nodes.urls)
    lock = owner.acquire(resource, 10_000)
    owner.release(resource, lock)
    held = sum(redis.Redis.from_url(url).exists(owner.key(resource)) for url in nodes.serving)
    # pottery answers at a majority: a SET it did not wait for may land behind its own release, on
    # any server, and lives there until its TTL.
    equal(held <= (len(nodes.urls) // 2 if isinstance(owner, Pottery) else 0), True)
    other = library(nodes.urls)
    second = other.acquire(resource, 10_000)
    equal(second is not None, True)
    other.release(resource, second)


def expires(library, nodes):
    resource = fresh()
    equal(library(nodes.urls).acquire(resource, 400) is not None, True)
    equal(library(nodes.urls).acquire(resource, 400), None)
    time.sleep(0.5)
    other = library(nodes.urls)
    lock = other.acquire(resource, 5_000)
    equal(lock is not None, True)
    other.release(resource, lock)


def excludes(library, nodes, callers=10, rounds=3):
    """Ten callers take the same lock; no two hold it at once, and each gets it in the end."""
    resource = fresh()

    def owner_of(_):
        owner = library(nodes.urls)

        def take():
            end = time.monotonic() + 60
            while (lock := owner.acquire(resource, 10_000)) is None:
                if time.monotonic() > end:
                    raise AssertionError("no lock within 60 s")
                time.sleep(0.002 + 0.01 * uuid.uuid4().int % 7 / 1000)
            return lambda: owner.release(resource, lock)

        return take

    hold_alone(callers, rounds, owner_of)


def refuses_another_authority(library, nodes):
    """A client that trusts other authorities takes no lock."""
    foreign = [url.partition("?")[0] for url in nodes.urls]
    for url in foreign:
        try:
            redis.Redis.from_url(url).ping()
        except redis.ConnectionError as error:
            equal("certificate verify failed" in str(error), True)
        else:
            raise AssertionError(f"{url} was trusted")


def run_over_tls(report, urls, authority):
    """With nodes that speak TLS alone."""
    urls = [f"{url}?ssl_ca_certs={urllib.parse.quote(authority)}" for url in urls]
    nodes = Nodes(urls, urls)
    for library in OVER_TLS:
        report.version(library.name, library.package)
        checks = [("acquires, and a second owner is refused", acquires_and_refuses), ("extends", extends),
                  ("releases on every node", releases), ("ten callers, no overlap", excludes)]
        if library is RedisPyLockOverTls:
            checks.append(("an authority that is not named is not trusted", refuses_another_authority))
        for scenario, check in checks:
            if check is not extends or library.extends:
                report.check(f"{library.name}: {scenario}", check, library, nodes)


def run(report, urls, delayed):
    """With a node in its restart delay only what uses several nodes."""
    suffix = " with a node in its restart delay" if delayed else ""
    nodes = Nodes(urls, [url for url in urls if url != delayed])
    for library in LIBRARIES:
        if delayed and library is RedisPyLock:
            continue
        name = library.name
        report.version(name, library.package)
        checks = [("acquires, and a second owner is refused", acquires_and_refuses), ("extends", extends),
                  ("releases on every node", releases), ("expires", expires),
                  ("ten callers, no overlap", excludes)]
        for scenario, check in checks:
            if delayed and library is RedlockPy and check is not acquires_and_refuses:
                continue
            if check is not extends or library.extends:
                report.check(f"{name}: {scenario}{suffix}", check, library, nodes)
