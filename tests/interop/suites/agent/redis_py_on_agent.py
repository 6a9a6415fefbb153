"""A plugin of pytest, and a part of Django's settings: redis-py on an agent, as its user has to change it.

A lock without a timeout is taken with one, since an agent keeps nothing without a ttl. What an agent refuses to flush is
released one by one.
"""

import os

import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock

TTL_SECONDS = 60


def take(lock, token):
    timeout = int((lock.timeout or TTL_SECONDS) * 1000)
    return lock.redis.set(lock.name, token, nx=True, px=timeout)


def do_acquire(self, token):
    return bool(take(self, token))


async def do_acquire_asynchronously(self, token):
    return bool(await take(self, token))


def release_all(*_):
    with redis.Redis(port=int(os.environ["AGENT_PORT"]), protocol=2) as client:
        cursor = None
        while cursor != 0:
            cursor, locks = client.execute_command("LOCK.LIST", "*", cursor or 0)
            cursor = int(cursor)
            for lock in locks:
                client.delete(lock[lock.index(b"name") + 1])


async def release_all_asynchronously(*_):
    release_all()


if os.environ.get("SUITE_PEER") != "redis":
    redis.lock.Lock.do_acquire = do_acquire
    redis.asyncio.lock.Lock.do_acquire = do_acquire_asynchronously
    redis.Redis.flushdb = redis.Redis.flushall = release_all
    redis.asyncio.Redis.flushdb = redis.asyncio.Redis.flushall = release_all_asynchronously
