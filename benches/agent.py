#!/usr/bin/env python3
"""Row P24: redis-py's Lock through an agent over five nodes, beside the same on one redis-server.

usage: agent.py --program QUORLOCK [--rounds 5] [--cycles 3000]

It needs redis-py and redis-server. Both sides take and release locks of their own names, one caller and then 64 callers in eight
processes, in turns. Ratios are taken round by round. CPU is that of all servers of a side: the agent and five nodes, or redis-server.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import redis

NODES = 5
PROCESSES = 8
CALLERS = 64


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Side:
    """The servers of one side, and the port that callers know."""

    def __init__(self, name, commands, port):
        self.name, self.port = name, port
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes = [subprocess.Popen(words, **quiet) for words in commands]
        self.rows = {1: [], CALLERS: []}

    def wait(self):
        client = redis.Redis(port=self.port, socket_timeout=1)
        for _ in range(300):
            try:
                client.set("probe", "x", nx=True, px=100)
                return
            except redis.RedisError:
                time.sleep(0.1)
        raise SystemExit(f"{self.name} does not answer")

    def cpu(self):
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)


def through_agent(program, folder, ports, agent, *options):
    """Five nodes, and an agent in front of them."""
    commands = []
    for port in ports:
        os.mkdir(f"{folder}/{port}")
        commands.append([program, "server", "--port", str(port), "--dir", f"{folder}/{port}", "--first-start", "serve"])
    nodes = ",".join(f"redis://127.0.0.1:{port}" for port in ports)
    return [*commands, [program, "agent", "--port", str(agent), "--nodes", nodes, *options]]


def one_redis(folder, port):
    """It syncs once a second, as the nodes do, and writes nothing else."""
    return ["redis-server", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "yes"]


def cycles(port, name, count, times):
    lock = redis.Redis(port=port).lock(name, timeout=30, thread_local=False)
    for _ in range(count):
        start = time.monotonic()
        if not lock.acquire(blocking=False):
            raise SystemExit(f"{name} is not free")
        lock.release()
        times.append(time.monotonic() - start)


def process(port, number, threads, count, started, results):
    times = [[] for _ in range(threads)]
    work = [threading.Thread(target=cycles, args=(port, f"row-{number}-{thread}", count, times[thread])) for thread in range(threads)]
    started.wait()
    for one in work:
        one.start()
    for one in work:
        one.join()
    results.put([time for part in times for time in part])


def measure(side, callers, count):
    """Median time of a cycle in us, cycles a second, and CPU of the servers for a cycle in us."""
    processes = min(callers, PROCESSES)
    started, results = multiprocessing.Barrier(processes + 1), multiprocessing.Queue()
    arguments = (callers // processes, max(1, count // callers), started, results)
    work = [multiprocessing.Process(target=process, args=(side.port, number, *arguments)) for number in range(processes)]
    for one in work:
        one.start()
    started.wait()
    before, begin = side.cpu(), time.monotonic()
    times = [time for _ in work for time in results.get(timeout=300)]
    took, spent = time.monotonic() - begin, side.cpu() - before
    for one in work:
        one.join()
    return {"p50_us": statistics.median(times) * 1e6, "per_second": len(times) / took, "cpu_us": spent / len(times) * 1e6}


def compared(name, ours, theirs):
    ratios = [our[name] / their[name] for our, their in zip(ours, theirs)]
    middle = [statistics.median(row[name] for row in rows) for rows in (ours, theirs)]
    return f"{middle[0]:.0f} : {middle[1]:.0f} = **{statistics.median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cycles", type=int, default=3000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        *ports, agent, peer = free_ports(NODES + 2)
        sides = [
            Side("agent", through_agent(arguments.program, folder, ports, agent), agent),
            Side("redis-server", [one_redis(folder, peer)], peer),
        ]
        try:
            for side in sides:
                side.wait()
                measure(side, CALLERS, arguments.cycles // 3)
            for number in range(arguments.rounds):
                for side in sides if number % 2 == 0 else sides[::-1]:
                    for callers, rows in side.rows.items():
                        rows.append(measure(side, callers, arguments.cycles))
        finally:
            for side in sides:
                side.stop()
    ours, theirs = (side.rows for side in sides)
    print("| callers | p50 of a cycle, us | cycles a second | CPU of the servers for a cycle, us |\n|---|---|---|---|")
    for callers in ours:
        cells = [compared(name, ours[callers], theirs[callers]) for name in ("p50_us", "per_second", "cpu_us")]
        print(f"| {callers} | {' | '.join(cells)} |")
    print(json.dumps({"agent": ours, "redis-server": theirs}))


if __name__ == "__main__":
    main()
