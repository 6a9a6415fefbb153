"""Lock libraries of Python that know one Redis, against agents. QUORLOCK_AGENTS names two agents of the same nodes.

The first owner asks one agent and the second owner the other one.
"""

import logging
import os
import time
from types import SimpleNamespace

import django
import redis
import redis_lock
from celery import Celery
from celery.schedules import schedule
from django.conf import settings
from django.core.cache import caches
from redbeat.schedulers import RedBeatSchedulerEntry, acquire_distributed_beat_lock, ensure_conf

from agent_channels import run as run_channels
from locks import fresh
from report import Report, between, equal, hold_alone

SUFFIX = " through an agent"


class RedisPyLock:
    """redis-py's Lock: SET NX PX, and scripts that compare the token."""

    name = "redis-py Lock"
    package = "redis"

    def __init__(self, index):
        self.client = redis.Redis.from_url(AGENTS[index])

    def lock(self, name, seconds):
        return self.client.lock(name, timeout=seconds, thread_local=False)


class DjangoRedis:
    """The lock of Django's cache with django-redis."""

    name = "django-redis"
    package = "django-redis"

    def __init__(self, index):
        self.cache = caches[f"agent-{index}"]

    def lock(self, name, seconds):
        return self.cache.lock(name, timeout=seconds, thread_local=False)


def acquires_and_refuses(library):
    name = fresh()
    lock = library(0).lock(name, 4)
    other = library(1).lock(name, 4)
    equal([lock.acquire(blocking=False), other.acquire(blocking=False)], [True, False])
    equal([lock.owned(), other.owned(), other.locked()], [True, False, True])
    lock.release()
    equal(other.acquire(blocking=False), True)
    other.release()
    equal(other.locked(), False)


def extends(library):
    name = fresh()
    lock = library(0).lock(name, 0.8)
    lock.acquire()
    lock.extend(4, replace_ttl=True)
    time.sleep(1.2)
    equal(library(1).lock(name, 1).acquire(blocking=False), False)
    lock.release()


def expires(library):
    """A lock lasts as long as it was asked for, and not for good; its first owner can then do nothing to it."""
    name = fresh()
    lock = library(0).lock(name, 1)
    other = library(1).lock(name, 5)
    equal(lock.acquire(), True)
    start = time.monotonic()
    equal(other.acquire(blocking_timeout=8), True)
    between(time.monotonic() - start, 1, 8)
    for call in (lock.release, lock.reacquire):
        try:
            call()
        except redis.exceptions.LockError:
            pass
        else:
            raise AssertionError(f"{call.__name__} of a lost lock")
        # After a refused release the lock forgets its token.
        lock.local.token = b"not the token"
    equal(other.owned(), True)
    other.release()


def excludes(library, callers=8, rounds=3):
    name = fresh()

    def owner_of(number):
        owner = library(number % 2)

        def take():
            lock = owner.lock(name, 4)
            equal(patiently(lock.acquire, blocking_timeout=60), True)
            return lambda: patiently(lock.release)

        return take

    hold_alone(callers, rounds, owner_of)


def patiently(call, **arguments):
    """Asks again where the agent could not reach a majority."""
    end = time.monotonic() + 30
    while True:
        try:
            return call(**arguments)
        except redis.exceptions.ResponseError as error:
            if not str(error).startswith(("NOQUORUM", "TRYAGAIN")) or time.monotonic() > end:
                raise
        time.sleep(0.02)


def beats_take_turns():
    """RedBeat's lock keeps a second beat out, and is extended by a script of its own."""
    app = Celery("beat", broker=AGENTS[0])
    app.conf.update(redbeat_redis_url=AGENTS[0], redbeat_lock_key=fresh())
    ensure_conf(app)
    beat = SimpleNamespace(app=app, lock_key=app.redbeat_conf.lock_key, lock_timeout=1, max_interval=0.1)
    acquire_distributed_beat_lock(sender=SimpleNamespace(scheduler=beat))
    second = redis.Redis.from_url(AGENTS[1]).lock(beat.lock_key, timeout=4)
    equal(second.acquire(blocking=False), False)
    beat.lock.extend(4)
    between(redis.Redis.from_url(AGENTS[1]).ttl(beat.lock_key), 2, 6)
    beat.lock.release()
    equal(second.acquire(blocking=False), True)
    second.release()


def keeps_no_schedule():
    """RedBeat's schedule is in hashes and a sorted set, for which another server has to be there."""
    app = Celery("beat", broker=AGENTS[0])
    app.conf.update(redbeat_redis_url=AGENTS[0])
    ensure_conf(app)
    entry = RedBeatSchedulerEntry("job", "jobs.add", schedule(run_every=60), app=app)
    refused_by_name(entry.save)


def wakes_no_waiter():
    """python-redis-lock's release writes a list that wakes its waiters."""
    name = fresh()
    lock = redis_lock.Lock(redis.Redis.from_url(AGENTS[0]), name, expire=2)
    equal(lock.acquire(blocking=False), True)
    refused_by_name(lock.release)
    # Nothing was changed: it is held until its time is over.
    equal(redis.Redis.from_url(AGENTS[1]).exists(f"lock:{name}"), 1)


def refused_by_name(call):
    try:
        call()
    except redis.exceptions.ResponseError as error:
        if not str(error).startswith("NOTALOCK "):
            raise
    else:
        raise AssertionError("it is not refused")


def run(report):
    for library in (RedisPyLock, DjangoRedis):
        client = library.name + SUFFIX
        report.version(client, library.package)
        report.check(f"{client}: acquires, and a second owner is refused", acquires_and_refuses, library)
        report.check(f"{client}: extends", extends, library)
        report.check(f"{client}: expires, and a lost lock is not released", expires, library)
        report.check(f"{client}: eight callers, no overlap", excludes, library)
    run_channels(report, AGENTS)
    client = "python-redis-lock" + SUFFIX
    report.version(client, "python-redis-lock")
    report.check(f"{client}: its list of signals is refused by name", wakes_no_waiter)
    client = "celery-redbeat" + SUFFIX
    report.version(client, "celery-redbeat")
    report.check(f"{client}: its lock keeps a second beat out, and is extended", beats_take_turns)
    report.check(f"{client}: its schedule is refused by name", keeps_no_schedule)


if __name__ == "__main__":
    AGENTS = os.environ["QUORLOCK_AGENTS"].split(",")
    logging.disable()
    settings.configure(CACHES={
        f"agent-{index}": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}
        for index, url in enumerate(AGENTS)
    })
    django.setup()
    REPORT = Report()
    run(REPORT)
    REPORT.finish()
