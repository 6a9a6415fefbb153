"""Prints the input of `promtool test rules`: what each alert fires on, and that all are quiet on a cluster that is well.

    alerts.py RULES PAGES            the cases below
    alerts.py RULES PAGES FAILURE    a node or an agent that has failed, as its page says it

Each case is a cluster of five nodes and an agent that are well but for what the case names, sampled every 15 s for an hour and more.
Names and labels are those of the pages that real nodes and agents have answered, which are files in the folder PAGES.
"""

import re
import sys
from pathlib import Path

import recorded

NODES = [f"lock{number}" for number in range(1, 6)]
SAMPLES = 300
# Between two samples.
SECONDS = 15

# What a node that is well says of itself, where a case is about it. All else is as on its page.
WELL = {
    "quorlock_serving": "1x{n}",
    "quorlock_incarnation": "3x{n}",
    "quorlock_log_full": "0x{n}",
    "quorlock_log_wait_seconds": "0x{n}",
    "quorlock_last_stop_info": "1x{n}",
    "quorlock_sync_duration_seconds_sum": "0+0.1x{n}",
    "quorlock_sync_duration_seconds_count": "0+15x{n}",
    "redis_rejected_connections_total": "0x{n}",
    "redis_connected_clients": "100x{n}",
    "redis_config_maxclients": "10000x{n}",
    "redis_db_keys": "40x{n}",
    "redis_db_keys_expiring": "40x{n}",
    "quorlock_lock_ends_total": "0x{n}",
    "quorlock_node_info": "1x{n}",
    "quorlock_tls_certificate_expiry_timestamp_seconds": "9000000x{n}",
}
# Of a metric with several series, those that are meant.
MEANT = {
    "redis_db_keys": {"db": "db0"},
    "redis_db_keys_expiring": {"db": "db0"},
    "quorlock_lock_ends_total": {"pattern": "job:*", "how": "expired"},
}

# Severity and summary of each alert, with the instance, if it is about one, and the value.
ALERTS = {
    "QuorlockNoMajority": ("critical", "quorlock: too few nodes serve, no lock can be taken or extended"),
    "QuorlockNoNodeToSpare": ("critical", "quorlock: {value} nodes serve, with one more away no lock can be taken"),
    "QuorlockNodeDown": ("warning", "{instance} of quorlock does not answer"),
    "QuorlockNodeNotServing": ("warning", "{instance} of quorlock runs and has granted no lock for 5 minutes"),
    "QuorlockNodeRestarts": ("warning", "{instance} of quorlock was restarted {value} times within an hour"),
    "QuorlockNodeDied": ("warning", "{instance} of quorlock has died within the last hour, and was started again"),
    "QuorlockLogFull": ("critical", "{instance} of quorlock has no room for its log: it releases locks and grants none"),
    "QuorlockSyncHangs": ("critical", "{instance} of quorlock: the disk has not done a sync or a write of the log for {value}"),
    "QuorlockSyncSlow": ("warning", "{instance} of quorlock: a sync of the log takes {value}"),
    "QuorlockClientsRefused": ("warning", "{instance} of quorlock has refused connections: maxclients is reached"),
    "QuorlockClientsNearlyAll": ("warning", "{instance} of quorlock has {value} of its clients"),
    "QuorlockMemoryNearlyFull": (
        "warning",
        "{instance} of quorlock: keys take {value} of maxmemory, beyond which no lock is taken",
    ),
    "QuorlockLocksWithoutEnd": ("info", "{instance} of quorlock has {value} keys that never end"),
    "QuorlockLocksExpire": (
        "info",
        "{instance} of quorlock: {value} locks of the class 'job:*' have ended without a release within an hour",
    ),
    "QuorlockCertificateEnds": (
        "warning",
        "{instance} of quorlock: its certificate ends in {value}, and from then on clients that check it refuse this node",
    ),
    "QuorlockNodesDiffer": ("info", "quorlock: nodes have 2 different versions or fsync modes"),
    "QuorlockAgentWithoutMajority": ("critical", "{instance}: too few nodes can vote for this agent, its programs get no locks"),
}
# The values of the cases, where a failure that was recorded has no other.
VALUES = {
    "QuorlockNoNodeToSpare": "3",
    "QuorlockNodeRestarts": "4",
    "QuorlockSyncHangs": "45s",
    "QuorlockSyncSlow": "500ms",
    "QuorlockClientsNearlyAll": "95%",
    "QuorlockMemoryNearlyFull": "92%",
    "QuorlockLocksWithoutEnd": "2",
    "QuorlockLocksExpire": "20",
    "QuorlockCertificateEnds": "13d 23h 58m 0s",
}
# It fires by what Prometheus itself says, and no page has that.
WITHOUT_PAGE = {"QuorlockNodeDown"}

