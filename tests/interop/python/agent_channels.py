"""redis-py's pubsub against two agents, while each node in turn is killed and restarted.

A listener of one agent gets each message that either of them publishes once, and those of a publisher in their order.
"""

import time

import redis

from report import equal

MESSAGES = 150


def received(pubsub, count, seconds=20):
    """So many messages, and one more if there is one."""
    found = []
    ends = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < ends:
        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.2)
        if message:
            found.append(message)
    extra = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.3)
    return found + [extra] if extra else found


def confirmed(pubsub, kind, names):
    """What was subscribed to, as the agent confirms it."""
    found = [pubsub.get_message(timeout=5) for _ in names]
    equal([(one["type"], one["channel"].decode()) for one in found], [(kind, name) for name in names])


def subscribes(urls, protocol):
    listener = redis.Redis.from_url(urls[0], protocol=protocol)
    publisher = redis.Redis.from_url(urls[1], protocol=protocol)
    with listener.pubsub() as pubsub:
        pubsub.subscribe("channels:a", "channels:b")
        confirmed(pubsub, "subscribe", ["channels:a", "channels:b"])
        pubsub.psubscribe("channels:p*")
        confirmed(pubsub, "psubscribe", ["channels:p*"])
        equal(listener.pubsub_numsub("channels:a"), [(b"channels:a", 1)])
        equal(publisher.publish("channels:a", "one"), 1)
        publisher.publish("channels:pat", "two")
        publisher.publish("channels:c", "for nobody")
        found = received(pubsub, 2)
        # Channels have an order each, and none among each other.
        equal(sorted((one["type"], one["data"]) for one in found), [("message", b"one"), ("pmessage", b"two")])
        pubsub.unsubscribe("channels:a")
        confirmed(pubsub, "unsubscribe", ["channels:a"])
        publisher.publish("channels:a", "three")
        publisher.publish("channels:b", "four")
        equal([one["data"] for one in received(pubsub, 1)], [b"four"])


def listens_while_nodes_are_killed(urls):
    listener = redis.Redis.from_url(urls[0])
    publishers = [redis.Redis.from_url(url) for url in urls]
    with listener.pubsub() as pubsub:
        pubsub.subscribe("channels:long")
        pubsub.psubscribe("channels:lo*", "other:*")
        for _ in range(3):
            pubsub.get_message(timeout=5)
        found = []
        for number in range(MESSAGES):
            for index, publisher in enumerate(publishers):
                publisher.publish("channels:long", f"{index}.{number}")
            found += received(pubsub, 4, 0.2)
        found += received(pubsub, 4 * MESSAGES - len(found), 5)
    for index in range(len(urls)):
        for kind in ("message", "pmessage"):
            data = [one["data"].decode() for one in found if one["type"] == kind]
            data = [one for one in data if one.startswith(f"{index}.")]
            equal(data, [f"{index}.{number}" for number in range(MESSAGES)])


def refuses_others(urls):
    client = redis.Redis.from_url(urls[0], protocol=2)
    pubsub = client.pubsub()
    pubsub.subscribe("channels:a")
    pubsub.get_message(timeout=5)
    connection = pubsub.connection
    connection.send_command("GET", "a")
    try:
        connection.read_response()
    except redis.exceptions.ResponseError as error:
        if "allowed in this context" not in str(error):
            raise
    else:
        raise AssertionError("GET is executed while the connection listens")
    pubsub.close()


def run(report, urls):
    client = "redis-py through an agent"
    report.version(client, "redis")
    report.check(f"{client}: channels and patterns with RESP2", subscribes, urls, 2)
    report.check(f"{client}: channels and patterns with RESP3", subscribes, urls, 3)
    report.check(f"{client}: each message once and in order", listens_while_nodes_are_killed, urls)
    report.check(f"{client}: nothing else on a connection that listens", refuses_others, urls)
