"""An agent of five nodes for the test suites of lock libraries that know one Redis. Its nodes are killed and restarted in turn.

One node at a time is away: killed, or in its restart delay, which is short since `restart-delay-max` is. Locks that last
longer than that are on disk before they are granted.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from suite import free_port, node, wait_for

NODES = 5
RESTART_DELAY_MAX = "1s"
AWAY_SECONDS, BETWEEN_SECONDS = 0.5, 0.5


def answer(port, *words):
    """The beginning of a server's reply."""
    request = b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"*%d\r\n%s" % (len(words), request))
        return connection.recv(4096)


class Nodes:
    """Five nodes, and the thread that kills them."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.ports = [free_port() for _ in range(NODES)]
        self.processes = [self.started(port) for port in self.ports]
        for port in self.ports:
            wait_for(port)
        self.kills, self.failure = 0, ""
        self.cycle = threading.Lock()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.disturb)

    def started(self, port):
        directory = os.path.join(self.directory, str(port))
        os.makedirs(directory, exist_ok=True)
        command = [self.program, "server", "--port", str(port), "--dir", directory, "--first-start", "serve"]
        with open(directory + ".log", "ab") as output:
            return subprocess.Popen([*command, "--restart-delay-max", RESTART_DELAY_MAX], stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=output)

    def disturb(self):
        index = 0
        try:
            while not self.ended.wait(BETWEEN_SECONDS):
                with self.cycle:
                    self.kill_and_restart(index)
                index = (index + 1) % NODES
        # Else the thread would end, and the suites go on beside nodes that nothing happens to.
        except (Exception, SystemExit) as error:
            self.failure = f"node {index}: {error!r}"

    def kill_and_restart(self, index):
        """Ends when the node votes again."""
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()
        self.kills += 1
        time.sleep(AWAY_SECONDS)
        port = self.ports[index]
        self.processes[index] = self.started(port)
        wait_for(port)
        end = time.monotonic() + 30
        while (said := answer(port, "SET", "suites:probe", "token", "NX", "PX", "1")).startswith(b"-RESTARTDELAY"):
            if time.monotonic() > end:
                sys.exit(f"it does not vote: {said}")
            time.sleep(0.05)
        if said.startswith(b"-"):
            sys.exit(f"it does not vote: {said}")

    def stop(self):
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        for process in self.processes:
            process.kill()
            process.wait()


class Agent:
    """What a suite is run against. With redis-server as the peer it is that server, and nothing is killed."""

    def __init__(self, port, nodes=None):
        self.port, self.nodes = port, nodes

    def disturb(self):
        if self.nodes:
            self.nodes.thread.start()

    def put_on_nodes(self, *words):
        """Sends a command to the nodes themselves, for what an agent refuses. None of them is away meanwhile."""
        with self.nodes.cycle if self.nodes else contextlib.nullcontext():
            for port in self.nodes.ports if self.nodes else [self.port]:
                reply = answer(port, *words)
                if reply.startswith(b"-"):
                    sys.exit(f"{words}: {reply}")


@contextlib.contextmanager
def agent():
    program = os.environ.get("SUITE_SERVER")
    if not program:
        with node() as (port, _):
            yield Agent(port)
        return
    directory = tempfile.mkdtemp()
    nodes = Nodes(program, directory)
    urls = ",".join(f"redis://127.0.0.1:{port}" for port in nodes.ports)
    command = [program, "agent", "--port", "0", "--json", "--nodes", urls]
    with open(os.path.join(directory, "agent.log"), "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output)
    try:
        url = json.loads(process.stdout.readline())["url"]
        yield Agent(int(url.rpartition(":")[2]), nodes)
    finally:
        process.terminate()
        process.wait()
        nodes.stop()
        shutil.rmtree(directory, ignore_errors=True)
