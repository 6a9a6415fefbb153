"""redis-py's locks through three agents, while nodes and agents are killed and stopped: no lock has two holders.

usage: agents_killed.py --program QUORLOCK [--seconds 600] [--callers 50] [--names 5]

It starts five nodes and three agents of its own. Callers are threads of ten processes. Each counts its lock from the reply on by the
clock that all processes of a machine share, until it sends its release or the timeout is over, whichever comes first.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import redis

from report import Report

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import free_port  # noqa: E402

AGENTS = 3
NODES = 5
PROCESSES = 10
TIMEOUT = 3.0


class Cluster:
    """Five nodes, one process each, and three agents."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = directory
        self.agents = {}
        up = ["--json", "--nodes", str(NODES), "--base-port", "0", "--detach"]
        self.urls = [node["url"] for node in json.loads(self.command("up", *up))["nodes"]]

    def command(self, *words):
        words = [self.program, "cluster", *words, "--dir", self.directory]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.run(words, check=True, **quiet).stdout

    def start_agent(self, port):
        words = [self.program, "agent", "--port", str(port), "--nodes", ",".join(self.urls)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.agents[port] = subprocess.Popen(words, **quiet)

    def stop(self):
        for agent in self.agents.values():
            agent.send_signal(signal.SIGCONT)
            agent.kill()
            agent.wait()
        self.command("down")


def disturb_agents(cluster, ports, ends, counts):
    chooser = random.Random(1)
    while time.monotonic() < ends:
        time.sleep(chooser.uniform(1, 4))
        port = chooser.choice(ports)
        if chooser.random() < 0.5:
            cluster.agents[port].kill()
            cluster.agents[port].wait()
            time.sleep(chooser.uniform(0, 1))
            cluster.start_agent(port)
            counts["agents killed"] += 1
        else:
            cluster.agents[port].send_signal(signal.SIGSTOP)
            time.sleep(chooser.uniform(0.1, 2 * TIMEOUT))
            cluster.agents[port].send_signal(signal.SIGCONT)
            counts["agents stopped"] += 1


def disturb_nodes(cluster, ends, counts):
    chooser = random.Random(2)
    while time.monotonic() < ends:
        time.sleep(chooser.uniform(1, 3))
        node = str(chooser.randint(1, NODES))
        if chooser.random() < 0.5:
            cluster.command("kill", node)
            time.sleep(chooser.uniform(0, 2))
            # It is in its restart delay then, and others are killed meanwhile.
            cluster.command("restart", node)
            counts["nodes killed"] += 1
        else:
            cluster.command("pause", node)
            time.sleep(chooser.uniform(0.1, 2))
            cluster.command("resume", node)
            counts["nodes stopped"] += 1


def call(ports, names, ends, held, errors):
    chooser = random.Random()
    clients = [redis.Redis(port=port, socket_timeout=10) for port in ports]
    while time.monotonic() < ends:
        name = f"lock-{chooser.randrange(names)}"
        lock = chooser.choice(clients).lock(name, timeout=TIMEOUT, sleep=0.05, thread_local=False)
        try:
            if not lock.acquire(blocking_timeout=2):
                continue
        except redis.RedisError:
            errors.append(1)
            time.sleep(0.05)
            continue
        begins = time.monotonic()
        counted = begins + TIMEOUT
        time.sleep(chooser.uniform(0, 0.03))
        if chooser.random() < 0.3:
            try:
                lock.reacquire()
                counted = time.monotonic() + TIMEOUT
            except redis.RedisError:
                errors.append(1)
        held.append((name, begins, min(time.monotonic(), counted)))
        # Another agent releases it, or none does.
        if chooser.random() < 0.2:
            lock.redis = chooser.choice(clients)
        if chooser.random() < 0.02:
            continue
        try:
            lock.release()
        except redis.RedisError:
            errors.append(1)


def callers(ports, names, ends, threads, results):
    held, errors = [], []
    running = [
        threading.Thread(target=call, args=(ports, names, ends, held, errors))
        for _ in range(threads)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    results.put((held, len(errors)))


def overlaps(held):
    found = []
    last = {}
    for name, begins, ended in sorted(held, key=lambda one: one[1]):
        if begins < last.get(name, 0):
            found.append((name, begins, last[name]))
        last[name] = max(last.get(name, 0), ended)
    return found


def run(arguments):
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(arguments.program, directory + "/cluster")
        ports = [free_port() for _ in range(AGENTS)]
        for port in ports:
            cluster.start_agent(port)
        time.sleep(2)
        ends = time.monotonic() + arguments.seconds
        counts = dict.fromkeys(
            ["nodes killed", "nodes stopped", "agents killed", "agents stopped"], 0
        )
        results = multiprocessing.Queue()
        threads = arguments.callers // PROCESSES
        processes = [
            multiprocessing.Process(
                target=callers, args=(ports, arguments.names, ends, threads, results)
            )
            for _ in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        disturbers = [
            threading.Thread(target=disturb_agents, args=(cluster, ports, ends, counts)),
            threading.Thread(target=disturb_nodes, args=(cluster, ends, counts)),
        ]
        for one in disturbers:
            one.start()
        told = [results.get(timeout=arguments.seconds + 120) for _ in processes]
        for one in processes + disturbers:
            one.join()
        cluster.stop()
    held = [one for locks, _ in told for one in locks]
    errors = sum(count for _, count in told)
    print(f"row {len(held)} locks, {errors} errors, {counts}", flush=True)
    found = overlaps(held)
    if found:
        raise AssertionError(f"{len(found)} overlaps, the first {found[0]}")
    if len(held) < arguments.seconds or min(counts.values()) == 0:
        raise AssertionError("too little happened for the run to say anything")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--names", type=int, default=5)
    arguments = parser.parse_args()
    report = Report()
    report.check("agents-killed: no lock of redis-py's has two holders", run, arguments)
    report.finish()


if __name__ == "__main__":
    main()
