"""Runs a program over several connections on one server, and notes all that each connection is sent.

A program is a list of steps; a step is the name of a connection and the commands that it sends together. The next step
begins once all that the last one causes has arrived, without a sleep: every write ends with a PING, every other
connection is sent one as well, and CLIENT LIST, asked by a connection of no program, names those that wait.
"""

import itertools
import re
import select
import time

from compare import Connection
from pushes import send

# Numbers of connections lie above all numbers that programs contain, so that a reply tells which it is.
FIRST_NUMBER = 1000
FENCE = b"fence-"
KEYS = [b"q1", b"q2", b"z1", b"z2", b"k1", b"k2", b"s1"]
DATABASES = 2
LISTED = (b"name", b"flags", b"db", b"sub", b"psub", b"multi", b"cmd", b"redir", b"resp")
# A wait as long as this ends by itself within the program; a longer one does not.
SHORT_SECONDS = 0.1
PAUSES = 3
# A reply that has not come until then never will.
STALLED_SECONDS = 4
WAITING = re.compile(rb"B([LR]POP|[LR]MOVE|LMPOP|RPOPLPUSH|ZPOPM(IN|AX)|ZMPOP)", re.IGNORECASE)


class Stalled(Exception):
    """A connection neither answers nor waits."""


class Link:
    """One connection of a program."""

    def __init__(self, port):
        self.connection = Connection(port, 2)
        self.number = self.connection.send([b"CLIENT", b"ID"])[1]
        self.received = []
        self.fence, self.owed, self.replies, self.blocks_at = None, 0, 0, None
        self.queues = self.is_silent = self.may_skip = self.waits = self.is_closed = False

    def note(self, commands):
        """What is to be expected after these."""
        words = [command[0].upper() for command in commands]
        self.owed, self.replies = max(self.owed, 0) + len(commands), 0
        for number, (command, word) in enumerate(zip(commands, words)):
            if word == b"MULTI":
                self.queues = True
            elif word in (b"EXEC", b"DISCARD", b"RESET"):
                self.queues = False
            if word == b"RESET" or command[1:] in ([b"REPLY", b"ON"], [b"REPLY", b"OFF"]):
                self.is_silent = command[-1] == b"OFF"
            self.may_skip |= command[1:] == [b"REPLY", b"SKIP"]
        self.blocks_at = next((number for number, word in enumerate(words) if WAITING.fullmatch(word)), None)
        self.may_skip_some = self.may_skip or self.is_silent or b"MULTI" in words

    @property
    def is_before_waiting(self):
        """Whether replies are missing of what stood before a command that waits, in the same write."""
        return not self.may_skip_some and self.replies < (self.blocks_at or 0)

    def is_settled(self):
        return self.is_closed or (self.fence is None and self.owed <= 0)

    def has_data(self, seconds):
        """Whether there is something to read, the end of the connection included."""
        self.connection.socket.settimeout(0)
        try:
            if self.connection.file.peek(1):
                return True
        except ConnectionError:
            return True
        finally:
            self.connection.socket.settimeout(STALLED_SECONDS)
        return bool(select.select([self.connection.socket], [], [], seconds)[0])

    def take(self):
        """Reads one reply or push."""
        try:
            reply = self.connection.read()
        except TimeoutError as error:
            raise Stalled("no reply, and it does not wait") from error
        except ConnectionError:
            self.is_closed = True
            self.received.append(("closed", None))
            return
        kind, value = reply[1][-1] if reply[0] == "*" and reply[1] else reply
        if kind == "$" and value and value.startswith(FENCE):
            if value == self.fence:
                self.fence, self.owed = None, 0
            return
        self.received.append(reply)
        self.replies += 1
        if reply[0] != ">":
            self.owed -= 1

    def write(self, commands):
        try:
            send(self.connection, commands)
        except ConnectionError:
            # What it was sent before the end is still to be read.
            pass


