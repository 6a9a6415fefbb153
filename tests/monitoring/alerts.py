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
SAMPLES = 260

# What a node that is well says of itself, where a case is about it. All else is as on its page.
WELL = {
    "quorlock_serving": "1x{n}",
    "quorlock_incarnation": "3x{n}",
    "redis_aof_last_write_status": "1x{n}",
    "quorlock_log_full": "0x{n}",
    "quorlock_log_frames_written_total": "10+10x{n}",
    "quorlock_log_frames_synced_total": "10+10x{n}",
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

# Severity and summary of each alert, with the instance, if it is about one.
ALERTS = {
    "QuorlockNoMajority": ("critical", "quorlock: too few nodes serve, no lock can be taken or extended"),
    "QuorlockNoNodeToSpare": ("critical", "quorlock: 3 nodes serve, with one more away no lock can be taken"),
    "QuorlockNodeDown": ("warning", "{} of quorlock does not answer"),
    "QuorlockNodeNotServing": ("warning", "{} of quorlock runs and has granted no lock for 5 minutes"),
    "QuorlockNodeRestarts": ("warning", "{} of quorlock was restarted 4 times within an hour"),
    "QuorlockLogFailed": ("critical", "{} of quorlock cannot write its log and grants no locks any more"),
    "QuorlockLogFull": ("critical", "{} of quorlock has no room for its log: it releases locks and grants none"),
    "QuorlockSyncHangs": ("critical", "{} of quorlock: no sync of the log has ended for a minute, and some wait"),
    "QuorlockSyncSlow": ("warning", "{} of quorlock: a sync of the log takes 500ms"),
    "QuorlockClientsRefused": ("warning", "{} of quorlock has refused connections: maxclients is reached"),
    "QuorlockClientsNearlyAll": ("warning", "{} of quorlock has 95% of its clients"),
    "QuorlockLocksWithoutEnd": ("info", "{} of quorlock has 2 keys that never end"),
    "QuorlockLocksExpire": ("info", "{} of quorlock: 20 locks of the class 'job:*' have ended without a release within an hour"),
    "QuorlockCertificateEnds": (
        "warning",
        "{} of quorlock: its certificate ends in 13d 23h 58m 0s, and from then on clients that check it refuse this node",
    ),
    "QuorlockNodesDiffer": ("info", "quorlock: nodes have 2 different versions or fsync modes"),
    "QuorlockAgentWithoutMajority": ("critical", "{}: too few nodes can vote for this agent, its programs get no locks"),
}

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
        [("QuorlockNodeRestarts", "20m", []), ("QuorlockNodeRestarts", "50m", ["lock1"])],
    ),
    (
        {("redis_aof_last_write_status", "lock1"): "1x4 0x{n}", ("quorlock_log_full", "lock2"): "0x4 1x{n}"},
        [
            ("QuorlockLogFailed", "45s", []),
            ("QuorlockLogFailed", "2m", ["lock1"]),
            ("QuorlockLogFull", "45s", []),
            ("QuorlockLogFull", "2m", ["lock2"]),
        ],
    ),
    (
        {
            ("quorlock_log_frames_written_total", "lock1"): "10+10x10 115x{n}",
            ("quorlock_log_frames_synced_total", "lock1"): "10+10x10 110x{n}",
            ("quorlock_sync_duration_seconds_sum", "lock2"): "0+0.5x{n}",
            ("quorlock_sync_duration_seconds_count", "lock2"): "0+1x{n}",
        },
        [
            ("QuorlockSyncHangs", "3m", []),
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

# By the page of what has failed: which node or agent it is, and then as above.
FAILURES = {
    "waiting": (
        "lock3",
        [
            ("QuorlockNodeNotServing", "4m", []),
            ("QuorlockNodeNotServing", "6m", ["lock3"]),
            ("QuorlockNoNodeToSpare", "6m", []),
            ("QuorlockLogFailed", "6m", []),
            ("QuorlockLogFull", "6m", []),
        ],
    ),
    "full": ("lock3", [("QuorlockLogFull", "1m", ["lock3"]), ("QuorlockLogFailed", "6m", []), ("QuorlockNodeDown", "6m", [])]),
    "lost": ("app1", [("QuorlockAgentWithoutMajority", "3m", ["app1"]), ("QuorlockNoMajority", "6m", [])]),
}


def input_series(pages, named, wrong):
    """The series of a cluster in which something is wrong: a metric of a node, by both names, or all of a node, by the name of its page."""
    for instance in [*NODES, "app1"]:
        job = "quorlock-agent" if instance == "app1" else "quorlock"
        of_instance = {"job": job, "instance": instance}
        yield recorded.notation("up", of_instance), wrong.get(("up", instance), "1x{n}")
        for series in pages[wrong.get(instance, "agent" if instance == "app1" else "well")]:
            if series.name not in named:
                continue
            labels, values = series.labels, recorded.number(series.value) + "x{n}"
            if is_meant(series) and instance not in wrong:
                values = wrong.get((series.name, instance), WELL.get(series.name, values))
            if isinstance(values, dict):
                if not values.keys() <= labels.keys():
                    sys.exit(f"{series.name} of a node has no labels {sorted(values)}")
                labels, values = {**labels, **values}, WELL[series.name]
            if values is not None:
                yield recorded.notation(series.name, {**labels, **of_instance}), values


def is_meant(series):
    return MEANT.get(series.name, {}).items() <= series.labels.items()


def expected(name, instance):
    severity, summary = ALERTS[name]
    labels = {"severity": severity, "job": "quorlock-agent" if instance == "app1" else "quorlock"}
    if instance:
        labels["instance"] = instance
    if name == "QuorlockLocksExpire":
        labels["pattern"] = "job:*"
    return {"exp_labels": labels, "exp_annotations": {"summary": summary.format(instance)}}


def test(pages, named, wrong, checks):
    series = [{"series": name, "values": values.format(n=SAMPLES)} for name, values in input_series(pages, named, wrong)]
    alerts = [
        {"eval_time": at, "alertname": name, "exp_alerts": [expected(name, instance) for instance in instances]}
        for name, at, instances in checks
    ]
    return {"interval": "15s", "input_series": series, "alert_rule_test": alerts}


def refuse(rules, well, named):
    """Ends the program where a node lacks what is named, or an alert has no case."""
    missing = named - {series.name for series in well}
    if missing:
        sys.exit(f"a node has no metrics of these names: {sorted(missing)}")
    lacking = [name for name in WELL if not any(series.name == name and is_meant(series) for series in well)]
    if lacking:
        sys.exit(f"a node has no series of these names with the labels that are meant: {lacking}")
    alerts = set(re.findall(r"^ *- alert: (\w+)$", rules, re.MULTILINE))
    quiet = alerts ^ {name for _, checks in CASES for name, _, instances in checks if instances}
    if quiet or alerts != set(ALERTS):
        sys.exit(f"no case in which these alerts fire, or no such alerts: {sorted(quiet | alerts ^ set(ALERTS))}")


def main():
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rules = path.read_text()
    named = recorded.named_in(rules)
    pages = {file.name: list(recorded.page(file)) for file in folder.iterdir()}
    refuse(rules, pages["well"], named)
    cases = CASES
    if len(sys.argv) > 3:
        failure = sys.argv[3]
        instance, checks = FAILURES[failure]
        cases = [({instance: failure}, checks)]
    recorded.print_tests([test(pages, named, wrong, checks) for wrong, checks in cases], [str(path)])


if __name__ == "__main__":
    main()
