"""Runs the tests of Go modules that start their own redis-server, with a node in its place.

miniredis sends the commands of its `integration` folder to itself and to a real server, and compares the replies. redigo is
a client. A test that panics ends all that are run with it, so that the lists say `apart` for it.

The modules are copied: a server gets longer to start than redis-server needs, a key that is read 8 commands after it was
written lives for longer than 12 ms, and the address of redigo's second package, which is the well-known one, is a free port.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile

from suite import HERE, Judge, free_port, node, replaced

SUITES = {
    "miniredis": [
        (
            "integration",
            [
                ("integration/ephemeral.go", "(1 * time.Second)", "(30 * time.Second)"),
                ("integration/tx_test.go", '"PSETEX", "str", "12"', '"PSETEX", "str", "12000"'),
            ],
            (),
        )
    ],
    "redigo": [
        ("redis", [("redis/test_test.go", "time.Second * 10", "time.Second * 30")], ("-redis-port", "{port}")),
        ("redisx", [("redisx/db_test.go", '":6379"', '":{node}"')], ()),
    ],
}


def results_of(directory, package, arguments, environment, seconds):
    """What became of each test, and what it printed; whether all were run."""
    command = ["go", "test", "-json", "-count=1", f"-timeout={seconds}s", f"./{package}", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    became, output, running = {}, {}, set()
    for line in done.stdout.decode(errors="replace").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        name = event.get("Test")
        if event.get("Action") == "run":
            running.add(name)
        elif event.get("Action") in ("pass", "fail", "skip"):
            became[name] = event["Action"]
        elif event.get("Action") == "output" and event["Output"].strip():
            output.setdefault(name, []).append(event["Output"].strip())
    package_output = " ".join(output.get(None, [])) + done.stderr.decode(errors="replace")
    panics = any("panic: " in line for lines in output.values() for line in lines)
    failed = [name for name, what in became.items() if what == "fail"]
    # A package that fails without a test of it was not compiled, or ended outside its tests.
    whole = None in became and not panics and running <= set(became) and failed != [None]
    return became, output, "" if whole else f"it broke off: {package_output[-200:]}", running


def told(became):
    """Tests without subtests, and those that failed though their subtests did not."""
    parents = {name.rpartition("/")[0] for name in became if name}
    of_subtests = {name.rpartition("/")[0] for name, what in became.items() if name and what == "fail"}
    return [
        name
        for name, what in became.items()
        if name and (name not in parents or what == "fail" and name not in of_subtests)
    ]


def run_package(judge, directory, package, arguments, environment, group=None):
    """`group` is what a package is called that is its module's only one."""
    group = group or package
    apart = [entry for entry in judge.group(group) if entry.apart]
    alone = "|".join(f"^{re.escape(entry.name)}$" for entry in apart)
    became, output, broken, _ = results_of(
        directory, package, [*(["-skip", alone] if apart else []), *arguments], environment, 300
    )
    for name in told(became):
        why = next((line for line in output.get(name, []) if "_test.go" in line or "test.go:" in line), "")
        if became[name] == "skip":
            judge.left_out(group, name, why or "the suite leaves it out")
        else:
            judge.result(group, name, became[name] == "pass", why)
    for entry in apart:
        became, _, _, running = results_of(directory, package, ["-run", f"^{entry.name}$", *arguments], environment, 6)
        if entry.name in running:
            judge.result(group, entry.name, became.get(entry.name) == "pass")
    judge.ended(group, not broken, broken)


def copied(source, scratch):
    """A module where it can be changed."""
    directory = os.path.join(scratch, "module")
    shutil.copytree(source, directory)
    subprocess.run(["chmod", "-R", "u+w", directory], check=True)
    return directory


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("suite", choices=sorted(SUITES))
    arguments.add_argument("source", help="the module's folder")
    arguments.add_argument("--whole", action="store_true", help="changes nothing: all of it is run in any case")
    options = arguments.parse_args()
    judge = Judge(options.suite, "Go", options.source.rpartition("@v")[2])
    scratch = tempfile.mkdtemp()
    directory = copied(options.source, scratch)
    os.makedirs(os.path.join(scratch, "bin"))
    os.makedirs(os.path.join(scratch, "servers"))
    shutil.copy(os.path.join(HERE, "redis-server"), os.path.join(scratch, "bin"))
    environment = {
        **os.environ, "INT": "1", "SUITE_DIRECTORY": os.path.join(scratch, "servers"),
        "PATH": os.path.join(scratch, "bin") + ":" + os.environ["PATH"],
    }
    try:
        for package, changes, more in SUITES[options.suite]:
            with node() as (port, _):
                for path, before, after in changes:
                    replaced(os.path.join(directory, path), before, after.format(node=port))
                run_package(judge, directory, package, [word.format(port=free_port()) for word in more], environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    judge.finish([package for package, _, _ in SUITES[options.suite]])


if __name__ == "__main__":
    main()
