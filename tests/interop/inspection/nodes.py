"""Nodes of Quorlock, Redis or Valkey, the commands that look at them, and a clock that is wrong."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Server  # noqa: E402

COUNT = 5
# How far the wall clock of a server is ahead that is started with WRONG_CLOCK.
AHEAD_SECONDS = 90
WRONG_CLOCK = f"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {{
    int failed = syscall(SYS_clock_gettime, id, t);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += {AHEAD_SECONDS};
    return failed;
}}
int gettimeofday(struct timeval *t, void *zone) {{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}}
time_t time(time_t *t) {{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}}
"""


def wrong_clock(folder):
    """The words before a program whose wall clock is ahead."""
    source, library = os.path.join(folder, "clock.c"), os.path.join(folder, "clock.so")
    with open(source, "w", encoding="ascii") as file:
        file.write(WRONG_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return ["env", f"LD_PRELOAD={library}"]


class Nodes:
    """Some servers of one kind: `quorlock`, or the name of a program such as redis-server."""

    def __init__(self, program, kind, folder, count=COUNT, options=()):
        self.program, self.kind, self.folder, self.options = program, kind, folder, list(options)
        self.size, self.servers = count, []
        for _ in range(count):
            self.add()

    def add(self, *options, before=()):
        folder = os.path.join(self.folder, f"{self.kind}-{len(self.servers)}")
        os.makedirs(folder)
        words = [self.kind, "--save", ""]
        if self.is_ours:
            words = [self.program, "server", "--first-start", "serve", "--cluster-id", "seen", "--cluster-size", str(self.size)]
        words += ["--bind", "127.0.0.1", "--dir", folder, *self.options, *options]
        server = Server([*before, *words], folder)
        self.servers.append(server)
        return server

    @property
    def is_ours(self):
        return self.kind == "quorlock"

    @property
    def urls(self):
        return [f"redis://127.0.0.1:{server.port}" for server in self.servers]

    def environment(self, urls=None):
        return dict(os.environ, QUORLOCK_NODES=",".join(urls or self.urls))

    def command(self, *words, urls=None):
        return subprocess.Popen([self.program, *words], env=self.environment(urls), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ends(self, code, *words, urls=None):
        """The output of a command, which has to end with this code."""
        command = self.command(*words, urls=urls)
        out, error = command.communicate(timeout=60)
        assert command.returncode == code, f"{words}: {command.returncode}: {out}{error}"
        return out, error

    def rows(self, *words):
        """What `locks` says of each lock, by name, and of all."""
        out, error = self.ends(0, "locks", *words, "--json")
        assert not error, error
        *rows, counts = [json.loads(line) for line in out.splitlines()]
        return {row["name"]: row for row in rows}, counts

    def findings(self, code, urls=None):
        out, _ = self.ends(code, "doctor", "--json", urls=urls)
        findings = json.loads(out)["findings"]
        for finding in findings:
            assert len(finding["remedy"]) > 3, f"no remedy: {finding}"
        return findings

    def ask_all(self, *words):
        return [server.ask(*words) for server in self.servers]

    def stop(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()


def having(findings, kind, node=None):
    """The findings of this kind, about one node if it is named."""
    return [found for found in findings if found["kind"] == kind and node in (None, found["node"])]


def the_one(findings, kind, severity, remedy, node=None):
    found = having(findings, kind, node)
    assert found, f"no {kind} of {node}: {findings}"
    assert all(one["severity"] == severity and remedy in one["remedy"] for one in found), found
    return found[0]
