"""Celery with a node as broker and result backend, and RedBeat, whose schedule and lock live there."""

import datetime
import time
import uuid

import redis
from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker
from celery.schedules import schedule
from redbeat import RedBeatScheduler, RedBeatSchedulerEntry

from report import equal


def application(url):
    """An application with a database of its own, since its names are fixed."""
    app = Celery("interop", broker=f"{url}/5", backend=f"{url}/5")
    app.conf.update(
        broker_connection_retry_on_startup=False, task_default_queue=f"interop-{uuid.uuid4().hex}",
        redbeat_redis_url=f"{url}/5", redbeat_lock_key="interop:redbeat", redbeat_lock_timeout=30,
        worker_hijack_root_logger=False, beat_max_loop_interval=1,
    )

    @app.task(name="add")
    def add(one, two):
        return one + two

    @app.task(name="total")
    def total(numbers):
        return sum(numbers)

    @app.task(name="stumbles", bind=True, max_retries=3)
    def stumbles(self):
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return self.request.retries

    return app


def works_off(url):
    """Results, a group, a chord, a retry and a task for later."""
    app = application(url)
    client = redis.Redis.from_url(url, db=5)
    client.flushdb()
    # A worker would try again without end.
    equal((client.brpop("interop:none", timeout=0.01), client.smembers("interop:none")), (None, set()))
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, shutdown_timeout=20):
        equal(app.tasks["add"].delay(1, 2).get(timeout=15), 3)
        equal(group(app.tasks["add"].s(number, 1) for number in range(5))().get(timeout=15), [1, 2, 3, 4, 5])
        header = [app.tasks["add"].s(number, number) for number in range(4)]
        equal(chord(header)(app.tasks["total"].s()).get(timeout=15), 12)
        equal(app.tasks["stumbles"].delay().get(timeout=15), 1)
        equal(app.tasks["add"].apply_async((3, 4), countdown=0.2).get(timeout=15), 7)
    app.close()


def beats(url):
    """The scheduler sends what is due, keeps its schedule on the node, and a second one finds it locked."""
    app = application(url)
    client = redis.Redis.from_url(url, db=5)
    client.flushdb()
    entry = RedBeatSchedulerEntry("often", "add", schedule(datetime.timedelta(milliseconds=100)), args=[1, 1], app=app)
    entry.save()
    scheduler = RedBeatScheduler(app, lazy=True)
    scheduler.setup_schedule()
    scheduler.lock = client.lock("interop:redbeat", timeout=30)
    equal(scheduler.lock.acquire(blocking=False), True)
    equal(client.lock("interop:redbeat", timeout=30).acquire(blocking=False), False)
    end = time.monotonic() + 10
    while client.llen(app.conf.task_default_queue) < 2 and time.monotonic() < end:
        scheduler.tick()
        time.sleep(0.05)
    equal(client.llen(app.conf.task_default_queue) >= 2, True)
    equal(RedBeatSchedulerEntry.from_key(entry.key, app=app).total_run_count >= 2, True)
    scheduler.close()
    equal(client.exists("interop:redbeat"), 0)
    app.close()


def run(report, urls):
    report.version("celery", "celery")
    report.check("celery: results, groups, chords, retries, tasks for later", works_off, urls[0])
    report.version("celery-redbeat", "celery-redbeat")
    report.check("celery-redbeat: a schedule and its lock", beats, urls[0])
