"""Runs the blocks of the README and of the book as they stand there, with all nodes and with one of them down. Programs that ask an
agent are run with three nodes down as well: there is no lock for them, and each has to end with an error.

usage: run.py BIN SCRATCH [TEXT IN THE NAME OF A BLOCK...]

Nothing is copied: the text of a block comes from its document. What a reader does by hand is done here: programs that an
example mentions are made (PROGRAMS), its fragment becomes a program (languages.py), `cargo run --release --` is the program that
was built, a server that stays in the foreground is ended once it is ready, and its ports are free ones.

A block passes if every command ends with 0, prints what the document shows, and leaves no key on a node that can be reached.
In what is shown `...` stands for anything, and digits for any digits. Prints a line for each block and mode.
"""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import languages

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../../.."))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Text and what is shown of data and of configuration is no block to run.
DATA = {"text", "json", "ini"}
PROGRAMS = ["backup.sh", "report.sh", "deploy.sh", "nightly.sh", "transfer.sh", "run-tests", "dump"]
BLOCK_TAKES = 240
NODES = 5
# How many nodes are down. The last are too many for a majority.
ALL, ONE_DOWN, NO_MAJORITY = "all nodes", "one node down", "three nodes down"
DOWN = {ALL: 0, ONE_DOWN: 1, NO_MAJORITY: 3}


class Block:
    def __init__(self, document, line, language, text):
        self.document, self.line, self.language, self.text = document, line, language, text
        self.way, self.reason = "both", ""
        self.name = f"{document}: {language} at line {line}"


class Failed(Exception):
    """What a reader would not have expected."""


def blocks():
    documents = ["README.md"] + sorted(glob.glob("docs/book/*.md", root_dir=ROOT))
    for document in documents:
        with open(os.path.join(ROOT, document), encoding="ascii") as file:
            text = file.read()
        for found in FENCE.finditer(text):
            if found[1] not in DATA:
                yield Block(document, text.count("\n", 0, found.start()) + 2, found[1], found[2])