TWO_AWAY = {("up", "lock2"): "0x{n}", ("quorlock_serving", "lock2"): None, ("quorlock_serving", "lock3"): "0x{n}"}
ALL_DOWN = {(name, node): value for node in NODES for name, value in (("up", "0x{n}"), ("quorlock_serving", None))}

# What is wrong, and then for each alert and time the instances that it fires for; "" where it is about none.
CASES = [
    ({}, [(name, "50m", []) for name in ALERTS]),
    (
        {("up", "lock2"): "1x4 0x{n}", ("quorlock_serving", "lock2"): "1x4 _x{n}"},
        [
            ("QuorlockNodeDown", "90s", []),
            ("QuorlockNodeDown", "5m", ["lock2"]),
            ("QuorlockNoNodeToSpare", "20m", []),
            ("QuorlockNoMajority", "20m", []),
        ],
    ),
    (
        TWO_AWAY,
        [
            ("QuorlockNoNodeToSpare", "1m", []),
            ("QuorlockNoNodeToSpare", "5m", [""]),
            ("QuorlockNoMajority", "5m", []),
            ("QuorlockNodeNotServing", "4m", []),
            ("QuorlockNodeNotServing", "6m", ["lock3"]),
        ],
    ),
    (
        {**TWO_AWAY, ("quorlock_serving", "lock4"): "0x{n}"},
        [("QuorlockNoMajority", "1m", [""]), ("QuorlockNoNodeToSpare", "5m", [])],
    ),
    (ALL_DOWN, [("QuorlockNoMajority", "1m", [""])]),
    (
        {("quorlock_incarnation", "lock1"): "3x40 4x40 5x40 6x40 7x{n}"},
        [("QuorlockNodeRestarts", "20m", []), ("QuorlockNodeRestarts", "50m", ["lock1"]), ("QuorlockNodeDied", "50m", [])],
    ),
    (
        {("quorlock_incarnation", "lock1"): "3x40 4x{n}", ("quorlock_last_stop_info", "lock1"): {"clean": "no"}},
        [
            ("QuorlockNodeDied", "9m", []),
            ("QuorlockNodeDied", "11m", ["lock1"]),
            # An hour later nothing is to be done.
            ("QuorlockNodeDied", "72m", []),
            ("QuorlockNodeRestarts", "11m", []),
        ],
    ),
    (
        {("quorlock_log_full", "lock2"): "0x4 1x{n}"},
        [("QuorlockLogFull", "45s", []), ("QuorlockLogFull", "2m", ["lock2"])],
    ),
    (
        {
            ("quorlock_log_wait_seconds", "lock1"): "0.5x10 15x2 45x{n}",
            ("quorlock_sync_duration_seconds_sum", "lock2"): "0+0.5x{n}",
            ("quorlock_sync_duration_seconds_count", "lock2"): "0+1x{n}",
        },
        [
            ("QuorlockSyncHangs", "3m15s", []),
            ("QuorlockSyncHangs", "10m", ["lock1"]),
            ("QuorlockSyncSlow", "4m", []),
            ("QuorlockSyncSlow", "15m", ["lock2"]),
        ],
    ),
    (
        {
            ("redis_rejected_connections_total", "lock1"): "0x8 4x{n}",
            ("redis_connected_clients", "lock2"): "9500x{n}",
        },
        [
            ("QuorlockClientsRefused", "1m", []),
            ("QuorlockClientsRefused", "3m", ["lock1"]),
            ("QuorlockClientsRefused", "20m", []),
            ("QuorlockClientsNearlyAll", "4m", []),
            ("QuorlockClientsNearlyAll", "6m", ["lock2"]),
        ],
    ),
    (
        {
            ("redis_memory_max_bytes", "lock1"): "1000x{n}",
            ("redis_memory_used_bytes", "lock1"): "920x{n}",
            ("redis_memory_max_bytes", "lock2"): "1000x{n}",
            ("redis_memory_used_bytes", "lock2"): "880x{n}",
        },
        [("QuorlockMemoryNearlyFull", "4m", []), ("QuorlockMemoryNearlyFull", "6m", ["lock1"])],
    ),
    (
        {("redis_db_keys", "lock1"): "42x{n}"},
        [("QuorlockLocksWithoutEnd", "9m", []), ("QuorlockLocksWithoutEnd", "12m", ["lock1"])],
    ),
    (
        {("quorlock_lock_ends_total", "lock1"): "0x40 20x{n}"},
        [("QuorlockLocksExpire", "9m", []), ("QuorlockLocksExpire", "17m", ["lock1"])],
    ),
    # 14 days and an hour after the first sample.
    (
        {("quorlock_tls_certificate_expiry_timestamp_seconds", "lock1"): f"{14 * 86400 + 3600}x{{n}}"},
        [("QuorlockCertificateEnds", "60m", []), ("QuorlockCertificateEnds", "62m", ["lock1"])],
    ),
    (
        {("quorlock_node_info", "lock5"): {"appendfsync": "always"}},
        [("QuorlockNodesDiffer", "50m", []), ("QuorlockNodesDiffer", "62m", [""])],
    ),
    (
        {("quorlock_serving", "app1"): "1x4 0x{n}"},
        [
            ("QuorlockAgentWithoutMajority", "90s", []),
            ("QuorlockAgentWithoutMajority", "3m", ["app1"]),
            ("QuorlockNoMajority", "3m", []),
        ],
    ),
]

