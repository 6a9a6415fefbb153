"""Users with exactly the rights that the book gives for a lock library, and with one right less.

QUORLOCK_RIGHTS is that page of the book.
"""

import os
import re
import urllib.parse
import uuid

import redis

import locks

PASSWORD = "interop"


def rules_of(library):
    """The rules in the row of the book's table."""
    with open(os.environ["QUORLOCK_RIGHTS"], encoding="utf-8") as page:
        rows = [line for line in page if line.startswith(f"| {library} |")]
    rules = re.search(r"\| `(\+[^`]+)`", rows[0]).group(1)
    return rules.replace("\\|", "|").split()


class User:
    """A user with these rules on all nodes, while the block runs."""

    def __init__(self, urls, rules):
        self.nodes = [redis.Redis.from_url(url) for url in urls]
        self.urls, self.rules, self.name = urls, rules, f"interop-{uuid.uuid4().hex}"

    def __enter__(self):
        for node in self.nodes:
            keys = ["~interop:*", "~redlock:interop:*"]
            node.execute_command("ACL", "SETUSER", self.name, "on", f">{PASSWORD}", *keys, "+ping", *self.rules)
            # A script that is there already needs no right to be loaded.
            node.script_flush()
        parts = [urllib.parse.urlsplit(url) for url in self.urls]
        return [part._replace(netloc=f"{self.name}:{PASSWORD}@{part.netloc}").geturl() for part in parts]

    def __exit__(self, *_):
        for node in self.nodes:
            node.execute_command("ACL", "DELUSER", self.name)


def works(library, urls, as_user):
    """Whether a lock of this library is taken, refused to a second one, extended and released."""
    resource = locks.fresh()
    holding = urls[:1] if issubclass(library, locks.RedisPyLock) else urls
    try:
        owner = library(as_user)
        lock = owner.acquire(resource, 3_000)
        if lock is None:
            return False
        key = owner.key(resource)
        if library(as_user).acquire(resource, 3_000) is not None:
            return False
        if library.extends:
            for url in holding:
                redis.Redis.from_url(url).pexpire(key, 2_000)
            owner.extend(resource, lock)
            if locks.time_left(holding, key) <= 2_000:
                return False
        if library is locks.RedisPyLock:
            lock.extend(5)
        elif library is locks.Pottery and not lock.locked():
            return False
        owner.release(resource, lock)
        return locks.time_left(holding, key) == -2
    except Exception:  # a library may say in any way that it was refused
        return False


def exact(library, name, urls):
    with User(urls, rules_of(name)) as as_user:
        if not works(library, urls, as_user):
            raise AssertionError(f"not with {rules_of(name)}")


def one_less(library, name, urls):
    rules = rules_of(name)
    needless = []
    for rule in rules:
        with User(urls, [other for other in rules if other != rule]) as as_user:
            if works(library, urls, as_user):
                needless.append(rule)
    if needless:
        raise AssertionError(f"nothing needs {needless}")


def run(report, urls):
    for library, name in [
        (locks.RedisPyLock, "redis-py `Lock`"),
        (locks.RedlockPy, "redlock-py"),
        (locks.Pottery, "pottery `Redlock`"),
    ]:
        report.check(f"{library.name}: works with the rights of the book", exact, library, name, urls)
        report.check(f"{library.name}: fails with one right less", one_less, library, name, urls)