def note_ways(found):
    """Applies blocks.txt. Gives the lines of it that fit no block."""
    with open(os.path.join(HERE, "blocks.txt"), encoding="ascii") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        document, text, way, reason = (part.strip() for part in line.split(" | ", 3))
        fitting = [block for block in found if block.document == document and text in block.text]
        for block in fitting:
            block.way, block.reason = way, reason
        if not fitting:
            yield line


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def ask(port, *words):
    """A node's reply to one command, or nothing where there is no node."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as stream:
            stream.sendall(request.encode())
            return stream.recv(65536).decode()
    except OSError:
        return None


def looks_like(printed, shown):
    """Whether a line is the one that a document shows."""
    def plain(text):
        return re.sub(r"\d+", "0", " ".join(text.split()))
    parts = [re.escape(plain(part)) for part in shown.split("...")]
    return re.fullmatch(" ?.* ?".join(parts), plain(printed)) is not None


def compare(printed, shown):
    lines = printed.splitlines()
    for line in shown:
        if line.strip() == "...":
            return
        if not lines or not looks_like(lines[0], line):
            raise Failed(f"printed {lines[:1]} where the document shows {line!r}")
        lines.pop(0)
    if lines and shown:
        raise Failed(f"printed more than the document shows: {lines[:3]}")


def commands(text):
    """Of a console block each command with what is shown of its output."""
    found = []
    for line in text.splitlines():
        goes_on = found and found[-1][0].endswith("\\")
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif goes_on:
            found[-1][0] += "\n" + line
        else:
            found[-1][1].append(line)
    return found


class Runner:
    """A folder with five nodes, in which blocks are run one after the other."""

    def __init__(self, bin_path, scratch, mode):
        self.mode, self.scratch = mode, scratch
        self.home = os.path.join(scratch, mode.replace(" ", "-"))
        self.bin = os.path.join(self.home, "bin")
        os.makedirs(self.bin)
        os.symlink(os.path.abspath(bin_path), os.path.join(self.bin, "quorlock"))
        os.symlink(os.path.join(ROOT, "configs"), os.path.join(self.home, "configs"))
        for name in PROGRAMS:
            self.write(name, "exit 0", (self.home, self.bin))
        # What it prints to a terminal is shown.
        self.write("redis-cli", f'exec {shutil.which("redis-cli")} --no-raw "$@"', [self.bin])
        self.environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
        self.environment.pop("QUORLOCK_NODES", None)
        self.shell(f"quorlock cluster up --detach --base-port {self.first_port()} >cluster.out")
        status = self.shell("quorlock cluster status")
        self.ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", status)]
        for node in range(NODES, NODES - DOWN[mode], -1):
            self.shell(f"quorlock cluster kill {node}")
        # The one that a reader has started after the block before.
        self.agent = subprocess.Popen(["quorlock", "agent", "--port", "0"], cwd=self.home, env=self.environment, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # Where no majority serves, its log says so first.
        said = next(line for line in self.agent.stdout if "find the agent under" in line)
        self.agent_port = int(said.rsplit(":", 1)[1])

    @staticmethod
    def write(name, script, folders):
        for folder in folders:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(path, 0o755)

    def first_port(self):
        """The first of consecutive free ports."""
        while True:
            first = free_ports(1)[0]
            try:
                sockets = [socket.create_server(("127.0.0.1", port)) for port in range(first, first + NODES)]
            except OSError:
                continue
            for taken in sockets:
                taken.close()
            self.port = first
            return first

    def stop(self):
        self.agent.terminate()
        self.agent.communicate()
        self.shell("quorlock cluster down")

    def ours(self, block):
        """A block's text with ports and folders of this run."""
        text = block.text.replace("cargo run --release --", "quorlock").replace("/srv/app/", ".../")
        text = re.sub(r"\b700([1-6])\b", lambda found: str(self.port + int(found[1]) - 1), text)
        text = re.sub(r"\b6380\b", str(self.agent_port), text)
        self.data = os.path.join(self.home, f"data-{block.line}")
        text = text.replace("/var/lib/quorlock", self.data)
        return text.replace("sleep 20", "sleep 2")

    def shell(self, script):
        done = subprocess.run(["bash", "-c", script], cwd=self.home, env=self.environment, timeout=BLOCK_TAKES,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{script!r} ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        # An experiment says there how far it is, and so does openssl, and `cluster up` on a machine that has much to do.
        said = "".join(line for line in done.stderr.splitlines(True) if "waiting for all nodes to serve" not in line)
        if said and not any(word in script for word in ("quorlock experiment", "openssl req")):
            raise Failed(f"{script!r} ended with 0 and said {said[-600:]!r}")
        return done.stdout

    def run(self, block):
        for port in self.ports:
            ask(port, "FLUSHALL")
        calls = self.calls()
        text = self.execute(block)
        # A program with nodes of its own asks none of these, one of which may be in its restart delay.
        if "Node::builder" in text or "TestCluster" in text:
            return
        if block.language not in ("console", "sh") and "offline" not in block.way and sum(now > then for now, then in zip(self.calls(), calls)) <= NODES // 2:
            raise Failed("no majority of the nodes was asked for a lock")
        # Locks that a console block shows being taken may stay; a program's are given back.
        if block.language != "console":
            # A node in its restart delay, after the block before, does not tell.
            def left():
                counts = [ask(port, "DBSIZE") or "" for port in self.ports]
                return [count for count in counts if count.startswith(":") and count != ":0\r\n"]
            # A release is over once a majority has freed the lock; the rest is on its way.
            until = time.monotonic() + 1
            while left() and time.monotonic() < until:
                time.sleep(0.02)
            # pottery answers at a majority: a SET it did not wait for may land behind its own release, and ends with its TTL.
            most = NODES // 2 if "from pottery" in text else 0
            if len(remaining := left()) > most:
                raise Failed(f"it leaves keys on {len(remaining)} nodes")

    def execute(self, block):
        """Runs what the block says, and gives its text with ports of this run."""
        text = self.ours(block)
        if block.language == "console":
            self.console(block, text)
        elif block.language == "sh":
            self.shell("set -e\n" + text)
        else:
            languages.run(block.language, text, self.scratch, self.environment, BLOCK_TAKES)
        return text

    def calls(self):
        """How often each node was asked for a lock so far."""
        def count(port):
            said = ask(port, "INFO", "commandstats") or ""
            return sum(int(calls) for calls in re.findall(r"cmdstat_(?:set|eval|evalsha):calls=(\d+)", said))
        return [count(port) for port in self.ports]

    def console(self, block, text):
        # Commands of one block share a shell, as its reader's do; servers are run beside it.
        pending = []
        for command, shown in commands(text) or [[text, []]]:
            stays = re.match(r"quorlock (server\b|agent\b|cluster up(?!.*--detach))", command)
            if stays:
                self.checked(block, pending)
                pending = []
                self.serve(command, shown)
            else:
                pending.append((command, shown))
        self.checked(block, pending)

    def checked(self, block, pending):
        if not pending:
            return
        mark = "-- end of command --"
        script = "".join(f"{command}\necho '{mark}'\n" for command, _ in pending)
        if any("--ready-file" in command for command, _ in pending):
            script = "mkdir -p own && cd own && cp ../run-tests . &&\n" + script
        printed = self.shell("set -e\n" + script).split(mark + "\n")
        if len(printed) != len(pending) + 1:
            raise Failed(f"it ended after {len(printed) - 1} of {len(pending)} commands")
        for (_, shown), output in zip(pending, printed):
            if "unchecked" not in block.way:
                compare(output, shown)

    def serve(self, command, shown):
        """A server in the foreground: it gets ready, prints what is shown, and ends well on Ctrl-C."""
        folder = os.path.join(self.home, f"server-{time.monotonic_ns()}")
        os.makedirs(folder)
        os.symlink(os.path.join(ROOT, "configs"), os.path.join(folder, "configs"))
        if os.path.isdir(os.path.join(self.home, "node-1")):
            shutil.move(os.path.join(self.home, "node-1"), folder)
        port = self.first_port_apart()
        if "agent" in command:
            command = command.replace(str(self.agent_port), str(port))
        else:
            command += f" --base-port {port}" if "cluster" in command else f" --port {port}"
        ready = {"cluster": "is up: ", "agent": "find the agent under"}.get(command.split()[1], "Ready to accept connections")
        os.makedirs(self.data, exist_ok=True)
        server = subprocess.Popen(["bash", "-c", "exec " + command], cwd=folder, env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        timer = threading.Timer(60, server.kill)
        timer.start()
        lines = []
        for line in server.stdout:
            lines.append(line)
            if ready in line:
                break
        for _ in shown[1:]:
            lines.append(server.stdout.readline())
        server.send_signal(signal.SIGINT)
        server.communicate()
        timer.cancel()
        if server.returncode != 0 or ready not in "".join(lines):
            raise Failed(f"{command!r} ended with {server.returncode}: {''.join(lines)[-600:]}")
        compare("".join(lines) if shown else "", shown)

    def first_port_apart(self):
        kept, first = self.port, self.first_port()
        self.port = kept
        return first


def attempt(runner, block):
    name = f"{block.name}, {runner.mode}"
    began = time.monotonic()
    try:
        if runner.mode == NO_MAJORITY:
            fails(runner, block)
        else:
            runner.run(block)
        print(f"ok {name}", flush=True)
    except languages.Absent as error:
        print(f"skip {name}: {error}", flush=True)
    except (Failed, languages.Failed, subprocess.TimeoutExpired) as error:
        print(f"FAIL {name}: {' '.join(str(error).split())} ({time.monotonic() - began:.0f} s)", flush=True)


def fails(runner, block):
    """A program that has worked with a majority does not go on as if it had the lock."""
    try:
        runner.execute(block)
    except (Failed, languages.Failed):
        return
    raise Failed("it ends well, and no majority of the nodes serves")


def main():
    bin_path, scratch, *options = sys.argv[1:]
    found = list(blocks())
    for line in note_ways(found):
        print(f"FAIL blocks.txt: fits no block, {line}")
    for option in options:
        found = [block for block in found if option in f"{block.name}"]
    os.makedirs(scratch, exist_ok=True)
    for mode in DOWN:
        runner = Runner(bin_path, scratch, mode)
        try:
            for block in found:
                if mode == NO_MAJORITY and (block.language == "console" or "6380" not in block.text):
                    continue
                if block.way == "skip" and mode == ALL:
                    print(f"skip {block.name}, both: {block.reason}", flush=True)
                elif "once" in block.way and mode != ALL:
                    print(f"skip {block.name}, {mode}: {block.reason}", flush=True)
                elif block.way != "skip":
                    attempt(runner, block)
        finally:
            runner.stop()
    print("done")


if __name__ == "__main__":
    main()