# What was recorded of nodes and an agent that have failed: the pages of each, one after the other, and then as above.
FAILURES = {
    "waiting": (
        {"lock3": ["waiting"]},
        [
            ("QuorlockNodeNotServing", "4m", []),
            ("QuorlockNodeNotServing", "6m", ["lock3"]),
            ("QuorlockNoNodeToSpare", "6m", []),
            ("QuorlockLogFull", "6m", []),
        ],
    ),
    "two-waiting": (
        {node: ["waiting"] for node in ("lock2", "lock3")},
        [("QuorlockNoNodeToSpare", "3m", [""]), ("QuorlockNoMajority", "3m", [])],
    ),
    "three-waiting": (
        {node: ["waiting"] for node in ("lock2", "lock3", "lock4")},
        [("QuorlockNoNodeToSpare", "3m", []), ("QuorlockNoMajority", "3m", [""])],
    ),
    "full": ({"lock3": ["full"]}, [("QuorlockLogFull", "1m", ["lock3"]), ("QuorlockNodeDown", "6m", [])]),
    "lost": ({"app1": ["lost"]}, [("QuorlockAgentWithoutMajority", "3m", ["app1"]), ("QuorlockNoMajority", "6m", [])]),
    "died": (
        {"lock3": ["before", "died"]},
        [("QuorlockNodeDied", "1m", []), ("QuorlockNodeDied", "3m", ["lock3"]), ("QuorlockNodeRestarts", "20m", [])],
    ),
    "restarted": (
        {"lock3": [f"started-{time}" for time in range(1, 6)]},
        [("QuorlockNodeRestarts", "7m", []), ("QuorlockNodeRestarts", "9m", ["lock3"]), ("QuorlockNodeDied", "9m", [])],
    ),
    "refused": (
        {"lock3": ["room", "refused"]},
        [
            ("QuorlockClientsRefused", "1m", []),
            ("QuorlockClientsRefused", "3m", ["lock3"]),
            ("QuorlockClientsNearlyAll", "8m", ["lock3"]),
        ],
    ),
    "memory": ({"lock3": ["memory"]}, [("QuorlockMemoryNearlyFull", "6m", ["lock3"]), ("QuorlockLogFull", "6m", [])]),
    "left": (
        {"lock3": ["none-left", "left"]},
        [
            ("QuorlockLocksWithoutEnd", "9m", []),
            ("QuorlockLocksWithoutEnd", "13m", ["lock3"]),
            ("QuorlockLocksExpire", "1m", []),
            ("QuorlockLocksExpire", "13m", ["lock3"]),
        ],
    ),
    "certificate": ({"lock3": ["certificate"]}, [("QuorlockCertificateEnds", "2m", ["lock3"])]),
    "differs": ({"lock3": ["differs"]}, [("QuorlockNodesDiffer", "50m", []), ("QuorlockNodesDiffer", "62m", [""])]),
    "slow": (
        {"lock3": ["slow-1", "slow-2"]},
        [("QuorlockSyncSlow", "4m", []), ("QuorlockSyncSlow", "15m", ["lock3"]), ("QuorlockSyncHangs", "15m", [])],
    ),
    "hangs": ({"lock3": ["hangs-1", "hangs-2"]}, [("QuorlockSyncHangs", "2m", ["lock3"]), ("QuorlockLogFull", "2m", [])]),
}
# What goes on as it went from the first page to the second one: all counters, and of the other metrics these.
GOING_ON = {"slow": set(), "hangs": {"quorlock_log_wait_seconds"}}


