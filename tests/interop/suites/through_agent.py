"""Runs the own tests of lock libraries that know one Redis against an agent, while its nodes are killed and restarted in turn.

usage: through_agent.py FOLDER, where parts has put what can be had of them on this machine

What a test cannot find at an agent stands in agent/SUITE.txt with the reason, as for the suites of nodes. The suites are
changed where they name a port or a database. Where a test waits for the end of a lock by a few milliseconds it
waits longer, since to others a lock lasts longer by the agent's allowance.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from agent import agent
from go_tests import copied, run_package
from redis_py import cases_of, pytest_cases, tests_of
from suite import HERE, Judge, replaced

SHIMS = os.path.join(HERE, "agent")
REDIS_PY_PARTS = ["lock", "asyncio/test_lock"]
# What a lock is made of. The rest is about a cache, which overwrites its keys, counts and is flushed.
DJANGO_TESTS = """test_add test_add_fail_on_pickleerror test_cache_versioning_add test_cache_versioning_delete test_close test_delete
    test_cache_versioning_has_key test_delete_nonexistent test_expiration test_get_or_set test_has_key test_in test_non_existent test_prefix
    test_simple test_touch""".split()
DJANGO_REDIS_TESTS = """test_lock test_lock_not_blocking test_lock_released_by_thread test_set_add test_setnx test_setnx_timeout
    test_timeout_tiny test_touch_missed_key test_touch_positive_timeout""".split()


def redis_py(agent, folder, version):
    judge = Judge("redis-py", "Python", version, "agent")
    for path in ["test_lock.py", "test_asyncio/test_lock.py"]:
        # A lock of 100 ms is over after 150 ms: to others it may last some 50 ms longer, and then its release is told so.
        replaced(f"{folder}/redis/tests/{path}", "sleep(0.15)", "sleep(0.5)", is_everywhere=True)
    for part in REDIS_PY_PARTS:
        judge.results(part, tests_of(python(folder), f"{folder}/redis", part, agent.port, "-p", "redis_py_on_agent"))
    judge.finish(REDIS_PY_PARTS)


def django(agent, folder, version):
    judge = Judge("Django", "Python", version, "agent")
    names = [f"cache.tests.RedisCacheTests.{name}" for name in DJANGO_TESTS]
    done = subprocess.run([python(folder), "runtests.py", "-v2", "--parallel=1", "--settings=django_on_agent", *names],
                          cwd=f"{folder}/django/tests", stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    output = done.stderr.decode(errors="replace")
    # A test with a description has its result on the line below.
    tests = re.findall(r"^(test_\w+) \(cache\.tests\.[^\n]*\)(?:\n[^\n]*)? \.\.\. (ok|FAIL|ERROR)", output, re.MULTILINE)
    reasons = dict(re.findall(r"^(?:ERROR|FAIL): (test_\w+) .*?\n([^\n]+)\n\n-*=*\n?", output, re.MULTILINE | re.DOTALL))
    judge.results("cache", [(name, result == "ok", reasons.get(name, "")) for name, result in tests])
    missing = set(DJANGO_TESTS) - {name for name, _ in tests}
    judge.result("cache", "all are run", not missing, f"{missing}: {output[-200:]}")
    judge.finish(["cache"])


def django_redis(agent, folder, version):
    judge = Judge("django-redis", "Python", version, "agent")
    shutil.copy(os.path.join(SHIMS, "django_redis_on_agent.py"), f"{folder}/django-redis/tests/settings/sqlite.py")
    paths = [f"tests/test_backend.py::TestDjangoRedisCache::{name}[sqlite]" for name in DJANGO_REDIS_TESTS]
    judge.results("locks and deadlines", pytest_cases(python(folder), f"{folder}/django-redis", paths))
    judge.finish(["locks and deadlines"])


def redislock(agent, folder, version):
    judge = Judge("redislock", "Go", version, "agent")
    with tempfile.TemporaryDirectory() as scratch:
        directory = copied(read(f"{folder}/redislock"), scratch)
        tests = os.path.join(directory, "redislock_test.go")
        replaced(tests, '"127.0.0.1:6379"', f'"127.0.0.1:{agent.port}"')
        replaced(tests, "DB:      9,", "DB:      0,")
        # A lock of 5 ms is over after 10 ms, twice, and one of 20 ms has to be got within 60 ms.
        replaced(tests, "time.Sleep(10 * time.Millisecond)", "time.Sleep(200 * time.Millisecond)", is_everywhere=True)
        replaced(tests, "LimitRetry(LinearBackoff(20*time.Millisecond), 3)", "LimitRetry(LinearBackoff(60*time.Millisecond), 5)", is_everywhere=True)
        example = os.path.join(directory, "example_test.go")
        replaced(example, "127.0.0.1:6379", f"127.0.0.1:{agent.port}", is_everywhere=True)
        # A lock of 100 ms is extended after 50 ms, and looked at when it is over.
        replaced(example, "100*time.Millisecond, nil", "500*time.Millisecond, nil", is_everywhere=True)
        replaced(example, "time.Sleep(100 * time.Millisecond)", "time.Sleep(800 * time.Millisecond)", is_everywhere=True)
        run_package(judge, directory, ".", [], dict(os.environ), "tests and examples")
    judge.finish(["tests and examples"])


def node_redlock(agent, folder, version):
    judge = Judge("node-redlock", "Node.js", version, "agent")
    tests = f"{folder}/redlock/node_modules/redlock/test.js"
    with open(tests, encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines(keepends=True)
    clients = [f"require('redis').createClient({agent.port})", f"require('redis').createClient({agent.port}, {{string_numbers: true}})",
               f"new (require('ioredis'))({agent.port})"]
    names = ["redis", "redis with string_numbers", "ioredis"]
    first = next(index for index, line in enumerate(lines) if line.startswith("test('single-server"))
    lines[first : first + 4] = [f"test('{name}.', [{client}]);\n" for name, client in zip(names, clients)]
    with open(tests, "w", encoding="utf-8") as file:
        file.write("".join(lines))
    replaced(tests, "retryDelay: 150,\n\t\tretryJitter: 50", "retryDelay: 250,\n\t\tretryJitter: 50", is_everywhere=True)
    # How long it waits for the end of a lock, and how long it has to extend one of 200 ms.
    replaced(tests, "four.expiration - Date.now() + 100", "four.expiration - Date.now() + 300", is_everywhere=True)
    replaced(tests, "Promise.delay(100)", "Promise.delay(20)", is_everywhere=True)
    # Where they want an error they put a set, which an agent refuses to do.
    agent.put_on_nodes("SADD", "Redlock:test:error", "having a set here should cause a failure")
    replaced(tests, "clients[i].sadd(error, 'having a set here should cause a failure', cb);", "clients[i].ping(cb);", is_everywhere=True)
    command = [f"{folder}/redlock/node_modules/.bin/mocha", "--exit", "--reporter", "json", tests]
    done = subprocess.run(command, cwd=f"{folder}/redlock", stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    output = done.stdout.decode(errors="replace")
    report = json.loads(output[output.index("{\n"):]) if "{\n" in output else {"tests": []}
    for name in names:
        title = f"Redlock: {name}. "
        judge.results(name, [
            (test["fullTitle"].removeprefix(title).replace(":", ","), not test["err"], test["err"].get("message", ""))
            for test in report["tests"] + [one for one in report["failures"] if "hook" in one["title"]]
            if test["fullTitle"].startswith(title)
        ])
    judge.finish(names)


def phpunit(source, path):
    with tempfile.NamedTemporaryFile() as report:
        command = ["phpunit", "--no-configuration", "--do-not-cache-result", "--bootstrap", os.path.join(SHIMS, "bootstrap.php")]
        subprocess.run([*command, "--log-junit", report.name, path], cwd=source, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        return [(name.rpartition(".")[2], passed, why) for name, passed, why in cases_of(report.name)]


def laravel(agent, folder, version):
    judge = Judge("Laravel", "PHP", version, "agent")
    groups = [("RedisCacheLockTest", "phpredis"), ("RedisCacheLockTest", "predis"), ("PhpRedisCacheLockTest", "phpredis")]
    for test, client in groups:
        os.environ["REDIS_CLIENT"] = client
        judge.results(f"{test} on {client}", phpunit(read(f"{folder}/laravel"), f"tests/Integration/Cache/{test}.php"))
    judge.finish([f"{test} on {client}" for test, client in groups])


def symfony(agent, folder, version):
    judge = Judge("Symfony", "PHP", version, "agent")
    os.environ["SUITE_SOURCE"] = os.path.join(read(f"{folder}/symfony"), "src/Symfony/Component/Lock/Tests")
    os.environ["REDIS_HOST"] = f"127.0.0.1:{agent.port}"
    groups = {f"{test}, without sorted sets": test for test in ("PredisStoreTest", "RedisStoreTest")}
    for group, test in groups.items():
        judge.results(group, phpunit(os.environ["SUITE_SOURCE"], f"Store/{test}.php"))
    judge.finish(groups)


def python(folder):
    return f"{folder}/python/bin/python"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


SUITES = {
    "redis": redis_py, "django": django, "django-redis": django_redis, "redislock": redislock, "redlock": node_redlock,
    "laravel": laravel, "symfony": symfony,
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder")
    arguments.add_argument("--only", choices=sorted(SUITES), help="one of them")
    arguments.add_argument("--whole", action="store_true", help="changes nothing: all of it is run in any case")
    options = arguments.parse_args()
    folder = os.path.abspath(options.folder)
    with agent() as one:
        os.environ["AGENT_PORT"] = str(one.port)
        os.environ["PYTHONPATH"] = SHIMS
        one.disturb()
        for name in SUITES:
            if options.only not in (None, name):
                continue
            print(f"-- {name}", flush=True)
            if os.path.exists(f"{folder}/{name}.version"):
                SUITES[name](one, folder, read(f"{folder}/{name}.version"))
            else:
                print(f"skip {name}'s tests through an agent: its sources are not on this machine", flush=True)
        # With redis-server as the peer there are none.
        if one.nodes and not options.only:
            each = one.nodes.kills >= len(one.nodes.ports) and not one.nodes.failure
            name = "agent-suites: each node was killed and restarted meanwhile"
            print(f"ok {name}" if each else f"FAIL {name}: {one.nodes.kills} kills; {one.nodes.failure}")
    print("done", flush=True)


if __name__ == "__main__":
    main()
