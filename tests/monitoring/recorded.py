"""What pages of metrics have that real nodes and agents have answered, as Prometheus reads them."""

import json
import re
from typing import NamedTuple

SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
METRIC = re.compile(r"\b(?:redis|quorlock)_[a-z_]+")


class Series(NamedTuple):
    name: str
    labels: dict
    value: float
    # It only grows, as counters do and all parts of a histogram.
    grows: bool

    def key(self):
        return self.name, frozenset(self.labels.items())


class Page:
    """A page, and when it was recorded. Time begins then: of a moment it has how far ahead that is."""

    def __init__(self, path):
        self.moment = path.stat().st_mtime
        self.series = [
            series._replace(value=series.value - int(self.moment)) if series.name.endswith("_timestamp_seconds") else series
            for series in page(path)
        ]
        self.values = {series.key(): series.value for series in self.series}

    def value(self, name):
        """Of a metric without labels, or with one series."""
        return next(series.value for series in self.series if series.name == name)


def page(path):
    """The series of one page."""
    kind = None
    for line in path.read_text().splitlines():
        if line.startswith("# TYPE "):
            kind = line.split()[-1]
        if line.startswith("#") or not line:
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        # An empty label is none.
        labels = {label: text for label, text in LABEL.findall(labels or "") if text}
        yield Series(name, labels, float(value), kind in ("counter", "histogram"))


def named_in(text):
    """The metrics of nodes that a text names."""
    return set(METRIC.findall(text))


def notation(name, labels):
    """A series as promtool writes it."""
    return name + "{" + ", ".join(f'{label}="{text}"' for label, text in labels.items()) + "}"


def number(value):
    return f"{value:.9f}".rstrip("0").rstrip(".")


def print_tests(tests, rule_files=()):
    """The input of `promtool test rules`, which reads YAML, and so JSON."""
    print(json.dumps({"rule_files": list(rule_files), "evaluation_interval": "15s", "tests": tests}, indent=1))