def values_of_failure(name, pages):
    """What the summaries say of the values that were recorded."""
    before, after = (pages[page] for page in FAILURES[name][0]["lock3"][-2:]) if name in GOING_ON else (None, None)

    def step(metric):
        return after.value(metric) - before.value(metric)

    match name:
        case "refused":
            return {"QuorlockClientsNearlyAll": "100%"}
        case "memory":
            share = pages[name].value("redis_memory_used_bytes") / pages[name].value("redis_memory_max_bytes")
            return {"QuorlockMemoryNearlyFull": f"{share * 100:.4g}%"}
        case "left":
            return {"QuorlockLocksWithoutEnd": "1", "QuorlockLocksExpire": "5"}
        case "certificate":
            return {"QuorlockCertificateEnds": duration(pages[name].value("quorlock_tls_certificate_expiry_timestamp_seconds") - 120)}
        case "slow":
            seconds = step("quorlock_sync_duration_seconds_sum") / step("quorlock_sync_duration_seconds_count")
            return {"QuorlockSyncSlow": duration(seconds)}
        case "hangs":
            wait = "quorlock_log_wait_seconds"
            return {"QuorlockSyncHangs": duration(after.value(wait) + 8 * step(wait) / (after.moment - before.moment) * SECONDS)}
    return {}


def duration(seconds):
    """As Prometheus writes it."""
    if seconds < 60:
        return f"{seconds:.4g}s" if seconds >= 1 else f"{seconds * 1000:.4g}ms"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}d " if days else "") + (f"{hours}h " if days or hours else "") + f"{minutes}m {rest}s"


def of_failure(pages, goes_on):
    """The series of what has failed, with its values: each page for two minutes, and the last one from then on."""
    last = pages[-1]
    for series in last.series:
        known = [page.values.get(series.key()) for page in pages]
        # Missing samples are counted otherwise.
        shown = ["_x8" if value is None else f"{recorded.number(value)}x7" for value in known[:-1]]
        rate = ""
        if goes_on is not None and (series.grows or series.name in goes_on) and None not in known:
            step = (known[-1] - known[-2]) / (last.moment - pages[-2].moment) * SECONDS
            rate, shown = "+" + recorded.number(step), []
        yield series, " ".join([*shown, f"{recorded.number(series.value)}{rate}x{{n}}"])