class Server:
    """A server, and a connection that belongs to no program."""

    def __init__(self, port):
        self.port = port
        self.links, self.fences, self.may_be_paused = {}, 0, False
        self.observe()
        while int(self.observer.send([b"CLIENT", b"ID"])[1]) < FIRST_NUMBER:
            self.observer.socket.close()
            self.observe()
        # What earlier connections left is not there any more.
        self.clear()

    def observe(self):
        self.observer = Connection(self.port, 3)
        self.observer.socket.settimeout(3 * STALLED_SECONDS)

    def ask(self, *commands):
        """Replies to the connection of no program, which programs may have killed."""
        try:
            return self.observer.exchange([command.split() for command in commands])
        except ConnectionError:
            self.observe()
            return self.observer.exchange([command.split() for command in commands])

    def clear(self):
        # Its own reply says that the others are gone.
        self.ask(b"CLIENT UNPAUSE", b"CLIENT KILL TYPE normal SKIPME yes", b"CLIENT KILL TYPE pubsub SKIPME yes")
        self.ask(b"SELECT 0", b"FLUSHALL")
        self.observer.send([b"CONFIG", b"SET", b"notify-keyspace-events", b""])
        for link in self.links.values():
            link.connection.socket.close()
        self.links = {}

    def run(self, program):
        """
        For each step what each connection was sent, and at last what is kept. A program that stalls ends with that.
        """
        for name in sorted({name for name, _ in program}):
            self.links[name] = Link(self.port)
        seen, self.may_be_paused = [], False
        try:
            for name, commands in program:
                self.active = {name, *(name for name, link in self.links.items() if link.waits)}
                self.step(self.links[name], commands)
                seen.append(self.collect())
            self.active = {name for name, link in self.links.items() if link.waits}
            # What a pause has held up may pause again.
            for _ in range(PAUSES if self.may_be_paused else 1):
                self.ask(b"CLIENT UNPAUSE")
                self.settle_all(self.may_be_paused)
            for link in self.links.values():
                if link.waits:
                    self.ask(b"CLIENT UNBLOCK " + link.number)
                    self.settle_all(False)
            seen.append(self.collect() | {"kept": self.kept()})
        except Stalled:
            seen.append(self.collect() | {"stalled": [("stalled", None)]})
        self.clear()
        return seen

    def step(self, link, commands):
        if link.waits and not link.is_closed:
            # Nothing would say that it is there before what others send.
            link.received.append(("waits", None))
        if link.waits or link.is_closed:
            return
        named = [[self.numbered(part) for part in command] for command in commands]
        words = [command[0].upper() for command in named]
        link.note(named)
        if b"QUIT" in words:
            link.owed += FIRST_NUMBER
        elif link.queues:
            link.owed *= not link.is_silent
        elif link.is_silent:
            named += [[b"CLIENT", b"REPLY", b"ON"], *self.fenced(link), [b"CLIENT", b"REPLY", b"OFF"]]
        elif len(named) > 1 or link.may_skip or not WAITING.fullmatch(words[0]):
            named += self.fenced(link)
        ends_pause = [b"CLIENT", b"UNPAUSE"] in named
        if [b"CLIENT", b"PAUSE"] in [command[:2] for command in named] or ends_pause:
            self.may_be_paused = True
        link.write(named)
        self.settle(link, any(WAITING.fullmatch(command[0]) and is_short_wait(command) for command in named))
        self.settle_all(ends_pause)

    def fenced(self, link):
        """What goes behind a write: a PING, and one before it whose reply may be skipped."""
        self.fences += 1
        link.fence = FENCE + b"%d" % self.fences
        skipped = [[b"PING", FENCE]] * link.may_skip
        link.may_skip = False
        return skipped + [[b"PING", link.fence]]

    def settle(self, link, is_short=False):
        """Reads until all is answered, or the connection is known to wait."""
        link.waits = False
        end = time.monotonic() + STALLED_SECONDS
        while not link.is_settled():
            if link.has_data(SHORT_SECONDS * 5 if is_short else 0.002):
                link.take()
                continue
            is_short = False
            if b"b" in self.flags([link]).get(link.number, b""):
                link.waits = True
                return self.drain(link)
            if time.monotonic() > end:
                raise Stalled(f"{link.number} neither answers nor waits")

    def drain(self, link):
        """Reads what one that waits was sent before it began to."""
        # It is here after one more answer; of a node with several workers, soon after.
        self.ask(b"PING")
        while link.is_before_waiting or self.may_be_paused:
            if not link.has_data(STALLED_SECONDS if link.is_before_waiting and not self.may_be_paused else 0.003):
                return
            link.take()
        while link.has_data(0):
            link.take()

    def settle_all(self, ends_pause):
        """Whatever each is sent because of the last step, and because of what is executed then behind a wait."""
        goes_on = True
        while goes_on:
            waiting = [link for link in self.links.values() if link.waits]
            self.settle_once(ends_pause)
            goes_on = any(not link.waits for link in waiting)

    def settle_once(self, ends_pause):
        links = [link for link in self.links.values() if not link.is_closed]
        flags = self.flags(links) if links else {}
        asked = []
        for link in links:
            if link.number not in flags:
                link.owed = FIRST_NUMBER
            elif b"b" in flags[link.number]:
                # What it is sent meanwhile is read once it waits no more.
                if ends_pause and link.waits:
                    self.resume(link)
                link.waits = link.waits or not link.is_settled()
                continue
            elif link.fence is not None:
                # What comes of the commands before it may come behind it.
                self.settle(link)
            asked.append(link)
        for link in asked:
            if link.fence is None and not (link.queues or link.is_silent or link.is_closed or link.owed == FIRST_NUMBER):
                link.write(self.fenced(link))
        for link in asked:
            self.settle(link)

    def resume(self, link):
        """After a pause: what it held up is executed, by several workers some time after the reply to its end."""
        for _ in range(300 if link.blocks_at is None else 10):
            if link.is_closed:
                return
            if link.has_data(0.001):
                link.take()
            elif b"b" not in self.flags([link]).get(link.number, b""):
                return self.settle(link)

    def flags(self, links):
        """Of those that are still connected, by number."""
        (kind, text), = self.ask(b"CLIENT LIST ID " + b" ".join(link.number for link in links))
        if kind not in "$=":
            raise ValueError(text)
        found = {}
        for line in text.removeprefix(b"txt:").split(b"\n"):
            if line:
                fields = dict(field.partition(b"=")[::2] for field in line.split(b" "))
                found[fields[b"id"]] = fields[b"flags"]
        return found

    def kept(self):
        commands = []
        for database in range(DATABASES):
            commands.append(b"SELECT %d" % database)
            for key in KEYS:
                commands += [b"TYPE " + key, b"GET " + key, b"LRANGE %s 0 -1" % key, b"ZRANGE %s 0 -1 WITHSCORES" % key]
                commands += [b"EXPIRETIME " + key]
        return self.ask(*commands, b"SELECT 0")

    def collect(self):
        """What each connection was sent since this was last asked, and which of them have executed commands meanwhile."""
        found = {"": sorted(self.active)}
        for name, link in self.links.items():
            if link.received:
                found[name] = in_one_order([self.comparable(reply) for reply in link.received])
                link.received = []
        return found

    def numbered(self, part):
        for name, link in self.links.items():
            part = part.replace(b"{%s}" % name.encode(), link.number)
        return part

    def comparable(self, reply):
        """With names for numbers of connections, and without what each server has of its own."""
        kind, value = reply
        names = {link.number: name for name, link in self.links.items()}
        if isinstance(value, list):
            if ("$", b"server") in value:
                return (kind, ["the server's introduction", value[value.index(("$", b"proto")) + 1]])
            return (kind, [self.comparable(part) for part in value])
        if kind == "$" and value and value.startswith(FENCE):
            return (kind, FENCE)
        if kind == ":" and value in names:
            return (kind, names[value])
        if kind in "$=" and value and b"id=" in value[:7]:
            return (kind, listed(value, names))
        return reply


