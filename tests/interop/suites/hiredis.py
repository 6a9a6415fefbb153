"""Runs hiredis's own test program against a node, over TCP and over a Unix socket.

Its measurements of throughput are no test, and end the program where something goes wrong: they are a test of their own.
"""

import argparse
import os
import re
import subprocess

from suite import Judge, node

LINE = re.compile(r"#\d+ (.*?):? *\x1b\[0;3[12]m(PASSED|FAILED)")


def run(program, port, socket, *options):
    command = [program, "-h", "127.0.0.1", "-p", str(port), "-s", socket, *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=180)
    return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def judge_tests(judge, output):
    """Each test once for each kind of connection."""
    group = "without a server"
    for line in output.splitlines():
        testing = re.match(r"Testing against (.*) \(", line)
        if testing:
            group = testing[1]
        # A test that Debian has taken out leaves its name in front of the next one.
        match = LINE.match(line.rpartition(": #")[0] and "#" + line.rpartition(": #")[2] or line)
        if match:
            judge.result(group, match[1].replace(":", ","), match[2] == "PASSED")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program")
    arguments.add_argument("--whole", action="store_true", help="also the throughput, which takes a minute")
    options = arguments.parse_args()
    judge = Judge("hiredis", "C", os.path.basename(os.path.dirname(options.program)).partition("-")[2])
    with node("--unixsocket", "socket") as (port, directory):
        socket = os.path.join(directory, "socket")
        status, output = run(options.program, port, socket, "--skip-throughput")
        judge_tests(judge, output)
        judge.result("program", "ends", status == 0 and "ALL TESTS PASSED" in output, output[-200:])
        if options.whole:
            status, output = run(options.program, port, socket)
            judge.result("program", "throughput", status == 0, output[-200:])
            judge.ended("program", True)
    judge.finish({*judge.seen, "program"})


if __name__ == "__main__":
    main()
