"""Prints the input of `promtool test rules` for the dashboard: each expression, evaluated over the metrics of five nodes, has a value, and
a value for each of what its legend tells apart.

    dashboard.py DASHBOARD PAGES

The series are those of the page that a real node has answered, sampled every 15 s for ten minutes: counters grow by one each time.
"""

import json
import re
import sys
from pathlib import Path

import recorded

NODES = 5
SAMPLES = 40


def main():
    dashboard = json.loads(Path(sys.argv[1]).read_text())
    page = list(recorded.page(Path(sys.argv[2]) / "well"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in dashboard["templating"]["list"]]
    named = recorded.named_in(" ".join([*variables, *(target["expr"] for target in targets)]))
    missing = named - {series.name for series in page}
    if missing:
        sys.exit(f"a node has no metrics of these names: {sorted(missing)}")
    checks = [check for target in targets for check in checks_of(target)]
    recorded.print_tests([{"interval": "15s", "input_series": input_series(page, named), "promql_expr_test": checks}])


def input_series(page, named):
    every = []
    for number in range(1, NODES + 1):
        node = {"job": "quorlock", "instance": f"lock{number}"}
        every.append({"series": recorded.notation("up", node), "values": f"1x{SAMPLES}"})
        for series in page:
            if series.name in named:
                step = "+1" if series.grows else ""
                values = f"{recorded.number(series.value)}{step}x{SAMPLES}"
                every.append({"series": recorded.notation(series.name, {**node, **series.labels}), "values": values})
    return every


def checks_of(target):
    expression = target["expr"].replace("$job", "quorlock")
    expression = re.sub(r"\$__(rate_)?(interval|range)", "5m", expression)
    # What is no number differs from itself.
    value = f"(({expression}) == ({expression}))"
    yield true(f"count({value}) > bool 0")
    for label in re.findall(r"\{\{ *(\w+) *\}\}", target.get("legendFormat", "")):
        yield true(f"count(count by ({label}) ({value})) > bool 1")


def true(expression):
    return {"expr": expression, "eval_time": "8m", "exp_samples": [{"labels": "{}", "value": 1}]}


if __name__ == "__main__":
    main()
