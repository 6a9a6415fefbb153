#!/usr/bin/env python3
"""Draws the pictures of the book and of the README: docs/book/pictures/*.svg.

usage: docs/pictures.py [--check]

With --check nothing is written: the committed files have to be what this script draws, each of them has to be shown by a page
with a text alternative, and no text may be wider than its picture. It needs Python 3 and nothing else.

A picture is 360 units wide, so that its text has its own size on a screen of 390 pixels. It has a ground of its own, because a
page may be dark where the system is light. Times are those of the rules (a ttl of 30 s, renewed at each third, a drift of 1 %),
drawn and not measured. What is measured is in docs/book/experiments/.
"""

import os
import re
import sys
from xml.sax.saxutils import escape

BOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "book")
README = os.path.join(BOOK, "../../README.md")
WIDTH = 360
# Where time begins and ends.
LEFT, RIGHT = 70, 348
LANE, PITCH, TOP = 15, 22, 26
# Of a letter at 12 units, with room for other fonts.
LETTER = 6.3
ALTERNATIVE_MIN = 60

STYLE = """
.q{font:12px system-ui,sans-serif;fill:#333}
.q .ground{fill:#fff;stroke:#d5d9dd}
.q .lane{fill:#eceff1}
.q .a{fill:#0072b2}
.q .b{fill:#e69f00}
.q .none{fill:#222}
.q .delay{fill:url(#delay)}
.q .paused{fill:url(#paused)}
.q .light{fill:#fff}
.q .renewal{stroke:#fff;stroke-width:1.5}
.q .at{stroke:#888;stroke-dasharray:3 3}
.q .number{fill:#333}
.q .digit{fill:#fff;font-size:11px;text-anchor:middle}
.q .bad{stroke:#d55e00;stroke-width:2.5;fill:none}
.q .good{stroke:#009e73;stroke-width:2.5;fill:none}
.q .end{text-anchor:end}
.q .middle{text-anchor:middle}
.q .term{font-family:ui-monospace,monospace;white-space:pre}
@media(prefers-color-scheme:dark){
.q{fill:#d0d4d8}
.q .ground{fill:#1c2024;stroke:#3a4046}
.q .lane{fill:#2c3238}
.q .a{fill:#3a9bd9}
.q .none{fill:#000;stroke:#888}
.q .number{fill:#d0d4d8}
.q .digit{fill:#1c2024}
}
"""

PATTERNS = (
    '<defs><pattern id="delay" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#b9c2c9"/><rect width="2.5" height="6" fill="#6b7880"/></pattern>'
    '<pattern id="paused" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="#f2f4f5"/>'
    '<circle cx="2.5" cy="2.5" r="1.2" fill="#444"/></pattern></defs>'
)


def number(value):
    return f"{value:.1f}".removesuffix(".0")


def wrapped(text, width):
    lines, line = [], ""
    for word in text.split():
        if line and (len(line) + 1 + len(word)) * LETTER > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return lines + [line]


class Drawing:
    """The parts of a picture, and the text that does not fit."""

    def __init__(self, title, description):
        self.title, self.description = title, description
        self.parts, self.too_wide = [], []

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, text, kind=""):
        room = {"end": x - 4, "middle": 2 * min(x, WIDTH - x)}.get(kind, WIDTH - 6 - x)
        if len(text) * LETTER > room:
            self.too_wide.append(text)
        name = f' class="{kind}"' if kind else ""
        self.add(f'<text x="{number(x)}" y="{number(y)}"{name}>{escape(text)}</text>')

    def bar(self, x, y, width, kind, height=LANE):
        self.add(f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{height}"/>')

    def line(self, kind, x, y, to_x, to_y):
        self.add(f'<path class="{kind}" d="M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}"/>')

    def mark(self, x, y, which):
        self.add(f'<circle class="number" cx="{number(x)}" cy="{number(y)}" r="7.5"/>')
        self.add(f'<text class="digit" x="{number(x)}" y="{number(y + 4)}">{which}</text>')

    def svg(self, height):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" width="520" '
            f'height="{number(height * 520 / WIDTH)}" role="img" aria-labelledby="title text" class="q">'
        )
        words = f'<title id="title">{escape(self.title)}</title>\n<desc id="text">{escape(self.description)}</desc>'
        ground = f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{number(height - 1)}" rx="6"/>'
        style = f"<style>{STYLE}</style>"
        return "\n".join([head, words, style, PATTERNS, ground, *self.parts, "</svg>", ""])


def key(drawing, y, kinds):
    """What the colors say, as many in a line as there is room for."""
    x = 12
    for kind, text in kinds:
        width = 22 + len(text) * LETTER + 10
        if x > 12 and x + width > WIDTH:
            x, y = 12, y + 19
        if kind in ("good", "bad"):
            sign(drawing, x + 7, y - 2, kind)
        else:
            drawing.bar(x, y, 14, kind, 11)
        drawing.text(x + 20, y + 10, text)
        x += width
    return y + 19


