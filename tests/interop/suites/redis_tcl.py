"""Runs Redis's own test suite, in Tcl, against a node.

Each unit gets a node of its own, and is run in the suite's mode for external servers. That mode leaves out every test of
some units, those in OWN: for these the suite starts its servers itself, and takes what lies in src/redis-server.

The suite is changed in three ways, each in a copy: see adapt. It is run with two of its own options: --ignore-encoding,
for OBJECT ENCODING says how a node keeps a value, and --ignore-digest, for DEBUG DIGEST is about Redis's.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile

from suite import HERE, Judge, node, refuses, replaced

CORE = """type/string type/incr type/hash type/set keyspace multi pubsub pubsubshard protocol querybuf
    tracking introspection auth info acl scripting""".split()
LATE = "scan expire introspection-2 type/list type/list-2 type/list-3 type/zset slowlog latency-monitor".split()
OWN = ("auth", "info", "pubsubshard", "acl")
# Lines of the suite's output: what became of a test.
LINE = re.compile(r"\[(ok|err|skip|ignore|exception|TIMEOUT)\]: (.*)")
# What the suite says about a test that it leaves out, and why it does.
LEFT_OUT = {
    "Tag: needs:repl denied": "a node has no replicas",
    "Not supported on external server": "the suite's mode for external servers leaves it out",
    "large memory flag not provided": "it wants more than 100 MB",
}
# A program on a busy machine may take longer than a node gives a script.
ALLOWED = ("--enable-debug-command", "yes", "--script-time-limit", "5000")
CLEAN = """    if {$::num_failed > $failed_before} {
        catch {r discard}
        catch {r unwatch}
        if {[catch {r ping} pong] || $pong ne "PONG"} {catch {reconnect}}
    }
"""


def adapt(directory, functions):
    """What a run needs that is no test."""
    if not functions:
        # Each test file begins with FUNCTION FLUSH, and all of scripting's tests are there twice, first as functions.
        replaced(directory + "/tests/support/server.tcl", "    r function flush\n", "")
        replaced(directory + "/tests/unit/scripting.tcl", "foreach is_eval {0 1} {", "foreach is_eval {1} {")
        # Tests behind a DEBUG command that is no test itself.
        replaced(directory + "/tests/unit/scripting.tcl", 'tags {"scripting needs:debug"}', 'tags {"scripting external:skip"}')
    # The suite ends at an error that no assertion expects. Here the test fails, and what it left of a transaction is ended.
    test = directory + "/tests/support/test.tcl"
    replaced(test, "    incr ::num_tests\n", "    incr ::num_tests\n    set failed_before $::num_failed\n")
    replaced(test, "    set ::cur_test $prev_test\n", "    set ::cur_test $prev_test\n" + CLEAN)


def prepared(source, functions):
    directory = tempfile.mkdtemp()
    shutil.copytree(os.path.join(source, "tests"), os.path.join(directory, "tests"), symlinks=True)
    os.makedirs(os.path.join(directory, "tests/tmp"), exist_ok=True)
    os.makedirs(os.path.join(directory, "src"))
    shutil.copy(os.path.join(HERE, "redis-server"), os.path.join(directory, "src"))
    for tool in ("redis-cli", "redis-benchmark"):
        os.symlink(shutil.which(tool), os.path.join(directory, "src", tool))
    adapt(directory, functions)
    return directory


def output_of(source, unit, options, seconds):
    """What the suite says about a unit; empty where it takes too long."""
    command = ["tclsh8.6", "tests/test_helper.tcl", "--single", f"unit/{unit}", "--durable"]
    command += ["--ignore-encoding", "--ignore-digest", "--timeout", str(seconds), *options]
    with node(*ALLOWED) as (port, scratch):
        functions = not refuses(port, "FUNCTION", "FLUSH")
        directory = prepared(source, functions)
        # Units that are run at the same time look for free ports far from each other.
        base = 10000 + (LATE + CORE).index(unit) * 100
        command += ["--tags", "-needs:repl", "--clients", "1", "--baseport", str(base), "--portcount", "60"]
        if unit not in OWN:
            command += ["--host", "127.0.0.1", "--port", str(port)]
        try:
            done = subprocess.run(
                command, cwd=directory, env={**os.environ, "TERM": "dumb"}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, encoding="utf-8", errors="replace",
            )
            return done.stdout
        except subprocess.TimeoutExpired:
            return ""
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def results_of(output):
    """(what became of it, name, why) for each test. What is about no test has no name."""
    # The list of failures at the end says all of them again.
    body = output.split("\n                   The End\n")[0]
    lines = body.splitlines()
    for number, line in enumerate(lines):
        match = LINE.match(line)
        if not match:
            continue
        kind, text = match.groups()
        # The first line of an error that is no assertion lacks its beginning; the second has it.
        behind = [line for line in lines[number + 1 : number + 3] if not LINE.match(line)]
        why = next((line for line in behind if line.startswith(("Expected", "ERR"))), behind[0] if behind else "")
        named = re.fullmatch(r"(.*) \(\d+ ms\)" if kind == "ok" else r"(.*) in tests/unit/\S+", text)
        if kind in ("ok", "err") and named:
            yield kind, named[1], why
        elif kind == "ignore":
            name, why = re.fullmatch(r"(?:(.*): )?(Tag: \S+ denied|[^:]*)", text).groups()
            yield kind, name or "a block of tests", LEFT_OUT.get(why, why)
        elif kind in ("err", "exception", "TIMEOUT"):
            yield "broken", "", f"{text} {why}"


def run_unit(source, unit, entries):
    """The output of a unit without what is run apart, and of each of those."""
    apart = [entry for entry in entries if entry.apart]
    skipped = [word for entry in apart for word in ("--skiptest", entry.name)]
    whole = output_of(source, unit, skipped, 180)
    return whole, [output_of(source, unit, ["--only", entry.name], 15) for entry in apart]


def judge_unit(judge, unit, whole, alone):
    group = f"unit/{unit}"
    broken = "" if "The End" in whole else "it broke off: " + whole[-200:]
    for kind, name, why in results_of(whole):
        if kind == "broken":
            broken = broken or why
        elif kind == "ignore":
            judge.left_out(group, name, why)
        else:
            judge.result(group, name, kind == "ok", why)
    for entry, output in zip([entry for entry in judge.group(group) if entry.apart], alone):
        results = [(kind, name) for kind, name, _ in results_of(output)]
        # One that waits for ever is named where the suite says what it was doing.
        if entry.name in output:
            judge.result(group, entry.name, ("ok", entry.name) in results)
    judge.ended(group, not broken, broken)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("source", help="the unpacked source of Redis")
    arguments.add_argument("--whole", action="store_true", help="all units, also those that take long")
    arguments.add_argument("--unit", action="append", help="only this one")
    options = arguments.parse_args()
    units = options.unit or (LATE + CORE if options.whole else CORE)
    judge = Judge("redis-tcl", "Tcl", options.source.rpartition("-")[2])
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        running = {unit: pool.submit(run_unit, options.source, unit, judge.group(f"unit/{unit}")) for unit in units}
        for unit, future in running.items():
            judge_unit(judge, unit, *future.result())
    judge.finish([f"unit/{unit}" for unit in LATE + CORE], [f"unit/{unit}" for unit in LATE])


if __name__ == "__main__":
    main()
