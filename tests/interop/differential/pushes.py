"""Sends the same steps over several connections to redis-server and to a node, and compares all that each connection
is sent: replies, and what comes without having been asked for.

Every section of pushes.txt is one check with RESP2 and one with RESP3. After each step every connection is asked for
an echo, so that what was sent to it before is known to be here.
"""

import argparse
import os
import sys
import time

from compare import HERE, Connection, split


class Peer:
    """A server, and the connections of one section."""

    def __init__(self, port, protocol):
        self.port, self.protocol = port, protocol
        self.connections, self.ids, self.queueing = {}, {}, set()
        self.echoes = 0

    def connection(self, name):
        if name not in self.connections:
            connection = Connection(self.port, self.protocol)
            self.connections[name] = connection
            self.ids[name] = connection.send([b"CLIENT", b"ID"])[1]
        return self.connections[name]

    def step(self, name, commands):
        """Everything that each connection is sent because of the commands."""
        connection = self.connection(name)
        for command in commands:
            for other in "ABCD":
                if b"{%s}" % other.encode() in b" ".join(command):
                    self.connection(other)
        named = [[self.numbered(part) for part in command] for command in commands]
        send(connection, named)
        sent = {name: [connection.read() for _ in commands]}
        for command in commands:
            word = command[0].upper()
            if word == b"MULTI":
                self.queueing.add(name)
            elif word in (b"EXEC", b"DISCARD", b"RESET"):
                self.queueing.discard(name)
            elif word == b"HELLO":
                # It names the server.
                sent[name] = []
        for other, connection in self.connections.items():
            if other not in self.queueing:
                sent.setdefault(other, []).extend(self.drain(connection))
        return {name: [self.anonymous(reply) for reply in replies] for name, replies in sent.items()}

    def drain(self, connection):
        self.echoes += 1
        echo = b"echo-%d" % self.echoes
        send(connection, [[b"PING", echo]])
        found = []
        while True:
            reply = connection.read()
            if reply == ("$", echo) or reply == ("*", [("$", b"pong"), ("$", echo)]):
                return found
            if reply[0] == "-":
                raise ConnectionError(reply)
            found.append(reply)

    def numbered(self, part):
        for name, number in self.ids.items():
            part = part.replace(b"{%s}" % name.encode(), number)
        return part

    def anonymous(self, reply):
        kind, value = reply
        if isinstance(value, list):
            return (kind, [self.anonymous(part) for part in value])
        if kind == ":" and value in self.ids.values():
            names = {number: name for name, number in self.ids.items()}
            return (kind, names[value])
        return reply

    def close(self):
        for connection in self.connections.values():
            connection.socket.close()


def send(connection, commands):
    parts = []
    for arguments in commands:
        parts.append(b"*%d\r\n" % len(arguments))
        parts += [b"$%d\r\n%s\r\n" % (len(part), part) for part in arguments]
    connection.socket.sendall(b"".join(parts))


def sections(file):
    name, steps, together = None, [], 0
    for line in file.read().split(b"\n"):
        if line.startswith(b"== "):
            if name:
                yield name, steps
            name, steps = line[3:].decode(), []
        elif line.strip() and not line.startswith(b"#"):
            who, command = line.split(b" ", 1)
            if command.startswith(b"+"):
                together = int(command[1:])
                steps.append((who.decode(), []))
            elif together:
                steps[-1][1].append(split(command))
                together -= 1
            else:
                steps.append((who.decode(), [split(command)]))
    yield name, steps


def compare(ports, protocol, steps):
    """What differs, as lines."""
    admin = [Connection(port, 3) for port in ports]
    for connection in admin:
        connection.send([b"FLUSHALL"])
    peers = [Peer(port, protocol) for port in ports]
    differences = []
    for name, commands in steps:
        if commands[0][0] == b"~":
            time.sleep(int(commands[0][1]) / 1000)
            continue
        one, two = (peer.step(name, commands) for peer in peers)
        if one != two:
            shown = b"; ".join(b" ".join(command) for command in commands).decode("latin-1")
            differences.append(f"     {name} {shown}\n       redis {one}\n       node  {two}")
    for peer in peers:
        peer.close()
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", type=int, required=True)
    parser.add_argument("--subject", type=int, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    failed = False
    with open(os.path.join(HERE, "pushes.txt"), "rb") as file:
        for name, steps in sections(file):
            if options.only not in name:
                continue
            for protocol in (2, 3):
                try:
                    found = compare((options.reference, options.subject), protocol, steps)
                except (ConnectionError, OSError, ValueError) as error:
                    found = [f"     broke off: {error!r}"]
                verdict = "FAIL" if found else "ok"
                failed = failed or bool(found)
                print(f"{verdict} pushes: {name} with RESP{protocol}", flush=True)
                for line in found:
                    print(line)
    print("done")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
