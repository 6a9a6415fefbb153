"""A cluster of Quorlock nodes for each test. QUORLOCK names the program, if it is not in the PATH."""

import json
import os
import subprocess

import pytest

PROGRAM = os.environ.get("QUORLOCK", "quorlock")


class Cluster:
    """Five nodes in memory, which end with it."""

    def __init__(self):
        command = [PROGRAM, "cluster", "up", "--ephemeral", "--base-port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        line = json.loads(self.process.stdout.readline())
        # Events follow; a pipe that nobody reads would fill up.
        self.process.stdout.close()
        if "error" in line:
            raise RuntimeError(line["error"]["message"])
        self.directory = line["dir"]
        self.urls = [node["url"] for node in line["nodes"]]
        self.quorum = line["quorum"]

    def do(self, *words):
        """Has something done to nodes, such as `kill 3`."""
        command = [PROGRAM, "cluster", *words, "--dir", self.directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


@pytest.fixture
def cluster():
    started = Cluster()
    yield started
    started.stop()
