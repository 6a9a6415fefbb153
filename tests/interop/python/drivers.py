"""What drivers do beside locking: connecting with their defaults, RESP2 and RESP3, pipelines."""

import socket
import time
import urllib.parse

import redis

from report import between, equal

UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'


def connects_with_defaults(url):
    client = redis.Redis.from_url(url)
    equal(client.ping(), True)
    equal(client.echo("hello"), b"hello")


def speaks(url, protocol):
    client = redis.Redis.from_url(url, protocol=protocol, client_name="interop")
    client.delete("interop:hash")
    equal(client.hset("interop:hash", mapping={"a": "1"}), 1)
    equal(client.hgetall("interop:hash"), {b"a": b"1"})
    equal(client.get("interop:none"), None)
    equal(client.client_getname() in ("interop", b"interop"), True)
    client.delete("interop:hash")


def raw(url, request):
    """Sends bytes as they are, and returns what comes back within a moment."""
    parts = urllib.parse.urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), 2) as connection:
        connection.sendall(request)
        connection.settimeout(0.3)
        reply = b""
        try:
            while chunk := connection.recv(65536):
                reply += chunk
        except TimeoutError:
            pass
        return reply


def hello(url):
    map_reply = raw(url, b"HELLO 3\r\n")
    equal(map_reply[:1], b"%")
    flat_reply = raw(url, b"HELLO 2\r\n")
    equal(flat_reply[:1], b"*")
    for field in (b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"):
        equal((field in map_reply, field in flat_reply), (True, True))
    equal(b"standalone" in map_reply and b"master" in map_reply, True)
    equal(raw(url, b"HELLO 4\r\n")[:8], b"-NOPROTO")


def client_setinfo(url):
    client = redis.Redis.from_url(url)
    equal(client.execute_command("CLIENT", "SETINFO", "LIB-NAME", "interop"), b"OK")
    equal(client.execute_command("CLIENT", "SETINFO", "LIB-VER", "1.0"), b"OK")
    between(client.client_id(), 1, 2**62)


def sets_and_refuses(url):
    client = redis.Redis.from_url(url)
    client.delete("interop:lock")
    equal(client.set("interop:lock", "t1", nx=True, px=30_000), True)
    equal(client.set("interop:lock", "t2", nx=True, px=30_000), None)
    equal(client.get("interop:lock"), b"t1")
    between(client.pttl("interop:lock"), 1, 30_000)
    equal(client.set("interop:lock", "t3", xx=True, px=30_000, get=True), b"t1")
    client.delete("interop:lock")


def compares_and_deletes(url):
    client = redis.Redis.from_url(url)
    client.set("interop:lock", "t1", px=30_000)
    equal(client.eval(UNLOCK, 1, "interop:lock", "t2"), 0)
    equal(client.eval(UNLOCK, 1, "interop:lock", "t1"), 1)
    script = client.register_script(UNLOCK)
    client.script_flush()
    client.set("interop:lock", "t1", px=30_000)
    equal(script(keys=["interop:lock"], args=["t1"]), 1)
    digest = client.script_load(UNLOCK)
    equal(client.script_exists(digest, "0" * 40), [True, False])
    try:
        client.evalsha("0" * 40, 0)
    except redis.exceptions.NoScriptError:
        return
    raise AssertionError("an unknown script was run")


def pipelines(url):
    client = redis.Redis.from_url(url)
    pipe = client.pipeline(transaction=False)
    for number in range(500):
        pipe.set(f"interop:p{number}", number, px=30_000)
        pipe.get(f"interop:p{number}")
        pipe.delete(f"interop:p{number}")
    expected = [part for number in range(500) for part in (True, str(number).encode(), 1)]
    equal(pipe.execute(), expected)


def transacts(url, protocol):
    """The default pipeline is a transaction; its lock recipe watches a key."""
    client = redis.Redis.from_url(url, protocol=protocol)
    other = redis.Redis.from_url(url)
    client.delete("interop:a", "interop:b")
    pipe = client.pipeline()
    pipe.set("interop:a", "1", px=30_000).incr("interop:a").hset("interop:b", "f", "v").get("interop:a")
    equal(pipe.execute(), [True, 2, 1, b"2"])
    pipe = client.pipeline()
    pipe.set("interop:a", "9").execute_command("NOSUCHCOMMAND")
    try:
        pipe.execute()
    except redis.exceptions.ResponseError:
        equal(client.get("interop:a"), b"2")
    else:
        raise AssertionError("half of a transaction was executed")
    with client.pipeline() as pipe:
        pipe.watch("interop:a")
        before = int(pipe.get("interop:a"))
        other.set("interop:a", "5", px=30_000)
        pipe.multi()
        pipe.set("interop:a", before + 1)
        try:
            pipe.execute()
        except redis.exceptions.WatchError:
            equal(client.get("interop:a"), b"5")
        else:
            raise AssertionError("a watched key had changed")
    client.transaction(lambda pipe: pipe.multi() or pipe.incr("interop:a"), "interop:a")
    equal(client.get("interop:a"), b"6")
    client.delete("interop:a", "interop:b")


def databases(url):
    one = redis.Redis.from_url(url, db=1)
    nine = redis.Redis.from_url(url, db=9)
    one.set("interop:db", "one", px=30_000)
    equal(nine.get("interop:db"), None)
    one.delete("interop:db")


def reads_info(url):
    info = redis.Redis.from_url(url).info()
    for field in ("redis_version", "redis_mode", "role", "loading", "connected_clients",
                  "total_commands_processed", "used_memory", "uptime_in_seconds", "run_id"):
        equal((field, field in info), (field, True))
    equal((info["role"], info["loading"]), ("master", 0))


def knows_what_is_on_disk(url):
    client = redis.Redis.from_url(url)
    before = client.config_get("appendfsync")["appendfsync"]
    for mode in ("no", "everysec", "always", before):
        client.config_set("appendfsync", mode)
        equal(client.config_get("appendfsync"), {"appendfsync": mode})
        client.set("interop:durable", mode, px=30_000)
        equal(client.waitaof(1, 0, 5_000), [1, 0])
    client.delete("interop:durable")
    end = time.monotonic() + 20
    ask_for_rewrite(client, end)
    while client.info("persistence")["aof_rewrite_in_progress"] and time.monotonic() < end:
        time.sleep(0.01)
    equal(client.info("persistence")["aof_last_bgrewrite_status"], "ok")


def ask_for_rewrite(client, end):
    # The node may be at one of its own: four changes of the mode leave four nearly empty segments.
    while True:
        try:
            return client.bgrewriteaof()
        except redis.ResponseError as error:
            if "already in progress" not in str(error) or time.monotonic() >= end:
                raise
        time.sleep(0.01)


def splits_do_not_matter(url):
    parts = urllib.parse.urlsplit(url)
    request = b"*3\r\n$3\r\nSET\r\n$9\r\ninterop:x\r\n$2\r\n\r\n\r\n*2\r\n$3\r\nDEL\r\n$9\r\ninterop:x\r\n"
    with socket.create_connection((parts.hostname, parts.port), 2) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            connection.sendall(bytes([byte]))
        connection.settimeout(2)
        reply = b""
        while len(reply) < 9:
            reply += connection.recv(64)
        equal(reply, b"+OK\r\n:1\r\n")


def run(report, urls):
    url = urls[0]
    checks = [
        ("connects with its defaults", connects_with_defaults),
        ("HELLO", hello),
        ("CLIENT SETINFO and ID", client_setinfo),
        ("SET NX PX", sets_and_refuses),
        ("compare-and-delete by EVAL, EVALSHA, SCRIPT LOAD", compares_and_deletes),
        ("pipelining", pipelines),
        ("databases", databases),
        ("INFO", reads_info),
        ("WAITAOF, CONFIG SET appendfsync, BGREWRITEAOF", knows_what_is_on_disk),
        ("requests split at every byte", splits_do_not_matter),
    ]
    report.version("redis-py", "redis")
    version = redis.Redis.from_url(url).info()["redis_version"]
    for name, function in checks:
        if function in (client_setinfo, knows_what_is_on_disk) and tuple(map(int, version.split("."))) < (7, 2, 0):
            report.skip(f"redis-py: {name}", f"came with 7.2.0, the node is {version}")
            continue
        report.check(f"redis-py: {name}", function, url)
    for protocol in (2, 3):
        report.check(f"redis-py: hashes and names with RESP{protocol}", speaks, url, protocol)
        report.check(f"redis-py: transactions with RESP{protocol}", transacts, url, protocol)
