"""Runs redis-py's own tests, those that its source distribution carries, against a node.

What needs a cluster, a Sentinel, TLS or a module is left out by redis-py's own marks and by the list of files here.
"""

import argparse
import os
import re
import subprocess
import tempfile
import xml.etree.ElementTree

from suite import Judge, node

FILES = "lock pipeline scripting encoding commands keyspace_notifications client cache monitor".split()
LATE = """pubsub connection connection_pool multiprocessing asyncio/test_lock asyncio/test_pipeline asyncio/test_scripting
    asyncio/test_encoding asyncio/test_pubsub asyncio/test_connection_pool asyncio/test_commands""".split()
MARKS = "not onlycluster and not redismod and not ssl and not cp_integration"


def tests_of(python, source, path, port):
    """(name, passed or None where it was left out, why) for each test; nothing where pytest ended early."""
    with tempfile.NamedTemporaryFile() as report:
        command = [python, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--timeout=30", f"--junitxml={report.name}"]
        command += [f"--redis-url=redis://127.0.0.1:{port}/0", "--redis-mod-url=redis://127.0.0.1:1", "-m", MARKS, path]
        status = subprocess.run(command, cwd=source, stdin=subprocess.DEVNULL, capture_output=True).returncode
        # 0 and 1 are those of a run to the end.
        if status > 1 or not os.path.getsize(report.name):
            return []
        cases = xml.etree.ElementTree.parse(report.name).getroot().iter("testcase")
    found = {}
    for case in cases:
        classes = [word for word in case.get("classname").split(".") if not word.startswith("test")]
        name = ".".join([*classes, case.get("name")])
        # A test may fail, and so may its end: two cases with one name.
        for result in case:
            if result.tag in ("failure", "error"):
                found[name] = (False, result.get("message") or "")
            elif result.tag == "skipped":
                found.setdefault(name, (None, result.get("message") or ""))
        found.setdefault(name, (True, ""))
    return [(name, passed, why) for name, (passed, why) in found.items()]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("python", help="with redis-py and pytest")
    arguments.add_argument("source", help="redis-py's unpacked source distribution")
    arguments.add_argument("version", help="redis-py's")
    arguments.add_argument("--whole", action="store_true", help="also what takes long")
    options = arguments.parse_args()
    judge = Judge("redis-py", "Python", options.version)
    for part in FILES + (LATE if options.whole else []):
        folder, _, name = part.rpartition("/test_")
        path = f"tests/test_{folder}/test_{name}.py" if folder else f"tests/test_{part}.py"
        with node("--enable-debug-command", "yes") as (port, _):
            tests = tests_of(options.python, options.source, path, port)
        for name, passed, why in tests:
            # A name that holds bytes or an address of memory is another one in each run.
            name = re.sub(r"[^ -~]|0x[0-9a-f]+", "?", name)
            if passed is None:
                judge.left_out(part, name, f"redis-py leaves it out, {why}")
            else:
                judge.result(part, name, passed, why)
        judge.ended(part, bool(tests), "pytest ended early")
    judge.finish(FILES + LATE, LATE)


if __name__ == "__main__":
    main()
