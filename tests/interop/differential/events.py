"""Sends the commands of commands.txt to redis-server and to a node, and compares the events of keys that each publishes.

Every section is one check. What may differ stands in events.txt, with the reason.
"""

import argparse
import os
import re
import sys

from compare import HERE, Connection, sections, split

SKIPPED = (b"ACL", b"AUTH", b"CONFIG", b"CLIENT", b"HELLO", b"RESET", b"QUIT", b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR", b"SHUTDOWN", b"PUBLISH")


class Peer:
    """A server, a connection that is sent commands, and one that listens to all events."""

    def __init__(self, port):
        self.client, self.listener = Connection(port, 2), Connection(port, 2)
        self.client.send([b"CONFIG", b"SET", b"notify-keyspace-events", b"AKEnm"])
        self.client.send([b"FLUSHALL"])
        self.client.send([b"SCRIPT", b"FLUSH"])
        self.listener.send([b"PSUBSCRIBE", b"__key*", b"fence"])
        self.listener.read()
        self.number = 0
        self.other = Connection(port, 2)

    def events(self, command):
        self.client.send(command)
        self.number += 1
        fence = b"%d" % self.number
        self.other.send([b"PUBLISH", b"fence", fence])
        found = []
        while True:
            _, parts = self.listener.read()
            channel, message = parts[2][1], parts[3][1]
            if channel == b"fence":
                if message == fence:
                    return found
                continue
            # That a key's time has come is told at a moment of the server's own choice.
            if b"expired" not in (message, channel.rsplit(b":", 1)[-1]):
                found.append((channel, message))

    def close(self):
        self.other.send([b"CONFIG", b"SET", b"notify-keyspace-events", b""])
        for connection in (self.client, self.listener, self.other):
            connection.socket.close()


def rules():
    with open(os.path.join(HERE, "events.txt"), encoding="ascii") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    return [re.compile(line.split(" | ")[0].strip().encode(), re.IGNORECASE) for line in lines]


def compare(peers, lines, allowed):
    problems, count = [], 0
    for line in lines:
        command = split(line)
        if not command or command[0].upper() in SKIPPED:
            continue
        one, two = (peer.events(command) for peer in peers)
        count += len(one)
        if one != two and not any(rule.fullmatch(line) for rule in allowed):
            problems.append(f"{line.decode('latin-1')}\n       redis {one}\n       node  {two}")
    return problems, count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, required=True)
    parser.add_argument("--subject", type=int, required=True)
    options = parser.parse_args()
    allowed, failed = rules(), False
    for name, lines in sections():
        peers = [Peer(port) for port in (options.reference, options.subject)]
        try:
            problems, count = compare(peers, lines, allowed)
        except (ConnectionError, OSError, ValueError) as error:
            problems, count = [f"broke off: {error!r}"], 0
        for peer in peers:
            peer.close()
        failed = failed or bool(problems)
        print(f"{'FAIL' if problems else 'ok'} events: {name} ({count} events)", flush=True)
        for problem in problems:
            print(f"     {problem}")
    print("done")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
