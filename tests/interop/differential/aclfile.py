"""A file of users with an error on line 900 of 1,000, loaded by redis-server and by a node: both say the same, and nothing changes.

usage: aclfile.py --server PROGRAM. Both servers read one file, so that the places which they name are the same. PROGRAM may be redis-server
itself, which shows that a check says something about the node.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from compare import Connection  # noqa: E402
from servers import Server, free_port  # noqa: E402

LINES, AT = 1000, 900
# Of several commands redis-server shows one or the other first.
KEPT = ["user default on nopass ~* &* +@all", "user kept on >secret ~kept:* +set"]
# What is wrong, and lines 900 and following in place of those of a good file.
BROKEN = [
    ("a command that there is not", ["user broken on +nosuchcommand"]),
    ("a category that there is not", ["user broken on +@nosuchcategory"]),
    ("rights to keys of no kind", ["user broken on %Z~x"]),
    ("a hash that is none", ["user broken on #zz"]),
    ("a password that the user has not", ["user broken on <absent"]),
    ("a word that is no rule", ["user broken on nonsense"]),
    ("a line that is no user", ["include other.acl"]),
    ("a user without a name", ["user"]),
    ("a user twice", ["user number-7 on"]),
    ("the default user twice", ["user default off"]),
    ("errors on two lines", ["user broken on +nosuchcommand", "", "user other on %Z~x"]),
    ("a user twice, the first of them wrong", ["user broken on +nosuchcommand", "user broken on"]),
    ("errors on one line that follow from the first", ["user broken on allkeys ~x ~y nonsense >p"]),
    ("several errors on one line", ["user broken on +nosuchcommand nonsense %Z~x"]),
    ("a line of another system", ["user broken on +nosuchcommand\r"]),
]
# redis-server 7.0.15 dies of this one, in ACLLoadFromFile. A node that reads it is asked alone.
FATAL = ("a selector without an end", ["user broken on (+get ~a"])


def good():
    users = [f"user number-{number} on >p{number} ~n{number}:* +get" for number in range(LINES - len(KEPT))]
    return KEPT + users


def broken(lines):
    text = good()
    text[AT - 1 : AT - 1 + len(lines)] = lines
    return text


def write(path, lines):
    with open(path, "w", encoding="ascii", newline="") as file:
        file.write("\n".join(lines) + "\n")


def command(program, path, folder):
    words = ["--bind", "127.0.0.1", "--dir", folder, "--aclfile", path]
    if os.path.basename(program) == "redis-server":
        return [program, "--save", "", *words]
    return [program, "server", "--first-start", "serve", *words]


class Servers:
    """The reference and the subject, each with a client of a user whom no error takes away."""

    def __init__(self, program, folder):
        self.program, self.folder, self.path = program, folder, os.path.join(folder, "users.acl")
        write(self.path, KEPT)
        self.both = [self.start("redis-server", "reference"), self.start(program, "subject")]
        self.clients = []
        for server in self.both:
            client = Connection(server.port, 2)
            assert client.send([b"AUTH", b"kept", b"secret"]) == ("+", b"OK")
            self.clients.append(client)

    def folder_of(self, name):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        return folder

    def start(self, program, name):
        folder = self.folder_of(name)
        return Server(command(program, self.path, folder), folder)

    def asked(self, *words):
        """The reply of both, which has to be the same."""
        first, second = (server.ask(*words) for server in self.both)
        assert first == second, f"redis {first}\n  node  {second}"
        return first

    def refuses(self, lines, asked=None):
        asked = asked or self.asked
        write(self.path, broken(lines))
        users = asked("ACL", "LIST")
        kind, text = asked("ACL", "LOAD")
        assert kind == "-" and re.search(b"(:|line )%d\\b" % AT, text), text
        assert b"no change to the previously active ACL rules was performed" in text, text
        assert asked("ACL", "LIST") == users and len(users[1]) == len(KEPT), users
        for client in self.clients:
            assert client.send([b"SET", b"kept:a", b"1"]) == ("+", b"OK"), "the client of a user was disconnected"

    def node_refuses(self, lines):
        self.refuses(lines, self.both[1].ask)

    def takes(self):
        write(self.path, good())
        assert self.asked("ACL", "LOAD") == ("+", b"OK")
        assert len(self.asked("ACL", "LIST")[1]) == LINES
        for server in self.both:
            assert Connection(server.port, 2).send([b"AUTH", b"number-997", b"p997"]) == ("+", b"OK")
        write(self.path, KEPT)
        assert self.asked("ACL", "LOAD") == ("+", b"OK")

    def does_not_start(self):
        write(self.path, broken(BROKEN[0][1]))
        for name, program in (("reference", "redis-server"), ("subject", self.program)):
            words = command(program, self.path, self.folder_of(f"{name}-refused"))
            ended = subprocess.run([*words, "--port", str(free_port())], stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True, timeout=30, check=False)
            said = ended.stdout + ended.stderr
            assert ended.returncode != 0 and f"users.acl:{AT}: " in said, f"{name}: {ended.returncode}: {said[-500:]}"

    def stop(self):
        for server in self.both:
            server.kill()


def check(name, work, *arguments):
    try:
        work(*arguments)
        print(f"ok differential: aclfile, {name}", flush=True)
        return True
    except (AssertionError, OSError) as error:
        print(f"FAIL differential: aclfile, {name}: {error!s:.900}", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(options.server, folder)
        try:
            passed = [check(f"line {AT} has {what}", servers.refuses, lines) for what, lines in BROKEN]
            if os.path.basename(options.server) != "redis-server":
                passed.append(check(f"line {AT} has {FATAL[0]}", servers.node_refuses, FATAL[1]))
            passed.append(check("a thousand users are taken, and are gone again", servers.takes))
            passed.append(check(f"no server starts with an error on line {AT}", servers.does_not_start))
        finally:
            servers.stop()
    print("done")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
