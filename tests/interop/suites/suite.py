"""What is common to the test suites of other projects: lists of what must fail, results, and nodes.

A list names tests of a suite that cannot pass with a node, one a line: `GROUP | NAME | REASON`. NAME is a test's whole
name, or `/REGULAR EXPRESSION/` for all of it. What is on the list is run all the same. It has to fail, each test that an
expression fits: one that passes is a failure, and so is an entry that fits no test. So no list has more than it needs.

A REASON that begins with `apart: ` is for a test that disturbs those behind it, or waits for ever. It is left out of its
group's run, and run alone afterwards.

Nothing here knows how a suite is run. Each suite has a file of its own.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from servers import free_port  # noqa: E402

APART = "apart: "
COMPLETE = "is run to its end"


class Entry:
    """A line of a list."""

    def __init__(self, group, name, reason):
        self.group, self.name, self.reason = group, name, reason.removeprefix(APART)
        self.apart = reason.startswith(APART)
        pattern = name[1:-1] if len(name) > 2 and name[0] == name[-1] == "/" else re.escape(name)
        self.pattern = re.compile(pattern)
        self.fitted = False

    def fits(self, group, name):
        return self.group == group and self.pattern.fullmatch(name) is not None


def entries_of(folder, suite):
    """The list SUITE.txt."""
    with open(os.path.join(HERE, folder, suite + ".txt"), encoding="ascii") as file:
        lines = [line.rstrip("\n") for line in file]
    return [Entry(*line.split(" | ", 2)) for line in lines if line and not line.startswith("#")]


class Judge:
    """Turns results into the lines of tests/interop/run. With redis-server as the peer no list counts."""

    def __init__(self, suite, language, version, folder=""):
        """`folder` is "agent" for a suite that is run through an agent, and holds the list then."""
        self.suite, self.language, self.version = suite, language, version
        self.through = folder and " through an agent"
        self.entries = [] if os.environ.get("SUITE_PEER") == "redis" else entries_of(folder, suite)
        self.complete = set()
        self.passed = {}
        self.seen = set()

    def group(self, group):
        return [entry for entry in self.entries if entry.group == group]

    def say(self, kind, group, name, why=""):
        why = " ".join(why.split())[:300]
        print(f"{kind} {self.suite}'s tests{self.through}: {group}, {name}" + (f": {why}" if why else ""), flush=True)

    def result(self, group, name, passed, why=""):
        """A test was run."""
        self.seen.add(group)
        entry = next((entry for entry in self.group(group) if entry.fits(group, name)), None)
        if entry:
            entry.fitted = True
        if entry and passed:
            self.say("FAIL", group, name, f"it passes, and stands in {self.suite}.txt")
        elif entry:
            self.say("skip", group, name, entry.reason)
        else:
            self.say("ok" if passed else "FAIL", group, name, "" if passed else why)
            self.passed[group] = self.passed.get(group, True) and passed

    def left_out(self, group, name, why):
        """A test that the suite itself leaves out."""
        self.seen.add(group)
        self.say("skip", group, name, why)

    def results(self, group, tests):
        """All of a group: (name, passed or None where it was left out, why) for each test, none where it broke off."""
        for name, passed, why in tests:
            if passed is None:
                self.left_out(group, name, f"{self.suite} leaves it out, {why}")
            else:
                self.result(group, name, passed, why)
        self.ended(group, bool(tests), "it ended early")

    def ended(self, group, complete, why=""):
        """All of a group's results are there; or it broke off, and nothing is said of tests that are missing."""
        if complete and group not in self.seen:
            complete, why = False, "it has no tests"
        if complete:
            self.complete.add(group)
        if not complete or any(entry.name == COMPLETE for entry in self.group(group)):
            self.result(group, COMPLETE, complete, why)

    def finish(self, known, late=()):
        """Checks the list, and gives the book's table a row for each group that is run each time. `known` are all groups."""
        for entry in self.entries:
            if entry.group not in known or entry.group in self.complete and not entry.fitted:
                self.say("FAIL", entry.group, entry.name, f"there is no such test, and it stands in {self.suite}.txt")
        title = f"{self.suite}'s own tests{self.through}"
        print(f"version {title} {self.language} {self.version}")
        for group, passed in self.passed.items():
            if passed and group not in late:
                print(f"row {title}: {group}")
        print("done", flush=True)


def replaced(path, before, after, is_everywhere=False):
    """Changes a file of a suite, which must be as it is expected to be."""
    with open(path, encoding="latin-1") as file:
        text = file.read()
    if text.count(before) != 1 and not (is_everywhere and before in text):
        sys.exit(f"{path} has {text.count(before)} times what is to be changed: {before}")
    with open(path, "w", encoding="latin-1") as file:
        file.write(text.replace(before, after))


def wait_for(port, seconds=30):
    """Until somebody listens."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > end:
            sys.exit(f"nobody listens on port {port}")
        time.sleep(0.02)


@contextlib.contextmanager
def node(*directives):
    """A node of its own, or a redis-server; its port, and the directory that it lies in."""
    directory, port = tempfile.mkdtemp(), free_port()
    command = [os.path.join(HERE, "redis-server"), "--port", str(port), "--dir", directory, *directives]
    with open(os.path.join(directory, "output"), "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_for(port)
        yield port, directory
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def refuses(port, *command):
    """Whether the node does not know a command."""
    request = b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in command)
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"*%d\r\n%s" % (len(command), request))
        return connection.recv(64).startswith(b"-ERR unknown command")
