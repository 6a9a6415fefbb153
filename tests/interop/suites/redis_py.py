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


def pytest_cases(python, source, paths, *more):
    """As cases_of; nothing where pytest ended early."""
    with tempfile.NamedTemporaryFile() as report:
        command = [python, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--timeout=30", f"--junitxml={report.name}"]
        status = subprocess.run([*command, *more, *paths], cwd=source, stdin=subprocess.DEVNULL, capture_output=True).returncode
        # 0 and 1 are those of a run to the end.
        return cases_of(report.name) if status <= 1 else []


def cases_of(path):
    """(name, passed or None where it was left out, why) for each test of a report in JUnit's format."""
    if not os.path.getsize(path):
        return []
    found = {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        classes = [word for word in case.get("classname").split(".") if not word.startswith("test")]
        name = ".".join([*classes, case.get("name")])
        # A test may fail, and so may its end: two cases with one name.
        for result in case:
            if result.tag in ("failure", "error"):
                found[name] = (False, result.get("message") or result.text or "")
            elif result.tag == "skipped":
                found.setdefault(name, (None, result.get("message") or ""))
        found.setdefault(name, (True, ""))
    # A name that holds bytes or an address of memory is another one in each run.
    return [(re.sub(r"[^ -~]|0x[0-9a-f]+", "?", name), passed, why) for name, (passed, why) in found.items()]


def tests_of(python, source, part, port, *more):
    """redis-py's tests of a part."""
    folder, _, name = part.rpartition("/test_")
    path = f"tests/test_{folder}/test_{name}.py" if folder else f"tests/test_{part}.py"
    urls = [f"--redis-url=redis://127.0.0.1:{port}/0", "--redis-mod-url=redis://127.0.0.1:1"]
    # redis-py's pyproject.toml says this, and is not beside the tests: asynchronous ones would not run.
    return pytest_cases(python, source, [path], *urls, "-m", MARKS, "-o", "asyncio_mode=auto", *more)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("python", help="with redis-py and pytest")
    arguments.add_argument("source", help="redis-py's unpacked source distribution")
    arguments.add_argument("version", help="redis-py's")
    arguments.add_argument("--whole", action="store_true", help="also what takes long")
    options = arguments.parse_args()
    judge = Judge("redis-py", "Python", options.version)
    for part in FILES + (LATE if options.whole else []):
        with node("--enable-debug-command", "yes") as (port, _):
            judge.results(part, tests_of(options.python, options.source, part, port))
    judge.finish(FILES + LATE, LATE)


if __name__ == "__main__":
    main()
