"""Locks in a table of PostgreSQL: exclusion, loss, fences, waiting, and a server that dies.

usage: postgresql.py PROGRAM. PostgreSQL's server and psql have to be installed. A server of its own for all checks.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import checked  # noqa: E402
from checked import BUSY, LOST, UNAVAILABLE, USAGE, compared  # noqa: E402
from servers import eventually, free_port  # noqa: E402

PASSWORD = "s3cr:/@t"
TABLE = "public.quorlock_locks"
NAME = "job"


def binary(name):
    found = shutil.which(name)
    return found or sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))[-1]


class Postgresql(checked.System):
    """A server with a role that owns its database, and one that owns nothing. It refuses to run as root."""

    called, compared_as, secrets = "PostgreSQL", "postgresql", (PASSWORD, "s3cr%3A")

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self.user:
            shutil.chown(folder, "postgres")
        self.port = free_port()
        self.data = os.path.join(folder, "data")
        self.as_server(binary("initdb"), "-D", self.data, "-U", "postgres", "--auth-local=trust",
                       "--auth-host=scram-sha-256", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n"
                       "max_connections = 200\nsynchronous_commit = off\n")
        self.begin()
        self.sql("CREATE ROLE locks LOGIN PASSWORD '" + PASSWORD + "'")
        self.sql("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        self.sql("CREATE DATABASE locks OWNER locks")
        self.address = f"postgresql://locks:s3cr%3A%2F%40t@127.0.0.1:{self.port}/locks"

    def as_server(self, *words):
        done = subprocess.run([*self.user, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}"

    def begin(self):
        log = os.path.join(self.folder, "log")
        self.as_server(binary("pg_ctl"), "-D", self.data, "-l", log, "-w", "-t", "30", "start")

    def die(self):
        """As after kill -9: it recovers when it starts again."""
        self.as_server(binary("pg_ctl"), "-D", self.data, "-m", "immediate", "-w", "stop")

    def stop(self):
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            self.die()

    def sql(self, text, database="postgres"):
        words = [binary("psql"), "-h", self.folder, "-p", str(self.port), "-U", "postgres", "-d", database, "-qAtX",
                 "-v", "ON_ERROR_STOP=1", "-c", text]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{text}: {done.stderr}"
        return done.stdout.strip()

    def row(self, column, name=NAME):
        return self.sql(f"SELECT {column} FROM {TABLE} WHERE name = '{name}'", "locks")

    def delete(self, name):
        self.sql(f"DELETE FROM {TABLE} WHERE name = '{name}'", "locks")

    def version(self):
        # 15.18 (Debian 15.18-0+deb12u1)
        return self.sql("SHOW server_version").split()[0]


def well(server):
    """A lock is one, is seen, is extended and is given back, and its row stays with its fence."""
    token, _ = server.ends(0, "acquire", NAME, "--ttl", "60s")
    server.ends(BUSY, "run", NAME, "-n", "--", "true")
    shown, _ = server.ends(0, "locks", "--json")
    assert f'"{NAME}"' in shown, shown
    shown, _ = server.ends(0, "who", NAME)
    assert "held" in shown, shown
    server.ends(0, "extend", NAME, token.strip(), "--ttl", "90s")
    left = float(server.row("extract(epoch FROM expires_at - clock_timestamp())"))
    assert 80 < left <= 90, left
    server.ends(BUSY, "acquire", NAME, "-n")
    server.ends(0, "release", NAME, token.strip())
    assert server.row("token IS NULL AND fence > 0") == "t"
    server.ends(0, "run", NAME, "-n", "--", "true")
    # Names are bytes, and may be hostile.
    server.ends(0, "run", "a'; DROP TABLE quorlock_locks; --\n\\", "-n", "--", "true")
    _, error = server.ends(UNAVAILABLE, "run", "x" * 3000, "-n", "--", "true")
    assert "at most 2048 bytes" in error, error
    # Of a table that is lost each name is free, and nothing else happens.
    assert server.sql(f"SELECT count(*) FROM {TABLE}", "locks") == "2"


def fences(server):
    """They rise with each holder, also where a lock expired, and where its row was deleted."""
    told = [server.fence() for _ in range(5)]
    server.ends(0, "acquire", NAME, "--ttl", "300ms")
    time.sleep(0.4)
    told.append(server.fence())
    server.sql(f"DELETE FROM {TABLE} WHERE name = '{NAME}'", "locks")
    told.append(server.fence())
    # The clock of the server is set back.
    server.sql(f"UPDATE {TABLE} SET fence = fence + 1000000000000 WHERE name = '{NAME}'", "locks")
    told.append(server.fence())
    told.append(server.fence())
    assert all(a < b for a, b in zip(told, told[1:])), told
    assert told[-1] == told[-2] + 1, told


def account(server):
    """The example whose account is in this database: a late write is refused with a fence, and loses an update without."""
    example = os.path.join(os.path.dirname(server.program), "examples", "fenced_account")
    if not os.path.exists(example):
        raise checked.Skipped("the examples are not beside the program")
    environment = {name: value for name, value in os.environ.items() if name != "QUORLOCK_NODES"}
    environment["ACCOUNT_DATABASE"] = server.address
    done = subprocess.run([example], env=environment, cwd=server.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    for line in [
        "without fences: 100 less 30 is 50, after a late write of 100 less 50",
        "second writes 70",
        "first is refused: somebody has come with a larger fence",
        "with fences: 100 less 30 is 70, after a late write of 100 less 50",
    ]:
        assert line in done.stdout.splitlines(), f"{line}: {done.stdout}"
    kept = server.sql("SELECT balance, fence > 1 FROM account", "locks")
    assert kept == "70|t", kept
    server.sql("DROP TABLE account", "locks")


def loss(server):
    """Whoever loses the row, or the server, is told before another one can have the lock."""
    for name, change in [
        ("deleted", f"DELETE FROM {TABLE} WHERE name = 'deleted'"),
        ("another", f"UPDATE {TABLE} SET token = 'x' WHERE name = 'another'"),
        ("released", f"UPDATE {TABLE} SET token = NULL WHERE name = 'released'"),
    ]:
        holder = server.command("run", name, "--ttl", "3s", "--", "sleep", "60")
        eventually("it is held", lambda: server.row("token IS NOT NULL", name) == "t")
        server.sql(change, "locks")
        if name == "another":
            begun = time.monotonic()
            _, error = holder.communicate(timeout=30)
            assert holder.returncode == LOST, f"{name}: {holder.returncode}: {error}"
            assert time.monotonic() - begun < 4, "it is told too late"
            continue
        # As on a node, nobody has it: another caller takes it, and the holder is told.
        token, _ = server.ends(0, "acquire", name, "--ttl", "60s", "-n")
        _, error = holder.communicate(timeout=30)
        assert holder.returncode == LOST, f"{name}: {holder.returncode}: {error}"
        server.ends(0, "release", name, token.strip())


def killed(server):
    """A server that comes back within the lease costs nothing, and one that does not ends the work in time."""
    kept = server.command("run", "kept", "--ttl", "12s", "--", "sleep", "9")
    ended = server.command("run", "ended", "--ttl", "2s", "--", "sleep", "60")
    for name in ("kept", "ended"):
        eventually("it is held", lambda: server.row("token IS NOT NULL", name) == "t")
    token, _ = server.ends(0, "acquire", "before", "--ttl", "60s")
    fence = int(server.row("fence", "before"))
    server.die()
    begun = time.monotonic()
    _, error = ended.communicate(timeout=30)
    assert ended.returncode == LOST and time.monotonic() - begun < 2.5, f"{ended.returncode}: {error}"
    _, error = server.ends(UNAVAILABLE, "run", "any", "-n", "--", "true")
    server.begin()
    # What was granted is on the disk, although the server's setting is to acknowledge before.
    assert int(server.row("fence", "before")) == fence
    server.ends(BUSY, "run", "before", "-n", "--", "true")
    server.ends(BUSY, "run", "kept", "-n", "--", "true")
    server.ends(0, "release", "before", token.strip())
    _, error = kept.communicate(timeout=30)
    assert kept.returncode == 0, f"{kept.returncode}: {error}"


def midway(server):
    """Connections that the server ends at any moment cost time, and no lock twice."""
    folder = tempfile.mkdtemp(dir=server.folder)
    path = os.path.join(folder, "log")
    words = ["run", "torn", "--fence", "--ttl", "10s", "--wait", "60s", "--", "sh", "-c",
             f"echo in $QUORLOCK_FENCE >> {path}; sleep 0.05; echo out $QUORLOCK_FENCE >> {path}"]
    commands = [server.command(*words) for _ in range(16)]
    is_over = threading.Event()

    def end_connections():
        while not is_over.wait(0.15):
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quorlock'")

    thread = threading.Thread(target=end_connections)
    thread.start()
    try:
        codes = []
        for command in commands:
            command.communicate(timeout=120)
            codes.append(command.returncode)
    finally:
        is_over.set()
        thread.join()
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    assert set(codes) <= {0, BUSY, UNAVAILABLE}, codes
    assert lines and len(lines) == 2 * codes.count(0), f"{codes}: {lines}"
    held = [int(fence) for what, fence in lines if what == "in"]
    assert all(a[1] == b[1] and (a[0], b[0]) == ("in", "out") for a, b in zip(lines[::2], lines[1::2])), lines
    assert all(a < b for a, b in zip(held, held[1:])), held


def refused(server):
    """What cannot work is said, with what to do."""
    def error(code, *words, address=None):
        return server.ends(code, *words, address=address)[1]
    run = ["run", NAME, "-n", "--", "true"]
    wrong = f"postgresql://locks:wrong@127.0.0.1:{server.port}/locks"
    assert "password authentication failed" in error(UNAVAILABLE, *run, address=wrong)
    guest = f"postgresql://guest:guest@127.0.0.1:{server.port}/locks"
    said = error(UNAVAILABLE, *run, address=guest)
    assert f'GRANT SELECT, INSERT, UPDATE ON "public".quorlock_locks' in said, said
    elsewhere = f"postgresql://guest:guest@127.0.0.1:{server.port}/postgres"
    said = error(UNAVAILABLE, *run, address=elsewhere)
    assert "CREATE TABLE IF NOT EXISTS" in said, said
    missing = f"postgresql://locks:s3cr%3A%2F%40t@127.0.0.1:{server.port}/other"
    assert "does not exist" in error(UNAVAILABLE, *run, address=missing)
    tls = server.address + "?sslmode=require"
    assert "TLS" in error(UNAVAILABLE, *run, address=tls)
    beside = server.address + ",redis://127.0.0.1:1"
    assert "list it alone" in error(USAGE, *run, address=beside)
    columns = "name bytea PRIMARY KEY, token bytea, fence bigint NOT NULL, expires_at timestamptz, owner bytea"
    server.sql(f"CREATE SCHEMA lost AUTHORIZATION locks; CREATE UNLOGGED TABLE lost.quorlock_locks ({columns})", "locks")
    assert "unlogged" in error(UNAVAILABLE, *run, address=server.address + "?schema=lost")
    for number, (right, wrong) in enumerate([("timestamptz", "timestamp"), ("bigint NOT NULL", "numeric NOT NULL"), (" NOT NULL", "")]):
        server.sql(f"CREATE SCHEMA odd{number}; GRANT USAGE ON SCHEMA odd{number} TO locks; "
                   f"CREATE TABLE odd{number}.quorlock_locks ({columns.replace(right, wrong)})", "locks")
        said = error(UNAVAILABLE, *run, address=f"{server.address}?schema=odd{number}")
        assert "is not the table that locks are kept in" in said, said
    # Who only looks may, and `doctor` says what is missing to take locks.
    server.sql("GRANT SELECT ON public.quorlock_locks TO guest", "locks")
    server.ends(0, "locks", address=guest)
    told, _ = server.ends(1, "doctor", address=guest)
    assert "lacks the rights INSERT, UPDATE on" in told and "GRANT SELECT, INSERT, UPDATE" in told, told
    # A right on one column is none, and one on all columns that are written is enough.
    server.sql("GRANT INSERT (name), UPDATE (token) ON public.quorlock_locks TO guest", "locks")
    told, _ = server.ends(1, "doctor", address=guest)
    assert "lacks the rights INSERT, UPDATE on" in told, told
    server.sql("GRANT INSERT (name, token, fence, expires_at, owner), UPDATE (token, fence, expires_at, owner) "
               "ON public.quorlock_locks TO guest", "locks")
    server.ends(0, *run, address=guest)
    assert "lacks the rights" not in server.ends(1, "doctor", address=guest)[0]
    server.sql("GRANT SELECT, INSERT, UPDATE ON public.quorlock_locks TO guest", "locks")
    assert "lacks the rights" not in server.ends(1, "doctor", address=guest)[0]
    server.ends(0, *run, address=guest)
    socket = f"postgresql://postgres@/locks?host={server.folder}&port={server.port}"
    server.ends(0, *run, address=socket)
    assert "no locks for readers" in error(UNAVAILABLE, "run", NAME, "--shared", "-n", "--", "true")


def many(server):
    """A list goes on behind the rows that are read at once, and is whole."""
    server.sql(f"INSERT INTO {TABLE} SELECT convert_to('many:' || lpad(n::text, 6, '0'), 'UTF8'), 'x', 1, "
               "clock_timestamp() + interval '1 hour' FROM generate_series(1, 12000) AS n", "locks")
    try:
        told, _ = server.ends(0, "locks", "many:0119*", "--json")
        listed = json.loads(told.splitlines()[-1])
        assert listed["complete"] and listed["locks"] == 100, listed
    finally:
        server.sql(f"DELETE FROM {TABLE} WHERE name LIKE 'many:%'::bytea", "locks")


def hijacked(server):
    """What others have put into the schemas of the session decides nothing."""
    server.sql("CREATE FUNCTION public.nothing(bigint, interval) RETURNS interval LANGUAGE sql AS $$ SELECT interval '0' $$; "
               "CREATE OPERATOR public.* (FUNCTION = public.nothing, LEFTARG = bigint, RIGHTARG = interval)", "locks")
    assert server.sql("SELECT 5::bigint * interval '1 s' = interval '0'", "locks") == "t", "the server uses it"
    token, _ = server.ends(0, "acquire", "own", "--ttl", "60s", "-n")
    server.ends(BUSY, "run", "own", "-n", "--", "true")
    server.ends(0, "release", "own", token.strip())
    server.sql("DROP OPERATOR public.* (bigint, interval)", "locks")


def unreplicated(server):
    """A commit for whose standby the server waits no longer is no grant."""
    set_to = "ALTER SYSTEM SET synchronous_standby_names = "
    server.sql(set_to + "'nobody'")
    server.sql("SELECT pg_reload_conf()")
    command = server.command("acquire", "alone", "--ttl", "60s", "--wait", "5s")
    cancelled = 0
    while command.poll() is None:
        cancelled += server.sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
        time.sleep(0.02)
    out, error = command.communicate()
    server.sql(set_to + "''")
    server.sql("SELECT pg_reload_conf()")
    assert cancelled > 0, "no commit waited for the standby"
    assert command.returncode in (BUSY, UNAVAILABLE) and not out, f"{command.returncode}: {out}{error}"


def shown(server):
    """What operators see, and an election."""
    told, _ = server.ends(0, "status")
    assert "postgresql" in told and "serving" in told, told
    told, _ = server.ends(1, "doctor")
    assert "one node is listed" in told and "clients with different lists" not in told, told
    observer = server.command("elect", "--listen", "lead")
    leader = server.command("elect", "lead", "first", "--ttl", "3s")
    # Where the leader is elected before the observer asks, the observer never sees the lock free.
    is_seen = any("first" in line for line in observer.stdout)
    for command in (observer, leader):
        command.kill()
        command.communicate()
    assert is_seen, "the observer ends without a leader"


def encrypted(server):
    """TLS with a certificate that is checked, and a server that has none refuses."""
    command, certificate, _ = checked.self_signed(server.data)
    server.as_server(*command)
    server.sql("ALTER SYSTEM SET ssl = on")
    server.sql("SELECT pg_reload_conf()")
    run = ["run", "secret", "-n", "--", "true"]
    address = server.address + "?sslmode=require"
    _, error = server.ends(UNAVAILABLE, *run, address=address)
    assert "no authority" in error, error
    time.sleep(0.5)
    server.ends(0, *run[:1], "--cacert", certificate, *run[1:], address=address)
    server.ends(0, *run[:1], "--tls", "--cacert", certificate, *run[1:])
    encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'quorlock'"
    holder = server.command("run", "held", "--cacert", certificate, "--", "sleep", "5", address=address)
    eventually("the connection is encrypted", lambda: server.sql(encrypted) == "1")
    holder.kill()
    holder.communicate()
    compared(server, address, "--cacert", certificate)


def pooled(server):
    """PgBouncer with sessions works as the server does. With transactions fewer connections than callers are enough, and who waits asks again."""
    if not shutil.which("pgbouncer"):
        raise checked.Skipped("PgBouncer is not on this machine")
    port = free_port()
    behind = server.address.replace(f":{server.port}/", f":{port}/")
    for mode in ("session", "transaction"):
        files = {name: os.path.join(server.folder, f"{mode}.{name}") for name in ("ini", "users", "log")}
        with open(files["users"], "w", encoding="utf-8") as file:
            file.write(f'"locks" "{PASSWORD}"\n')
        with open(files["ini"], "w", encoding="utf-8") as file:
            file.write(f"[databases]\nlocks = host={server.folder} port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
                       f"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {files['users']}\npool_mode = {mode}\n"
                       f"default_pool_size = {40 if mode == 'session' else 3}\nlogfile = {files['log']}\n")
        pooler = subprocess.Popen([*server.user, "pgbouncer", "-q", files["ini"]], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually("PgBouncer listens", lambda: os.path.exists(files["log"]) and "listening on" in open(files["log"], encoding="utf-8").read())
            there = Behind(server, behind)
            checked.exclusion(there, 12)
            checked.through_an_agent(there)
            if mode == "session":
                checked.waiting(there)
            else:
                token, _ = there.ends(0, "acquire", "turn", "--ttl", "60s")
                waiter = there.command("run", "turn", "--wait", "60s", "--", "true")
                checked.says(waiter, "turn")
                there.ends(0, "release", "turn", token.strip())
                _, error = waiter.communicate(timeout=70)
                assert waiter.returncode == 0, error
            # Both ways lead to the same locks.
            token, _ = there.ends(0, "acquire", "both", "--ttl", "60s")
            server.ends(BUSY, "run", "both", "-n", "--", "true")
            server.ends(0, "release", "both", token.strip())
        finally:
            pooler.terminate()
            pooler.wait()


class Behind(checked.System):
    """The same server under another address."""

    secrets = Postgresql.secrets

    def __init__(self, server, address):
        super().__init__(server.program, server.folder)
        self.address = address


def followed(server):
    """A standby takes no locks. A synchronous one that is promoted has them all, and fences go on."""
    copy = os.path.join(server.folder, "copy")
    port = free_port()
    server.as_server(binary("pg_basebackup"), "-h", server.folder, "-p", str(server.port), "-U", "postgres", "-D", copy,
                     "-R", "-X", "stream", "-c", "fast", "-d", "application_name=copy")
    with open(os.path.join(copy, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write(f"port = {port}\n")
    ctl = [binary("pg_ctl"), "-D", copy, "-w"]
    server.as_server(*ctl, "-l", os.path.join(server.folder, "copy-log"), "start")
    try:
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'copy'")
        server.sql("SELECT pg_reload_conf()")
        in_step = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        eventually("the standby is synchronous", lambda: server.sql(in_step) == "1")
        there = server.address.replace(f":{server.port}/", f":{port}/")
        _, error = server.ends(UNAVAILABLE, "run", "any", "-n", "--", "true", address=there)
        assert "is a standby" in error, error
        before = server.fence("followed")
        token, _ = server.ends(0, "acquire", "followed", "--ttl", "60s")
        server.die()
        server.as_server(*ctl, "promote")
        server.ends(BUSY, "run", "followed", "-n", "--", "true", address=there)
        server.ends(0, "release", "followed", token.strip(), address=there)
        out, _ = server.ends(0, "run", "followed", "--fence", "--", "sh", "-c", "echo $QUORLOCK_FENCE", address=there)
        assert int(out) > before + 1, f"{out} after {before}"
    finally:
        server.as_server(binary("pg_ctl"), "-D", copy, "-m", "immediate", "-w", "stop")
    # The last check: this server is not started again.


CHECKS = [
    ("taken, seen and given back", well),
    *checked.EVERYWHERE,
    ("fences only rise", fences),
    ("a late write is refused", account),
    ("a loss is told", loss),
    ("a server that dies", killed),
    ("connections that break", midway),
    ("what cannot work", refused),
    ("more rows than are read at once", many),
    ("operators of others", hijacked),
    ("a standby that is away", unreplicated),
    ("what operators see", shown),
    ("over TLS", encrypted),
    ("behind PgBouncer", pooled),
    ("a standby that follows", followed),
]


if __name__ == "__main__":
    checked.main(Postgresql, CHECKS)
