"""Libraries that wait for lists on one node: python-redis-lock, and the queues rq and huey."""

import threading
import time
import uuid

import redis
import redis_lock
import rq
from huey import RedisHuey, crontab
from huey.exceptions import TaskException, TaskLockedException

import jobs
from report import between, equal, hold_alone


def fresh():
    return f"interop-{uuid.uuid4().hex}"


def waits_for_signal(url):
    """A release pushes to a list that waiters pop from, so that they need not poll."""
    name = fresh()
    client, other = redis.Redis.from_url(url), redis.Redis.from_url(url)
    lock = redis_lock.Lock(client, name, expire=30)
    equal(lock.acquire(blocking=False), True)
    got = []

    def wait():
        waiting = redis_lock.Lock(other, name, expire=30)
        try:
            got.append((waiting.acquire(timeout=20), time.monotonic()))
            waiting.release()
        except redis.RedisError as error:
            got.append((error, 0))

    waiter = threading.Thread(target=wait)
    waiter.start()
    end = time.monotonic() + 10
    while client.info("clients")["blocked_clients"] == 0 and time.monotonic() < end:
        time.sleep(0.01)
    released = time.monotonic()
    lock.release()
    waiter.join()
    equal(got[0][0], True)
    between(got[0][1] - released, 0, 3)


def owns_and_resets(url):
    name = fresh()
    client = redis.Redis.from_url(url)
    lock = redis_lock.Lock(client, name, expire=30)
    other = redis_lock.Lock(client, name, expire=30)
    lock.acquire()
    equal(other.acquire(blocking=False), False)
    try:
        other.release()
    except redis_lock.NotAcquired:
        equal(lock.get_owner_id(), lock.id)
    else:
        raise AssertionError("a foreign release passed")
    other.reset()
    equal(lock.locked(), False)
    redis_lock.Lock(client, name).acquire()
    redis_lock.reset_all(client)
    equal(redis_lock.Lock(client, name).locked(), False)


def renews(url):
    client = redis.Redis.from_url(url)
    lock = redis_lock.Lock(client, fresh(), expire=1, auto_renewal=True)
    lock.acquire()
    end = time.monotonic() + 1.6
    while time.monotonic() < end:
        equal(lock.locked(), True)
        time.sleep(0.05)
    lock.extend(expire=20)
    between(client.pttl(f"lock:{lock._name.removeprefix('lock:')}"), 10_000, 20_000)
    lock.release()
    equal(lock.locked(), False)


def ten_callers(url):
    name = fresh()

    def owner_of(_):
        client = redis.Redis.from_url(url)

        def take():
            lock = redis_lock.Lock(client, name, expire=30)
            equal(lock.acquire(), True)
            return lock.release

        return take

    hold_alone(10, 3, owner_of)


def works_off(url):
    """Two queues, a job that depends on another, and a worker that works them off and keeps no results."""
    client = redis.Redis.from_url(url)
    high, low = rq.Queue(fresh(), connection=client), rq.Queue(fresh(), connection=client)
    key = fresh()
    second = low.enqueue(jobs.append, url, key, "low", result_ttl=0)
    high.enqueue(jobs.append, url, key, "high", result_ttl=0)
    low.enqueue(jobs.append, url, key, "after", depends_on=second, result_ttl=0)
    equal((high.count, low.count), (1, 1))
    worker = rq.SimpleWorker([high, low], connection=client)
    worker.work(burst=True, logging_level="CRITICAL")
    equal(client.get(key), b"high,low,after,")
    equal((high.count, low.count), (0, 0))
    client.delete(key)


def keeps_results(url):
    client = redis.Redis.from_url(url)
    queue, key = rq.Queue(fresh(), connection=client), fresh()
    job, failing = queue.enqueue(jobs.append, url, key, "one"), queue.enqueue(jobs.fail)
    rq.SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")
    equal(job.return_value(refresh=True), "one")
    equal(job.latest_result().type, rq.results.Result.Type.SUCCESSFUL)
    equal(failing.get_status(refresh=True), rq.job.JobStatus.FAILED)
    equal(failing.id in queue.failed_job_registry.get_job_ids(), True)
    client.delete(key)


def huey_of(url):
    return RedisHuey(fresh(), url=url, read_timeout=1)


def result_of(task):
    """The result of a task that may fail at first: whoever is quick reads the error of an earlier try."""
    for _ in range(3):
        try:
            return task(blocking=True, timeout=10)
        except TaskException:
            task.reset()
    raise AssertionError("every try failed")


def runs_tasks(url):
    """A consumer in threads of its own: tasks, a result waited for, a retry, a task for later."""
    huey = huey_of(url)
    tries = []

    @huey.task()
    def add(one, two):
        return one + two

    @huey.task(retries=2)
    def stumbles():
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return "done"

    @huey.periodic_task(crontab(minute="0", hour="0", day="1", month="1"))
    def rarely():
        return None

    consumer = huey.create_consumer(workers=2, initial_delay=0.01, max_delay=0.05)
    consumer.start()
    try:
        equal([add(number, 1)(blocking=True, timeout=10) for number in range(20)],
              list(range(1, 21)))
        equal(result_of(stumbles()), "done")
        equal(add.schedule((1, 2), delay=0)(blocking=True, timeout=10), 3)
        add.schedule((1, 2), delay=1000)
        # A worker takes it off the queue and puts it where it waits.
        end = time.monotonic() + 10
        while huey.scheduled_count() == 0 and time.monotonic() < end:
            time.sleep(0.01)
        equal((huey.scheduled_count(), huey.pending_count()), (1, 0))
    finally:
        consumer.stop(graceful=True)
        huey.flush()


def locks_tasks(url):
    huey = huey_of(url)
    with huey.lock_task("lock"):
        equal(huey.is_locked("lock"), True)
        try:
            with huey.lock_task("lock"):
                raise AssertionError("a second owner got the lock")
        except TaskLockedException:
            pass
    equal(huey.is_locked("lock"), False)
    huey.flush()


def run(report, urls):
    url = urls[0]
    report.version("python-redis-lock", "python-redis-lock")
    report.check("python-redis-lock: BLPOP, a release wakes a waiter", waits_for_signal, url)
    report.check("python-redis-lock: owner, reset, reset_all", owns_and_resets, url)
    report.check("python-redis-lock: renewal and extend", renews, url)
    report.check("python-redis-lock: ten callers, no overlap", ten_callers, url)
    report.version("rq", "rq")
    report.check("rq: a worker in burst mode, dependent jobs", works_off, url)
    report.check("rq: results and failures that are kept", keeps_results, url)
    report.version("huey", "huey")
    report.check("huey: a consumer, results, retries, scheduled tasks", runs_tasks, url)
    report.check("huey: locks", locks_tasks, url)
