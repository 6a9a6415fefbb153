"""All checks with clients of Python. QUORLOCK_NODES names the nodes, QUORLOCK_DELAYED one in its restart delay, and
QUORLOCK_TLS is the description of five nodes that speak TLS."""

import json
import logging
import os

import celery_checks
import drivers
import locks
import queues
import rights
from report import Report

if __name__ == "__main__":
    urls = os.environ["QUORLOCK_NODES"].split(",")
    # Libraries log the refusals of a node that gives no locks.
    logging.disable()
    report = Report()
    delayed = os.environ.get("QUORLOCK_DELAYED")
    if not delayed:
        drivers.run(report, urls)
        queues.run(report, urls)
        celery_checks.run(report, urls)
    locks.run(report, urls, delayed)
    if not delayed:
        rights.run(report, urls)
    described = os.environ.get("QUORLOCK_TLS")
    if described and not delayed:
        with open(described, encoding="utf-8") as file:
            cluster = json.load(file)
        locks.run_over_tls(report, [node["url"] for node in cluster["nodes"]], cluster["cacert"])
    report.finish()
