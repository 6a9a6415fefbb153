"""Sends the same commands to redis-server and to a node, and compares the replies.

Every section of commands.txt is one check with RESP2 and one with RESP3. What may differ stands
in differences.txt, with the reason.
"""

import argparse
import os
import re
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN_MAX = 12
UNORDERED = {
    "KEYS", "HKEYS", "HVALS", "HGETALL", "SCAN", "HSCAN", "HRANDFIELD",
    "SMEMBERS", "SSCAN", "SRANDMEMBER", "SPOP", "SINTER", "SUNION", "SDIFF", "ZSCAN", "ZRANDMEMBER",
}
DOUBLE = re.compile(rb"-?([0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?|inf)")
# Time passes between the two servers' replies.
TOLERANCE = {"PTTL": 400, "TTL": 1, "PEXPIRETIME": 400, "EXPIRETIME": 1}


class Connection:
    """A connection that sends arguments and reads one reply, with its type."""

    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.file = self.socket.makefile("rb")
        self.protocol = protocol
        self.start()

    def start(self):
        if self.protocol == 3:
            self.send([b"HELLO", b"3"])

    def send(self, arguments):
        return self.exchange([arguments])[0]

    def exchange(self, commands):
        """Sends commands together and reads their replies."""
        parts = []
        for arguments in commands:
            parts.append(b"*%d\r\n" % len(arguments))
            parts += [b"$%d\r\n%s\r\n" % (len(part), part) for part in arguments]
        self.socket.sendall(b"".join(parts))
        return [self.read() for _ in commands]

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1].decode(), line[1:-2]
        if kind in "+-:,#(_":
            return (kind, rest)
        count = int(rest)
        if count < 0:
            return (kind, None)
        if kind in "$=!":
            return (kind, self.file.read(count + 2)[:-2])
        if kind in "*~>%":
            count *= 2 if kind == "%" else 1
            return (kind, [self.read() for _ in range(count)])
        raise ValueError(f"unknown reply type {kind!r}")


