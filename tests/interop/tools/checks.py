"""redis-cli, redis-benchmark and the exporter for Prometheus, as people run them, on one node."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.parse
import urllib.request

from report import Report, between, equal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import free_port  # noqa: E402

KEYS = 500
# What redis-benchmark sends if it is not told what.
BENCHMARKS = [
    "PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "SADD", "HSET", "SPOP",
    "ZADD", "ZPOPMIN", "LPUSH (needed to benchmark LRANGE)", "LRANGE_100 (first 100 elements)",
    "LRANGE_300 (first 300 elements)", "LRANGE_500 (first 500 elements)", "LRANGE_600 (first 600 elements)",
    "MSET (10 keys)",
]


class Tools:
    """Programs with one node's address."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.url = url
        self.address = ["-h", parts.hostname, "-p", str(parts.port)]

    def cli(self, *arguments, given=None, timeout=30):
        done = subprocess.run(
            ["redis-cli", *self.address, *arguments], input=given, capture_output=True, text=True, timeout=timeout
        )
        equal((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def fill(self):
        """Keys of every size, which the tools that look at all keys find."""
        self.cli("flushall")
        lines = [f"SET interop:tool:{number} {'x' * (number + 1)} PX 60000" for number in range(KEYS)]
        lines.append("HSET interop:tool:hash " + " ".join(f"f{number} v" for number in range(20)))
        equal(self.cli("--pipe", given="\n".join(lines) + "\n").splitlines()[-1], f"errors: 0, replies: {KEYS + 1}")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command):
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.environ["TERM"] = "xterm"
            os.environ["HOME"] = tempfile.gettempdir()
            os.execvp(command[0], command)
        # A terminal without a size is asked for it.
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.shown = ""

    def type(self, text):
        os.write(self.file, text.encode())

    def see(self, pattern, seconds=10):
        """Waits until the pattern is shown, and forgets what was shown before."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.shown, re.DOTALL)):
            ready, _, _ = select.select([self.file], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{pattern!r} is not shown, but {self.shown[-300:]!r}")
            try:
                self.shown += os.read(self.file, 65536).decode("utf-8", "replace")
            except OSError as error:
                raise AssertionError(f"it ended, and showed {self.shown[-300:]!r}") from error
        self.shown = self.shown[found.end() :]

    def end(self):
        os.close(self.file)
        os.waitpid(self.process, 0)


def talks(tools):
    """The prompt, help, an error, RESP3, a database, a subscription. What is typed before the prompt is lost."""
    terminal = Terminal(["redis-cli", *tools.address])
    try:
        terminal.see(r":\d+> ")
        terminal.type("set interop:tool:cli 1 px 60000\r")
        terminal.see(r"OK\r?\n.*\d> ")
        terminal.type("help get\r")
        terminal.see(r"GET.*summary.*since.*\d> ")
        terminal.type("incr interop:tool:cli\r")
        terminal.see(r"\(integer\) 2.*\d> ")
        terminal.type("nosuchcommand\r")
        terminal.see(r"\(error\) ERR unknown command.*\d> ")
        terminal.type("hello 3\r")
        terminal.see(r"modules.*\d> ")
        terminal.type("select 1\r")
        terminal.see(r"\[1\]> ")
        terminal.type("subscribe interop:tool:channel\r")
        # In quotes: the reply, and not what was typed.
        terminal.see('"subscribe".*"interop:tool:channel"')
        equal(tools.cli("publish", "interop:tool:channel", "hello"), "1\n")
        terminal.see("hello")
    finally:
        terminal.end()


def hints(tools):
    """What a command wants is shown while one types; redis-cli has it from COMMAND DOCS."""
    terminal = Terminal(["redis-cli", *tools.address])
    try:
        terminal.see(r":\d+> ")
        terminal.type("set ")
        terminal.see("key value")
        terminal.type("a ")
        terminal.see(r"value .*EX seconds")
        # CTRL-U takes away what was typed.
        terminal.type("\x15lmove a ")
        terminal.see(r"destination LEFT\|RIGHT LEFT\|RIGHT")
        terminal.type("\x15client tracking on ")
        terminal.see(r"\[PREFIX prefix \[PREFIX prefix \.\.\.\]\]")
    finally:
        terminal.end()


def answers(tools):
    """Without a terminal: RESP3, CSV, JSON, scripts from files, a value from standard input."""
    tools.cli("-x", "set", "interop:tool:x", given="from outside")
    equal(tools.cli("get", "interop:tool:x"), "from outside\n")
    equal(tools.cli("--csv", "hmget", "interop:tool:none", "a", "b"), "NULL,NULL\n")
    equal(tools.cli("-3", "--json", "config", "get", "databases"), '{"databases":"16"}\n')
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("return {redis.call('del', KEYS[1]), ARGV[1]}")
        script.flush()
        equal(tools.cli("--eval", script.name, "interop:tool:x", ",", "hello"), "1\nhello\n")
    equal(tools.cli("-r", "3", "-i", "0", "ping"), "PONG\n" * 3)


def scans(tools):
    tools.fill()
    found = tools.cli("--scan", "--pattern", "interop:tool:[0-9]*").split()
    equal((len(found), len(set(found))), (KEYS, KEYS))


def watches(tools):
    """--stat goes on until it is stopped; every line is read from INFO."""
    tools.fill()
    command = ["stdbuf", "-oL", "redis-cli", *tools.address, "--stat", "-i", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stat:
        shown = [stat.stdout.readline() for _ in range(6)]
        stat.kill()
    equal("keys" in shown[1] and "clients" in shown[1], True)
    keys, memory, clients = shown[-1].split()[:3]
    between(int(keys), KEYS, 10**9)
    equal(bool(re.fullmatch(r"[\d.]+[BKMG]", memory)), True)
    between(int(clients), 1, 10**6)


def measures(tools):
    """Where there is no terminal it prints one line after a second: minimum, maximum, mean, samples."""
    low, high, mean, samples = map(float, tools.cli("--latency").split()[:4])
    equal(low <= mean <= high, True)
    between(samples, 10, 10**6)


def finds_big_keys(tools):
    tools.fill()
    shown = tools.cli("--bigkeys")
    equal(bool(re.search(r'Biggest\s+hash found .*interop:tool:hash.* has \d+ fields', shown)), True)
    equal(bool(re.search(r'Biggest string found ', shown)), True)
    shown = tools.cli("--memkeys")
    equal(bool(re.search(r'Biggest\s+hash found .*interop:tool:hash.* has \d+ bytes', shown)), True)


def benchmark(tools, *arguments):
    """The names of the tests that ran, and what else was said."""
    done = subprocess.run(
        ["redis-benchmark", *tools.address, "-n", "2000", "-q", *arguments],
        capture_output=True, text=True, timeout=120,
    )
    lines = re.split(r"[\r\n]+", done.stdout)
    rates = [re.fullmatch(r"(.+): ([\d.]+) requests per second.*", line) for line in lines]
    said = [line for line in lines + done.stderr.splitlines() if re.search("error|ERR|WARN", line)]
    return [rate[1] for rate in rates if rate and float(rate[2]) > 0], said


def is_benchmarked(tools):
    equal(benchmark(tools), (BENCHMARKS, []))


def is_benchmarked_otherwise(tools):
    """Pipelines, random keys, threads, RESP3, and a command of one's own."""
    equal(benchmark(tools, "-t", "set,get,incr,mset", "-P", "16", "-r", "1000", "-3")[1], [])
    equal(benchmark(tools, "-t", "ping,set,get,incr,hset,mset", "--threads", "2"),
          (["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "MSET (10 keys)"], []))
    names, said = benchmark(tools, "set", "key:__rand_int__", "v", "px", "1000", "nx")
    equal((len(names), said), (1, []))


def exported(tools):
    """All series of Redis that an exporter shows."""
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus-redis-exporter", "-redis.addr", tools.url, "-web.listen-address", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as exporter:
        try:
            text = scraped(f"http://{address}/metrics")
        finally:
            exporter.kill()
    return dict(re.findall(r"^(redis_[^ ]+) ([^ \n]+)$", text, re.MULTILINE))


def is_exported(tools):
    """What the exporter makes of INFO, CONFIG, SLOWLOG and LATENCY, and whether it had to complain."""
    tools.fill()
    series = exported(tools)
    equal((series["redis_up"], series["redis_exporter_last_scrape_error{err=\"\"}"]), ("1", "0"))
    for name in ("redis_uptime_in_seconds", "redis_connected_clients", "redis_memory_used_bytes",
                 "redis_commands_processed_total", "redis_keyspace_hits_total", "redis_expired_keys_total",
                 "redis_net_input_bytes_total", "redis_connected_slaves", "redis_blocked_clients",
                 "redis_config_maxclients"):
        equal((name, name in series), (name, True))
    between(float(series['redis_db_keys{db="db0"}']), KEYS, 10**9)
    between(float(series['redis_db_keys_expiring{db="db0"}']), KEYS, 10**9)


def exports_commands(tools):
    """Calls and time of each command, which dashboards show."""
    tools.fill()
    series = exported(tools)
    between(float(series['redis_commands_total{cmd="set"}']), KEYS, 10**12)
    between(float(series['redis_commands_duration_seconds_total{cmd="set"}']), 0, 10**6)


def scraped(url):
    end = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as page:
                return page.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def version(report, name, *command):
    said = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"(\d+\.\d+\.\d+)", said.stdout + said.stderr)
    print(f"version {name} tool {found[1]}", flush=True)


def main():
    report = Report()
    tools = Tools(os.environ["QUORLOCK_NODES"].split(",")[0])
    version(report, "redis-cli", "redis-cli", "--version")
    report.check("redis-cli: interactive, help, channels", talks, tools)
    report.check("redis-cli: hints while one types", hints, tools)
    report.check("redis-cli: --csv, --json, --eval, -3, -r, -x", answers, tools)
    report.check("redis-cli: --pipe and --scan", scans, tools)
    report.check("redis-cli: --stat", watches, tools)
    report.check("redis-cli: --latency", measures, tools)
    report.check("redis-cli: --bigkeys and --memkeys", finds_big_keys, tools)
    version(report, "redis-benchmark", "redis-benchmark", "--version")
    report.check("redis-benchmark: its default tests", is_benchmarked, tools)
    report.check("redis-benchmark: pipelines, threads, RESP3, random keys", is_benchmarked_otherwise, tools)
    if shutil.which("prometheus-redis-exporter"):
        version(report, "redis_exporter", "prometheus-redis-exporter", "-version")
        report.check("redis_exporter: its metrics, without an error", is_exported, tools)
        report.check("redis_exporter: calls of each command", exports_commands, tools)
    else:
        report.skip("redis_exporter", "it is not on this machine")
    report.finish()


if __name__ == "__main__":
    main()