def in_one_order(replies):
    """Redis has no order of a client's patterns and channels: of a message that comes for several, and of UNSUBSCRIBE without names."""
    found = []
    for like, group in itertools.groupby(replies, message_of):
        group = list(group)
        if like and like[0][1] == b"pmessage":
            group.sort(key=repr)
        elif like:
            names = sorted((parts[1] for _, parts in group), key=repr)
            group = [(kind, [parts[0], name, parts[2]]) for name, (kind, parts) in zip(names, group)]
        found += group
    return found


def message_of(reply):
    """What replies have in common that come in any order."""
    kind, parts = reply
    if kind not in "*>" or not parts or not isinstance(parts, list):
        return None
    if parts[0] == ("$", b"pmessage"):
        return (parts[0], *parts[2:])
    is_end = parts[0] in (("$", b"unsubscribe"), ("$", b"punsubscribe"), ("$", b"sunsubscribe"))
    return (parts[0],) if is_end else None


def listed(text, names):
    """The lines of CLIENT LIST about connections of the program, as far as they can be compared."""
    found = []
    for line in text.removeprefix(b"txt:").split(b"\n"):
        fields = dict(field.partition(b"=")[::2] for field in line.split(b" ") if line)
        if fields.get(b"id") in names:
            fields[b"redir"] = names.get(fields[b"redir"], fields[b"redir"])
            found.append((names[fields[b"id"]], *(fields[name] for name in LISTED)))
    # Redis keeps them in an order that goes round with time.
    return sorted(found)


def is_short_wait(command):
    """Whether it ends by itself soon."""
    timeout = command[1] if command[0].upper().endswith(b"MPOP") else command[-1]
    try:
        return 0 < float(timeout) <= SHORT_SECONDS
    except ValueError:
        return False