def split(line):
    """Redis's inline grammar."""
    token = re.compile(rb"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\')*)'|(\S+)")
    escapes = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}

    def unescape(match):
        code = match.group(1)
        if code[:1] == b"x" and len(code) == 3:
            return bytes([int(code[1:], 16)])
        return escapes.get(code, code)

    arguments = []
    for quoted, single, plain in token.findall(line):
        if plain:
            arguments.append(plain)
        elif single:
            arguments.append(single)
        else:
            arguments.append(re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", unescape, quoted))
    return arguments


def sections():
    name, lines = None, []
    with open(os.path.join(HERE, "commands.txt"), "rb") as file:
        for line in file.read().split(b"\n"):
            if line.startswith(b"== "):
                if name:
                    yield name, lines
                name, lines = line[3:].decode(), []
            elif line.strip() and not line.startswith(b"#"):
                lines.append(line)
    yield name, lines


def rules(name="differences.txt"):
    found = []
    with open(os.path.join(HERE, name), encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                rule, pattern, reason = (part.strip() for part in line.split(" | ", 2))
                if rule not in ("any", "code", "kind") or not reason:
                    raise ValueError(f"{name}: {line!r}")
                found.append((rule, re.compile(pattern.encode(), re.IGNORECASE)))
    return found


def sort(reply):
    """Replies whose order says nothing, in one order. A flat array of pairs stays in pairs."""
    kind, value = reply
    if isinstance(value, list):
        value = sorted((sort(part) for part in value), key=repr)
    return (kind, value)


def properties(reply):
    """What COMMAND INFO tells of commands, without hints, key specifications and subcommands."""
    kind, value = reply
    if kind not in "*~" or not isinstance(value, list):
        return reply
    if len(value) == 10 and value[0][0] == "$":
        return (kind, [sort(part) for part in value[:7]])
    return (kind, [properties(part) for part in value])


def pairs(reply):
    """Names and values, in one order."""
    kind, value = reply
    if not isinstance(value, list) or len(value) % 2:
        return reply
    return (kind, sorted(zip(value[::2], value[1::2])))


def read_doubles(reply):
    """
    Doubles by their value: up to 7.0 Redis prints 17 digits of them, from 7.2 on as few as read back. -0 is 0: a small
    sorted set of Redis's forgets the sign and a large one keeps it, here it is always 0 (docs/book/compatibility.md).
    """
    kind, value = reply
    if isinstance(value, list):
        return (kind, [read_doubles(part) for part in value])
    if kind in "$,+" and value is not None and DOUBLE.fullmatch(value):
        return (kind, (float(value) + 0.0).hex())
    return reply


def sort_words(reply):
    """Rules of users: 7.0 works out those about commands, in an order of its own; 7.2, which we claim, keeps that given."""
    kind, value = reply
    if isinstance(value, list):
        return (kind, [sort_words(part) for part in value])
    return (kind, sorted(value.split(b" ")) if kind == "$" and value is not None else value)


def same(command, one, two):
    name = command[0].upper().decode("latin-1") if command else ""
    if one == two:
        return True
    if name[:1] == "Z" or any(word[:1].upper() == b"Z" for word in command[3:]) or b"'Z" in b"".join(command[1:2]):
        one, two = read_doubles(one), read_doubles(two)
        if one == two:
            return True
    if name in UNORDERED and sort(one) == sort(two):
        return True
    if name == "CONFIG" and command[1].upper() == b"GET" and pairs(one) == pairs(two):
        return True
    if name == "COMMAND" and command[1].upper() == b"INFO" and properties(one) == properties(two):
        return True
    if name == "COMMAND" and command[1].upper().startswith((b"GETKEYS", b"LIST")) and sort(one) == sort(two):
        return True
    if name == "ACL" and command[1:2] and command[1].upper() == b"CAT" and sort(one) == sort(two):
        return True
    if name == "ACL" and command[1:2] and command[1].upper() in (b"LIST", b"GETUSER") and sort_words(one) == sort_words(two):
        return True
    if name in TOLERANCE and one[0] == two[0] == ":":
        first, second = int(one[1]), int(two[1])
        return min(first, second) > 0 and abs(first - second) <= TOLERANCE[name]
    return False


def allowed(line, one, two, differences):
    for rule, pattern in differences:
        if not pattern.fullmatch(line):
            continue
        if rule == "any" or (rule == "kind" and one[0] == two[0]):
            return True
        if rule == "code" and one[0] == two[0] == "-":
            if one[1].split(b" ")[0] == two[1].split(b" ")[0]:
                return True
    return False


def show(reply):
    kind, value = reply
    if isinstance(value, list):
        return f"{kind}[{', '.join(show(part) for part in value)}]"
    return kind + repr(value)[1:] if value is not None else f"{kind}nil"


def compare(lines, reference, subject, differences):
    problems = []
    for line in lines:
        command = split(line)
        replies = []
        for server in (reference, subject):
            try:
                replies.append(server.send(command))
            except (OSError, ValueError) as error:
                return problems + [f"{line.decode('latin-1')}: {error}"]
        if not same(command, *replies) and not allowed(line, *replies, differences):
            problems.append(
                f"{line.decode('latin-1')}\n"
                f"      reference {show(replies[0])}\n      subject   {show(replies[1])}"
            )
        if command and command[0].upper() == b"RESET":
            for server in (reference, subject):
                server.start()
    return problems


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reference", type=int, required=True)
    arguments.add_argument("--subject", type=int, required=True)
    arguments.add_argument("--all", action="store_true", help="show every difference")
    options = arguments.parse_args()
    differences = rules()
    failures = 0
    for protocol in (2, 3):
        for name, lines in sections():
            check = f"differential: {name} with RESP{protocol} ({len(lines)} commands)"
            reference = Connection(options.reference, protocol)
            subject = Connection(options.subject, protocol)
            for server in (reference, subject):
                server.send([b"FLUSHALL"])
                server.send([b"SCRIPT", b"FLUSH"])
            problems = compare(lines, reference, subject, differences)
            if not problems:
                print(f"ok {check}", flush=True)
                continue
            failures += 1
            shown = problems if options.all else problems[:SHOWN_MAX]
            print("\n".join(f"   {problem}" for problem in shown))
            print(f"FAIL {check}: {len(problems)} differences", flush=True)
    print("done")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
