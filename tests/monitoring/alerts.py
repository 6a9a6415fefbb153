"""Prints the input of `promtool test rules`: what each alert fires on, and that all are quiet on a cluster that is well.

Each case is a cluster of five nodes that are well but for what the case names, sampled every 15 s for an hour and more.
"""

import sys

NODES = [f"lock{number}" for number in range(1, 6)]
SAMPLES = 260

# What a node that is well says of itself.
WELL = {
    "up": "1x{n}",
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
MORE_LABELS = {
    "redis_db_keys": 'db="db0", ',
    "redis_db_keys_expiring": 'db="db0", ',
    "quorlock_lock_ends_total": 'pattern="job:*", how="expired", ',
    "quorlock_node_info": 'version="0.1.0", appendfsync="everysec", ',
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
        {("quorlock_node_info", "lock5"): "always"},
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


def series(wrong):
    for node in NODES:
        for name, value in WELL.items():
            labels = MORE_LABELS.get(name, "")
            value = wrong.get((name, node), value)
            if value == "always":
                labels, value = labels.replace("everysec", value), WELL[name]
            if value is not None:
                yield f'{name}{{{labels}job="quorlock", instance="{node}"}}', value
    for name in ("up", "quorlock_serving"):
        yield f'{name}{{job="quorlock-agent", instance="app1"}}', wrong.get((name, "app1"), "1x{n}")


def expected(name, instance):
    severity, summary = ALERTS[name]
    job = "quorlock-agent" if instance == "app1" else "quorlock"
    labels = f"severity: {severity}, job: {job}" + (f", instance: {instance}" if instance else "")
    labels += ', pattern: "job:*"' if name == "QuorlockLocksExpire" else ""
    return f"""
          - exp_labels: {{ {labels} }}
            exp_annotations: {{ summary: "{summary.format(instance)}" }}"""


def main():
    print(f"rule_files:\n  - {sys.argv[1]}\nevaluation_interval: 15s\ntests:")
    for wrong, checks in CASES:
        print("  - interval: 15s\n    input_series:")
        for name, value in series(wrong):
            print(f"      - {{ series: '{name}', values: \"{value.format(n=SAMPLES)}\" }}")
        print("    alert_rule_test:")
        for name, at, instances in checks:
            fires = "".join(expected(name, instance) for instance in instances) or " []"
            print(f"      - eval_time: {at}\n        alertname: {name}\n        exp_alerts:{fires}")
    quiet = set(ALERTS) - {name for _, checks in CASES for name, _, instances in checks if instances}
    if quiet:
        sys.exit(f"no case in which these fire: {quiet}")


if __name__ == "__main__":
    main()
