"""What became of the checks: filters the lines of a part, sums them up, and makes the table of the book.

A line is `ok NAME`, `FAIL NAME: why`, `skip NAME: why` or `version CLIENT LANGUAGE VERSION`. NAME is
`CLIENT: SCENARIO`, without another colon, and may end with how it was run, such as ` with RESP3`.
`row NAME` is for the table only: what stands for many checks.

A check that cannot pass stands in refused.txt with the reason. It must fail, and is then counted as skipped.
"""

import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.normpath(os.path.join(HERE, "../../docs/book/interop.md"))
BEGIN, END = "<!-- table: tests/interop/run --table -->", "<!-- end of table -->"
DELAYED = "a node in its restart delay"
HOW = re.compile(r"^(.*?)(?: with (RESP[23]|" + DELAYED + r"))?$")
LINE = re.compile(r"(ok|FAIL|skip|row) ([^:]+: [^:\n]+)(?:: (.*))?\n")


def refused():
    """Names of checks that must fail, as regular expressions, and why."""
    found = []
    with open(os.path.join(HERE, "refused.txt"), encoding="ascii") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, reason = (part.strip() for part in line.split(" | ", 1))
                found.append((re.compile(pattern), reason))
    return found


def reason_for(name, known):
    return next((reason for pattern, reason in known if pattern.fullmatch(name)), None)


def filtered(line, known):
    """The line as it counts. What is no line of a check is passed on."""
    match = LINE.fullmatch(line)
    kind, name = match.group(1, 2) if match else (None, None)
    reason = name and reason_for(name, known)
    if reason and kind == "ok":
        return f"FAIL {name}: it passes, and stands in refused.txt\n"
    if reason and kind == "FAIL":
        return f"skip {name}: refused, {reason}\n"
    return line


def rows_of(report):
    """For each client its language and version, and for each of its scenarios how it passed or why not."""
    versions, scenarios = {}, {}
    for line in report:
        match = LINE.fullmatch(line)
        if line.startswith("version "):
            client, language, version = re.fullmatch(r"version (.+) (\S+) (\S+)\n", line).groups()
            versions[client] = (language, version)
        elif match and (match[1] in ("ok", "row") or (match[3] or "").startswith("refused, ")):
            client, _, scenario = match[2].partition(": ")
            plain, how = HOW.fullmatch(scenario).groups()
            scenarios.setdefault(client, {}).setdefault(plain, []).append(match[3] or how)
    return versions, scenarios


def how_it_passed(ways):
    """`RESP2, RESP3`, why it is refused, or nothing for a check that is run in one way only."""
    return ", ".join(dict.fromkeys(way for way in ways if way))


def table(report):
    """The rows of each client that was run."""
    versions, scenarios = rows_of(report)
    return {
        client: [
            f"| {language} | {client} {version} | {scenario} | {how_it_passed(ways)} |"
            for scenario, ways in scenarios.get(client, {}).items()
        ]
        for client, (language, version) in versions.items()
    }


def in_the_book():
    with open(PAGE, encoding="ascii") as file:
        text = file.read()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()[2:]


def is_about(row, client):
    return row.split(" | ")[1].rpartition(" ")[0] == client


def write_book(lines):
    """Replaces the rows of the clients that were run, and leaves the others."""
    kept = [row for row in in_the_book() if not any(is_about(row, client) for client in lines)]
    rows = kept + [row for made in lines.values() for row in made]
    # Rows of one client stay in the order of its checks.
    rows.sort(key=lambda row: row.lower().split(" | ")[:2])
    head = ["| language | client | what is checked | with |", "|---|---|---|---|"]
    with open(PAGE, encoding="ascii") as file:
        text = file.read()
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    with open(PAGE, "w", encoding="ascii") as file:
        file.write(before + BEGIN + "\n\n" + "\n".join(head + rows) + "\n\n" + after)


def untrue(lines):
    """Rows that the book has and the run does not confirm, and rows that it lacks."""
    book = in_the_book()
    for client, made in lines.items():
        said = [row for row in book if is_about(row, client)]
        yield from (f"in the book only: {row}" for row in said if row not in made)
        yield from (f"not in the book: {row}" for row in made if row not in said)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("what", choices=("filter", "check-table", "write-table"))
    arguments.add_argument("report", nargs="?")
    options = arguments.parse_args()
    if options.what == "filter":
        known = refused()
        for line in sys.stdin:
            print(filtered(line, known), end="", flush=True)
        return
    with open(options.report, encoding="utf-8") as file:
        lines = table(file.readlines())
    if options.what == "write-table":
        write_book(lines)
        return
    problems = list(untrue(lines))
    for problem in problems[:20]:
        print(f"   {problem}")
    if problems:
        print(f"FAIL table: {len(problems)} rows of docs/book/interop.md; tests/interop/run --table writes them")
    else:
        print("ok table: docs/book/interop.md says what passed")


if __name__ == "__main__":
    main()
