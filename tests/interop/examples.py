"""Runs the test suites of examples/ as their users do, and prints a line for each of their tests.

usage: examples.py PYTHON NODE_FOLDER. QUORLOCK names the program. PYTHON has what examples/pytest/ needs, NODE_FOLDER is a copy of
examples/node/ with its packages.
"""

import os
import re
import subprocess
import sys

PYTEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/pytest")
# pytest -v: `test_locks.py::test_name PASSED`; node --test with TAP: `not ok 3 - name`.
PYTEST_LINE = re.compile(r"^\S+::test_(\w+) (PASSED|FAILED|ERROR)", re.MULTILINE)
TAP_LINE = re.compile(r"^(not )?ok \d+ - (.*)$", re.MULTILINE)


def output(command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=200, check=False)
    return done.returncode, done.stdout


def report(suite, tests, code, said):
    """Counts the tests, and fails where there are none or where the suite failed without one of them."""
    for name, passed in tests:
        print(f"ok {suite}: {name}" if passed else f"FAIL {suite}: {name}: see below", flush=True)
    if code == 0 and tests:
        return
    if all(passed for _, passed in tests):
        print(f"FAIL {suite}: the suite: it ended with {code} and {len(tests)} tests")
    print(said[-6000:])


def main():
    python, node_folder = sys.argv[1:]
    command = [python, "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider"]
    code, said = output(command, PYTEST)
    tests = [(name.replace("_", " "), state == "PASSED") for name, state in PYTEST_LINE.findall(said)]
    report("pytest example", tests, code, said)
    code, said = output(["node", "--test", "--test-reporter=tap"], node_folder)
    tests = [(name, not failed) for failed, name in TAP_LINE.findall(said)]
    report("node example", tests, code, said)
    print("done")


if __name__ == "__main__":
    main()