def timeline(title, lanes, end, marks, kinds, ticks=()):
    """Lanes of (name, bars, crosses), bars of (from, to, kind) in seconds; and what happened at which of them."""
    steps = [f"{which}. {text}" for which, (_, text) in enumerate(marks, 1)]
    drawing = Drawing(title, " ".join(steps))

    def at(seconds):
        return LEFT + (RIGHT - LEFT) * seconds / end

    bottom = TOP + PITCH * len(lanes)
    for which, (name, bars, signs) in enumerate(lanes):
        y = TOP + PITCH * which
        drawing.text(LEFT - 6, y + 12, name, "end")
        drawing.bar(LEFT, y, RIGHT - LEFT, "lane")
        for begin, stop, kind in bars:
            drawing.bar(at(begin), y, at(stop) - at(begin), kind)
        for seconds, kind in signs:
            sign(drawing, at(seconds), y, kind)
    before = -100
    for which, (seconds, _) in enumerate(marks, 1):
        drawing.line("at", at(seconds), TOP - 4, at(seconds), bottom - PITCH + LANE + 2)
        x = max(at(seconds), before + 16)
        drawing.mark(x, 13, which)
        before = x
    for seconds in ticks:
        drawing.text(at(seconds), bottom + 8, f"{seconds} s", "middle")
    y = key(drawing, bottom + (16 if ticks else 4), kinds) + 8
    for which, (_, text) in enumerate(marks, 1):
        drawing.mark(19, y, which)
        for line in wrapped(text, WIDTH - 42):
            drawing.text(32, y + 4, line)
            y += 16
        y += 4
    return drawing, drawing.svg(y - 4)


def sign(drawing, x, y, kind):
    """A renewal, a write that is taken, or one that must not be."""
    if kind == "renewal":
        drawing.line("renewal", x, y + 2, x, y + LANE - 2)
        return
    drawing.add(f'<circle class="light" cx="{number(x)}" cy="{number(y + 7.5)}" r="7"/>')
    if kind == "good":
        drawing.add(f'<path class="good" d="M{number(x - 4)} {number(y + 7)}l3 4l5 -7"/>')
    else:
        drawing.add(f'<path class="bad" d="M{number(x - 3.5)} {number(y + 4)}l7 7m0 -7l-7 7"/>')


A, B, DOWN = ("a", "A has the lock"), ("b", "B has the lock"), ("none", "down")
DELAY, PAUSED = ("delay", "in its restart delay"), ("paused", "stands still")
RENEWALS_OF_A = [(10, "renewal"), (20, "renewal"), (30, "renewal")]
RENEWALS_OF_B = [(46, "renewal"), (56, "renewal")]


def lock():
    well = ([(0.5, 36, "a"), (36.5, 62, "b")], RENEWALS_OF_A + RENEWALS_OF_B)
    killed = ([(0.5, 14, "a"), (14, 17, "none"), (17, 47.6, "delay"), (56, 62, "b")], RENEWALS_OF_A[:1])
    lanes = [(f"node {n}", *(killed if n == 4 else well)) for n in range(1, 6)]
    lanes += [("client A", [(0.5, 36, "a")], []), ("client B", [(36.5, 62, "b")], [])]
    marks = [
        (0.5, "A asks all nodes. Three of five have said yes: A holds the lock, for 30 s."),
        (10, "A renews it at each third of the ttl (white lines)."),
        (14, "Node 4 is killed. Four nodes go on, and A notices nothing."),
        (17, "It starts again and grants nothing until all that it may have forgotten has ended."),
        (36, "A releases the lock on all nodes. B stood in line and has it at once, from four nodes."),
        (56, "Node 4 serves again. B's next renewal takes the lock there, too."),
    ]
    return timeline("The life of a lock on five nodes", lanes, 62, marks, [A, B, DOWN, DELAY], range(0, 61, 10))


def restart_delay():
    held = ([(0, 30, "a"), (30.6, 72, "b")], [])
    lanes = [("node 1", *held), ("node 2", *held)]
    lanes += [("node 3", [(0, 5, "a"), (5, 8, "none"), (8, 69.2, "delay")], [])]
    lanes += [(f"node {n}", [(9, 11, "b"), (30.6, 72, "b")], []) for n in (4, 5)]
    lanes += [("client A", [(0.3, 29.1, "a")], []), ("client B", [(31, 72, "b")], [])]
    marks = [
        (0.3, "A takes the lock for 30 s. It reaches nodes 1, 2 and 3 alone."),
        (5, "Node 3 loses its power, and with it A's lock."),
        (8, "It starts again and knows that it may have forgotten something. It answers RESTARTDELAY."),
        (11, "B has two votes and needs three. It gives them back and waits. Without the delay node 3 would be the third."),
        (30, "A's time is over. A has stopped a little before, and B has the lock."),
        (69.2, "A minute after its start node 3 serves again."),
    ]
    return timeline("A restart delay", lanes, 72, marks, [A, B, DOWN, DELAY], range(0, 61, 10))


