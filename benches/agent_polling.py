#!/usr/bin/env python3
"""redis-py's locks that poll: what they cost the nodes behind an agent, and how long a lock is free between two holders.

usage: agent_polling.py --program QUORLOCK [--seconds 10] [--rounds 5]

It needs redis-py and redis-server. Callers poll every 100 ms, as redis-py's Lock does by default: on one redis-server, through an agent over
five nodes, and through one with `--hold-back 100ms`, in turns.
"""

import argparse
import statistics
import tempfile
import threading
import time

import redis

from agent import NODES, Side, free_ports, one_redis, through_agent

POLLING = 50
CONTENDING = 8
# So that others have it next, and some of them always wait.
HELD_SECONDS, AWAY_SECONDS = 0.05, 0.1


def requests(ports):
    """All that these servers were asked so far, without this question."""
    infos = [redis.Redis(port=port).info("stats") for port in ports]
    return sum(info["total_commands_processed"] - 1 for info in infos)


def requests_per_second(ports, seconds):
    before, begin = requests(ports), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    # The connections of the first question log in and ask, and so do those of the second.
    return (requests(ports) - before) / took


def polled(port, servers, seconds):
    """Requests at the servers for each caller and second, beyond those that come without callers."""
    client = redis.Redis(port=port)
    holder = client.lock("polled", timeout=600, thread_local=False)
    assert holder.acquire(blocking=False)
    idle = requests_per_second(servers, seconds)
    over = threading.Event()

    def poll():
        lock = redis.Redis(port=port).lock("polled", timeout=600, thread_local=False)
        while not over.is_set():
            assert not lock.acquire(blocking_timeout=1)

    callers = [threading.Thread(target=poll) for _ in range(POLLING)]
    for one in callers:
        one.start()
    time.sleep(2)
    busy = requests_per_second(servers, seconds)
    over.set()
    for one in callers:
        one.join()
    holder.release()
    return max(0, busy - idle) / POLLING


def handed_over(port, seconds):
    """How long the lock was free, in ms: from the reply to a release to that to the next acquisition."""
    held, ends = [], time.monotonic() + seconds

    def contend():
        lock = redis.Redis(port=port).lock("contended", timeout=30, thread_local=False)
        while time.monotonic() < ends:
            if lock.acquire(blocking_timeout=5):
                begin = time.monotonic()
                time.sleep(HELD_SECONDS)
                lock.release()
                held.append((begin, time.monotonic()))
                time.sleep(AWAY_SECONDS)

    callers = [threading.Thread(target=contend) for _ in range(CONTENDING)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    held.sort()
    # The next holder may have its reply before the last one has read that to its release.
    return [max(0, begin - end) * 1000 for (_, end), (begin, _) in zip(held, held[1:])]


def shown(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    sides, rows = [], {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, tempfile.TemporaryDirectory() as third:
        (peer,) = free_ports(1)
        sides.append((Side("one redis-server", [one_redis(third, peer)], peer), [peer]))
        for folder, options in ((one, []), (other, ["--hold-back", "100ms"])):
            *ports, agent = free_ports(NODES + 1)
            name = " ".join(["an agent", *options])
            sides.append((Side(name, through_agent(arguments.program, folder, ports, agent, *options), agent), ports))
        try:
            for side, _ in sides:
                side.wait()
            for _ in range(arguments.rounds):
                for side, servers in sides:
                    costs, waits = rows.setdefault(side.name, ([], []))
                    costs.append(polled(side.port, servers, arguments.seconds))
                    waits.append(statistics.median(handed_over(side.port, arguments.seconds)))
        finally:
            for side, _ in sides:
                side.stop()
    print("| redis-py on | requests at the servers for each polling caller and second | free between two holders, p50 in ms |\n|---|---|---|")
    for name, (costs, waits) in rows.items():
        print(f"| {name} | {shown(costs, 2)} | {shown(waits, 1)} |")


if __name__ == "__main__":
    main()
