"""Compares what COMMAND DOCS of redis-server and of a node tell of the arguments of the commands that both have.

There is one check for each protocol. What may differ stands in arguments.txt, with the reason; what stands there and
does not differ is a failure too.
"""

import argparse
import os
import re
import sys

from compare import HERE, Connection, show

# Other versions tell of other arguments.
VERSION = "7.0"
# Redis tells since when it has an argument. A node has all of its arguments since its first version.
UNTOLD = (b"since", b"deprecated_since")


def fields_of(reply):
    """A map by its keys, which is a flat array in RESP2."""
    parts = reply[1]
    return {key[1]: value for key, value in zip(parts[::2], parts[1::2])}


def told(argument, without=()):
    """An argument as it came, as far as it is compared."""
    kind, parts = argument
    kept = []
    for key, value in zip(parts[::2], parts[1::2]):
        if key[1] not in UNTOLD:
            kept += [key, arguments_of(value, without) if key[1] == b"arguments" else value]
    return (kind, kept)


def arguments_of(reply, without=()):
    """All arguments but those with these tokens."""
    kind, arguments = reply
    is_kept = lambda argument: fields_of(argument).get(b"token", (None, None))[1] not in without
    return (kind, [told(argument, without) for argument in arguments if is_kept(argument)])


def documents(commands):
    """The arguments of commands and subcommands by their names; none where a command has none."""
    found = {}
    for name, command in fields_of(commands).items():
        fields = fields_of(command)
        arguments = fields.get(b"arguments")
        found[name.decode()] = arguments and arguments_of(arguments)
        if b"subcommands" in fields:
            found.update(documents(fields[b"subcommands"]))
    return found


def rules():
    found = {}
    with open(os.path.join(HERE, "arguments.txt"), encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, rule, reason = (part.strip() for part in line.split(" | ", 2))
                found[name] = rule
                if not reason:
                    raise ValueError(f"arguments.txt: {line!r}")
    return found


def is_allowed(rule, one, two):
    if rule == "any" or not rule or not two:
        return rule == "any"
    kind, rest = arguments_of(two, rule.encode().split())
    return (one[1] if one else []) == rest


def problems_of(reference, subject, may_differ):
    shown = lambda arguments: show(arguments) if arguments else "nothing"
    both = sorted(reference.keys() & subject.keys())
    for name in both:
        one, two, rule = reference[name], subject[name], may_differ.get(name)
        if one == two and rule:
            yield f"{name}: arguments.txt says that it differs"
        if one != two and not is_allowed(rule, one, two):
            yield f"{name}\n       redis {shown(one)}\n       node  {shown(two)}"
    for name in sorted(may_differ.keys() - set(both)):
        yield f"{name}: stands in arguments.txt, and is not a command of both"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, required=True)
    parser.add_argument("--subject", type=int, required=True)
    options = parser.parse_args()
    failed = False
    for protocol in (2, 3):
        connections = [Connection(port, protocol) for port in (options.reference, options.subject)]
        information = connections[0].send([b"INFO", b"server"])[1].decode()
        version = re.search(r"redis_version:(\S+)", information)[1]
        if not version.startswith(VERSION):
            print(f"skip differential: arguments of commands: redis-server is {version}, and not {VERSION}", flush=True)
            break
        reference, subject = (documents(connection.send([b"COMMAND", b"DOCS"])) for connection in connections)
        # A redis-server differs from itself nowhere.
        problems = [] if reference == subject else list(problems_of(reference, subject, rules()))
        failed = failed or bool(problems)
        count = len(reference.keys() & subject.keys())
        print(f"{'FAIL' if problems else 'ok'} differential: arguments of {count} commands with RESP{protocol}", flush=True)
        for problem in problems:
            print(f"     {problem}")
    print("done")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
