"""Runs random programs over two to six connections on redis-server and on a node with one worker and with several, and
compares in order all that each connection is sent, replies and pushes, and the keys at the end.

A program comes from a seed. What differs is shrunk and shown in the form of pushes.txt. What may differ stands in
connections.txt; the rules that no program needed are named.
"""

import argparse
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from compare import HERE, split
from programs import draw
from sequences import words_of
from several import WAITING, Server

SHOWN_MAX = 5
# What differs is run again as often. What does not come again, since threads raced on a busy machine, is shown, and fails
# only where it is more than one program in so many.
TRIES = 10
RARE = 1000
SHRINK_SECONDS = 60
# So many programs should have used every rule.
MANY = 10000


def rules():
    """Each with a pattern for all steps up to the one that differs, and one for what differs in it."""
    found = []
    with open(os.path.join(HERE, "connections.txt"), encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                verdict, step, parts, reason = (part.strip() for part in line.split(" | ", 3))
                if verdict not in ("same", "order", "end") or not reason:
                    raise ValueError(f"connections.txt: {line!r}")
                found.append((verdict, re.compile(step), re.compile(parts), line.strip()))
    return found


def shown_step(name, commands):
    lines = [words_of(command).decode() for command in commands]
    if len(lines) == 1:
        return f"{name} {lines[0]}"
    return "\n".join([f"{name} +{len(lines)}", *(f"{name} {line}" for line in lines)])


def shown(program):
    return "\n".join(f"      {line}" for step in program for line in shown_step(*step).split("\n"))


def differences(program, one, two, known, used):
    """The first difference that no rule allows, as text; None where there is none."""
    lines = [shown_step(*step).replace("\n", "; ") for step in program] + ["at the end"]
    for number, (first, second) in enumerate(zip(one, two)):
        own = first[""] + second[""]
        for name in sorted((first.keys() | second.keys()) - {""}):
            expected, sent = first.get(name, []), second.get(name, [])
            verdict = judged(lines[: number + 1], name in own, expected, sent, known, used)
            if verdict == "differs":
                return f"step {number}, {lines[number]}\n      {name} is sent by\n        redis {expected}\n        node  {sent}"
            if verdict == "end":
                return None
    return None if len(one) == len(two) else f"one stalls: {len(one)} and {len(two)} steps"


def judged(lines, is_own, expected, sent, known, used):
    """`same`, `differs`, or `end` where a rule says that no more can be compared."""
    for part in range(max(len(sent), len(expected))):
        parts = [repr(side[part]) if part < len(side) else "nothing" for side in (expected, sent)]
        if parts[0] == parts[1]:
            continue
        rests = [repr(side[part:])[1:-1] for side in (expected, sent)]
        before, text = "\n".join(lines), f"{'own' if is_own else 'other'} {rests[0]} <> {rests[1]}"
        for verdict, context, difference, line in known:
            if context.search(before) and difference.search(text) and (verdict != "order" or apart(expected) == apart(sent)):
                used[line] = used.get(line, 0) + 1
                if verdict != "same":
                    return verdict
                break
        else:
            return "differs"
    return "same"


def apart(parts):
    """Pushes and replies, each in their order, and the names of all invalidations."""
    pushes, replies, names = [], [], []
    for part in parts:
        kind, value = part
        word = value[0] if isinstance(value, list) and value else None
        if word == ("$", b"invalidate"):
            names += value[1][1] or ["all"]
        elif value and value[1:2] == [("$", b"__redis__:invalidate")] and word == ("$", b"message"):
            names += value[2][1] or ["all"]
        elif kind == ">" or word in (("$", b"message"), ("$", b"pmessage")):
            pushes.append(part)
        else:
            replies.append(part)
    return pushes, replies, sorted(set(map(repr, names)))


def goes_behind(program):
    """
    Whether a command stands behind one that waits. It is executed once that is served, by several workers at the same time
    as what stands behind the commands of others.
    """
    return any(WAITING.fullmatch(command[0]) for _, commands in program for command in commands[:-1])


class Comparison:
    """A redis-server and the nodes that are compared with it."""

    def __init__(self, options):
        self.folder = tempfile.mkdtemp(prefix="connections-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.processes, self.known, self.used, self.stalled = [], rules(), {}, 0
        self.reference = Server(self.start("redis-server", None))
        self.nodes = {workers: Server(self.start(options.server, workers)) for workers in options.workers.split(",")}

    def start(self, program, workers):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        folder = os.path.join(self.folder, str(port))
        os.mkdir(folder)
        if os.path.basename(program) == "redis-server":
            arguments = [program, "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "no"]
        else:
            arguments = [program, "server", "--port", str(port), "--dir", folder, "--first-start", "serve", "--workers", workers]
        with open(folder + ".log", "wb") as log:
            self.processes.append(subprocess.Popen(arguments, stdout=log, stderr=log))
        end = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(64).startswith(b"+PONG"):
                        return port
            except OSError:
                pass
            if time.monotonic() > end or self.processes[-1].poll() is not None:
                raise RuntimeError(f"{program} does not start, see {folder}.log")
            time.sleep(0.02)

    def differs(self, program, workers=None):
        """By how many workers it differs, and how; used rules are noted."""
        expected = self.reference.run(program)
        self.stalled += "stalled" in expected[-1]
        for many, node in self.nodes.items():
            if workers in (None, many) and (many == "1" or not goes_behind(program)):
                found = differences(program, expected, node.run(program), self.known, self.used)
                if found:
                    return many, found
        return None

    def shrunk(self, program, workers):
        """A program that differs with fewer steps and commands, found within a minute."""
        end = time.monotonic() + SHRINK_SECONDS
        size = len(program) // 2
        while size and time.monotonic() < end:
            at = 0
            while at < len(program) and time.monotonic() < end:
                fewer = program[:at] + program[at + size :]
                if fewer and self.differs(fewer, workers):
                    program = fewer
                else:
                    at += size
            size = size // 2 if size > 1 else 0
        for number, (name, commands) in enumerate(program):
            at = 0
            while len(commands) > 1 and at < len(commands) and time.monotonic() < end:
                fewer = commands[:at] + commands[at + 1 :]
                if self.differs(program[:number] + [(name, fewer)] + program[number + 1 :], workers):
                    commands = fewer
                    program = program[:number] + [(name, fewer)] + program[number + 1 :]
                else:
                    at += 1
        return program

    def problem(self, program):
        """What differs, shrunk, as text, and whether it was seen again; or None."""
        before = dict(self.used)
        found = self.differs(program)
        if found is None:
            return None
        workers, text = found
        self.used = before
        again = sum(self.differs(program, workers) is not None for _ in range(TRIES))
        lines = [f"with {workers} workers, seen again in {again} of {TRIES} runs"]
        if again:
            program = self.shrunk(program, workers)
            found = (self.differs(program, workers) for _ in range(2 * TRIES))
            text = next((each[1] for each in found if each), f"before it was shrunk, {text}")
        self.used = before
        return again > 0, "\n".join([*lines, shown(program), f"   {text}"])

    def logs_of_dead(self):
        """The last lines of those that have ended by themselves."""
        found = []
        for process in self.processes:
            if process.poll() is not None:
                port = process.args[process.args.index("--port") + 1]
                with open(os.path.join(self.folder, port + ".log"), encoding="utf-8", errors="replace") as log:
                    found += [f"{process.args[0]} ended with {process.returncode}\n", *(line for line in log if "===" in line or "# " in line)]
        return "".join(found)

    def close(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def work(job, options, first, queue):
    """Every so-many-th program; says what differs, and at last which rules were used."""
    comparison, steps, seed = None, 0, None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        comparison = Comparison(options)
        for seed in range(first + job, first + options.programs, options.jobs):
            program = draw(seed)
            steps += len(program)
            found = comparison.problem(program)
            if found:
                queue.put(("problem" if found[0] else "rare", f"seed {seed} (--seed {seed} --programs 1), {found[1]}"))
        queue.put(("end", (steps, comparison.used, comparison.stalled)))
    except Exception as error:
        import traceback; traceback.print_exc()
        logs = comparison.logs_of_dead() if comparison else ""
        queue.put(("problem", f"seed {seed} broke off: {error!r}\n{logs}"))
        queue.put(("end", (steps, {}, 0)))
    finally:
        # Its servers end even where it is told to end meanwhile.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if comparison:
            comparison.close()


def from_file(path):
    """A program in the form of pushes.txt, without sections."""
    program, together = [], 0
    with open(path, "rb") as file:
        for line in file:
            name, _, command = line.strip().partition(b" ")
            if command.startswith(b"+"):
                together = int(command[1:])
                program.append((name.decode(), []))
            elif together:
                program[-1][1].append(split(command))
                together -= 1
            elif command:
                program.append((name.decode(), [split(command)]))
    return program


def run_file(options):
    comparison = Comparison(options)
    try:
        found = comparison.problem(from_file(options.file))
        print(f"FAIL {found[1]}" if found else "ok")
    finally:
        comparison.close()
    sys.exit(1 if found else 0)


def run_programs(options):
    """The problems, the steps, and how often each rule was used."""
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    queue, began = multiprocessing.Queue(), time.monotonic()
    jobs = [multiprocessing.Process(target=work, args=(job, options, first, queue)) for job in range(options.jobs)]
    for job in jobs:
        job.start()
    try:
        problems, steps, used = gathered(options, queue)
    finally:
        for job in jobs:
            job.terminate()
            job.join()
    seconds = time.monotonic() - began
    check = f"connections: {options.programs} random programs over several connections with {options.workers} workers from seed {first}"
    report(options, problems, used)
    print(f"FAIL {check}: {problems} differences" if problems else f"ok {check} ({steps} steps in {seconds:.0f} s)", flush=True)
    return problems


def gathered(options, queue):
    problems, rare, steps, used, ended = 0, 0, 0, {}, 0
    while ended < options.jobs and (problems < SHOWN_MAX or options.all):
        kind, value = queue.get()
        if kind in ("problem", "rare"):
            rare += kind == "rare"
            problems += kind == "problem" or rare > 1 + options.programs // RARE
            print(f"   {value}", flush=True)
            continue
        ended += 1
        steps += value[0]
        if value[2]:
            print(f"   {value[2]} times redis-server neither answered nor waited; what follows was not compared")
        for rule, count in value[1].items():
            used[rule] = used.get(rule, 0) + count
    return problems, steps, used


def report(options, problems, used):
    """Which rules were used how often; in a large run, which never."""
    for line in (rule[3] for rule in rules()):
        if line in used:
            print(f"   used {used[line]} times: {line}")
        elif options.programs >= MANY and not problems:
            print(f"   never used: {line}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--server", required=True, help="the program of the nodes, or redis-server")
    arguments.add_argument("--programs", type=int, default=2000)
    arguments.add_argument("--seed", type=int, help="of the first one; random if not given")
    arguments.add_argument("--workers", default="1,3")
    arguments.add_argument("--jobs", type=int, default=2, help="each has its own servers")
    arguments.add_argument("--file", help="run the program in it instead")
    arguments.add_argument("--all", action="store_true", help="go on after some differences")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.file:
        run_file(options)
    problems = run_programs(options)
    print("done")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
