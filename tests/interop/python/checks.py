"""All checks with clients of Python. QUORLOCK_NODES names the nodes."""

import os

import drivers
import locks
from report import Report

if __name__ == "__main__":
    urls = os.environ["QUORLOCK_NODES"].split(",")
    report = Report()
    drivers.run(report, urls)
    locks.run(report, urls)
    report.finish()