def paused(title, is_fenced):
    lanes = [
        ("client A", [(2, 12, "a"), (12, 48, "paused")], []),
        ("nodes", [(2, 32, "a"), (34, 58, "b")], []),
        ("client B", [(34, 58, "b")], []),
        ("account", [], [(8, "good"), (42, "good"), (50, "bad")]),
    ]
    marks = [
        (2, "A takes the lock for 30 s" + (" with fence 41." if is_fenced else ".")),
        (8, "A reads the account. The account keeps fence 41." if is_fenced else "A reads the account: 100."),
        (12, "A's machine stands still. It renews nothing, and notices nothing."),
        (34, "A's time is over. B takes the lock" + (" with fence 42." if is_fenced else ".")),
        (42, "B reads and writes with fence 42. The account keeps 42." if is_fenced else "B reads 100 and writes 70."),
        (50, "A goes on and writes with fence 41. The account refuses it: 41 is less than 42. B's write stays." if is_fenced
         else "A goes on and writes what it has worked out from 100, before it looks at its lock. B's write is lost."),
    ]
    late = "a late write, refused" if is_fenced else "a late write, carried out"
    return timeline(title, lanes, 58, marks, [A, B, PAUSED, ("good", "read or written"), ("bad", late)])


# What `quorlock cluster up --with-load` showed in a terminal of 54 columns, two and a half seconds after `r`.
TABLE = """\
$ quorlock cluster up --with-load
Cluster 'dev', appendfsync everysec, in .quorlock/dev
3 of 5 serve: locks can be taken (3 needed)
load: 36 locks/s, 780 locks taken, 0 with two holders
node state                          uptime  keys ops/s
  1  serving                           10s     4   147
  2  down (killed)                       -     -     -
  3  serving                           10s     4    92
> 4  restart delay, 2.6 s left           -     -     -
  5  serving                           10s     4    89

[n4] killed with kill -9; it stays down until:
quorlock cluster restart 4
[n4] started
[n4] is in its restart delay and serves no locks for
another 5 s, until every lock it may have forgotten
has expired
? help  q stop all  1-9 select  k kill  r restart"""


def live_table():
    drawing = Drawing("Five nodes in a terminal", TABLE)
    step = (WIDTH - 20) / 54
    for which, line in enumerate(TABLE.split("\n")):
        if line:
            drawing.add(
                f'<text class="term" x="10" y="{20 + 15 * which}" textLength="{number(len(line) * step)}" '
                f'lengthAdjust="spacingAndGlyphs" font-size="10.4">{escape(line)}</text>'
            )
    return drawing, drawing.svg(15 * (TABLE.count("\n") + 1) + 16)


PICTURES = {
    "lock.svg": lock(),
    "restart-delay.svg": restart_delay(),
    "paused-holder.svg": paused("A holder that stands still, and its late write", False),
    "fence.svg": paused("A fence that refuses the late write", True),
    "live-table.svg": live_table(),
}


def problems():
    folder = os.path.join(BOOK, "pictures")
    pages = [os.path.join(BOOK, name) for name in os.listdir(BOOK) if name.endswith(".md")] + [README]
    texts = []
    for page in pages:
        with open(page, encoding="ascii") as file:
            texts.append(file.read())
    for name, (drawing, svg) in PICTURES.items():
        path = os.path.join(folder, name)
        there = open(path, encoding="ascii").read() if os.path.exists(path) else ""
        if there != svg:
            yield f"docs/book/pictures/{name} is not what docs/pictures.py draws: run it"
        for text in drawing.too_wide:
            yield f"{name}: wider than the picture: {text}"
        shown = [found for text in texts for found in re.findall(rf"!\[([^\]]*)\]\([^)]*pictures/{re.escape(name)}\)", text)]
        if not shown:
            yield f"{name}: no page shows it"
        for alternative in shown:
            if len(alternative) < ALTERNATIVE_MIN:
                yield f"{name}: a page shows it with a text alternative of {len(alternative)} letters"
    for name in sorted(set(os.listdir(folder)) - set(PICTURES)):
        yield f"docs/book/pictures/{name} is drawn by nothing"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if not sys.argv[1:]:
        for name, (_, svg) in PICTURES.items():
            with open(os.path.join(BOOK, "pictures", name), "w", encoding="ascii") as file:
                file.write(svg)
    found = list(problems())
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
