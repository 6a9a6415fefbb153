"""Servers that checks start for themselves, each with a port of its own."""

import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "differential"))
from compare import Connection  # noqa: E402


PATIENCE_SECONDS = 40


def eventually(what, is_so):
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.05)


class Server:
    """A process with a port, ended with SIGTERM."""

    def __init__(self, command, folder):
        self.port = free_port()
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT)
        self.connection = self.connected()

    def connected(self):
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            try:
                connection = Connection(self.port, 2)
                if connection.send([b"PING"]) == ("+", b"PONG"):
                    return connection
            except OSError:
                pass
            time.sleep(0.02)
        self.process.kill()
        raise AssertionError("the server does not answer: " + open(self.log.name, encoding="utf-8").read()[-2000:])

    def ask(self, *words):
        return self.connection.send([word if isinstance(word, bytes) else str(word).encode() for word in words])

    def line(self, text):
        kind, reply = self.ask(*text.split())
        assert kind != "-", f"{text}: {reply}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.log.close()

    def kill(self):
        self.process.kill()
        self.process.wait(30)
        self.log.close()


def redis_version():
    """Of the redis-server that is installed here."""
    told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, timeout=20, check=True)
    return told.stdout.split("v=")[1].split()[0]


# Sockets that are bound and never listen.
RESERVED = []


def free_port():
    """
    A port that the system gives to nobody who names none, as long as this process lives. Between the search for a free one and
    the start of a server it might be given to a connection else. Servers may listen on it: they allow addresses to be used again.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    RESERVED.append(reserved)
    return reserved.getsockname()[1]