def input_series(pages, named, wrong, goes_on):
    """The series of a cluster in which something is wrong: a metric of a node, by both names, or all of a node, by the names of its pages."""
    for instance in [*NODES, "app1"]:
        job = "quorlock-agent" if instance == "app1" else "quorlock"
        of_instance = {"job": job, "instance": instance}
        yield recorded.notation("up", of_instance), wrong.get(("up", instance), "1x{n}")
        if instance in wrong:
            for series, values in of_failure([pages[page] for page in wrong[instance]], goes_on):
                if series.name in named:
                    yield recorded.notation(series.name, {**series.labels, **of_instance}), values
            continue
        for series in pages["agent" if instance == "app1" else "well"].series:
            if series.name not in named:
                continue
            labels, values = series.labels, recorded.number(series.value) + "x{n}"
            if is_meant(series):
                values = wrong.get((series.name, instance), WELL.get(series.name, values))
            if isinstance(values, dict):
                if not values.keys() <= labels.keys():
                    sys.exit(f"{series.name} of a node has no labels {sorted(values)}")
                labels, values = {**labels, **values}, WELL[series.name]
            if values is not None:
                yield recorded.notation(series.name, {**labels, **of_instance}), values


def is_meant(series):
    return MEANT.get(series.name, {}).items() <= series.labels.items()


def expected(name, instance, values):
    severity, summary = ALERTS[name]
    labels = {"severity": severity, "job": "quorlock-agent" if instance == "app1" else "quorlock"}
    if instance:
        labels["instance"] = instance
    if name == "QuorlockLocksExpire":
        labels["pattern"] = "job:*"
    summary = summary.format(instance=instance, value={**VALUES, **values}.get(name))
    return {"exp_labels": labels, "exp_annotations": {"summary": summary}}


def test(pages, named, wrong, checks, goes_on=None, values={}):
    series = [
        {"series": name, "values": samples.format(n=SAMPLES)} for name, samples in input_series(pages, named, wrong, goes_on)
    ]
    alerts = [
        {"eval_time": at, "alertname": name, "exp_alerts": [expected(name, instance, values) for instance in instances]}
        for name, at, instances in checks
    ]
    return {"interval": "15s", "input_series": series, "alert_rule_test": alerts}


def fired(cases):
    return {name for _, checks in cases for name, _, instances in checks if instances}


def refuse(rules, well, named):
    """Ends the program where a node lacks what is named, or an alert has no case, no failure that was recorded or no row in the book."""
    missing = named - {series.name for series in well}
    if missing:
        sys.exit(f"a node has no metrics of these names: {sorted(missing)}")
    lacking = [name for name in WELL if not any(series.name == name and is_meant(series) for series in well)]
    if lacking:
        sys.exit(f"a node has no series of these names with the labels that are meant: {lacking}")
    alerts = set(re.findall(r"^ *- alert: (\w+)$", rules, re.MULTILINE))
    book = Path(__file__).parents[2] / "docs/book/alerts.md"
    for what, names in [
        ("no case in which it fires", fired(CASES)),
        ("no failure that was recorded", fired(FAILURES.values()) | WITHOUT_PAGE),
        ("no row in the book", set(re.findall(r"^\| `(\w+)` \|", book.read_text(), re.MULTILINE))),
        ("no summary here", set(ALERTS)),
    ]:
        if alerts != names:
            sys.exit(f"{what}, or there is no such alert: {sorted(alerts ^ names)}")


def main():
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rules = path.read_text()
    named = recorded.named_in(rules)
    pages = {file.name: recorded.Page(file) for file in folder.iterdir()}
    refuse(rules, pages["well"].series, named)
    if len(sys.argv) > 3:
        failure = sys.argv[3]
        tests = [test(pages, named, *FAILURES[failure], GOING_ON.get(failure), values_of_failure(failure, pages))]
    else:
        tests = [test(pages, named, wrong, checks) for wrong, checks in CASES]
    recorded.print_tests(tests, [str(path)])


if __name__ == "__main__":
    main()
