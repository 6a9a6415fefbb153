"""What `locks`, `who`, `wait`, `force-release`, `status` and `doctor` say of locks and servers that are not ours.

usage: checks.py PROGRAM NODE_FOLDER JAVA_CLASS_PATH. NODE_FOLDER has holder.js and what it requires. Servers of its own for each group.
valkey-server is checked as redis-server is, where it is installed.
"""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
# Before that of the run, which has the same name.
from report import Report  # noqa: E402
import broken  # noqa: E402
import libraries  # noqa: E402
import plain  # noqa: E402
from nodes import COUNT, Nodes  # noqa: E402


def main():
    program, node_folder, class_path = sys.argv[1:]
    report = Report()
    others = [kind for kind in ("redis-server", "valkey-server") if shutil.which(kind)]
    if "valkey-server" not in others:
        report.skip("inspection: valkey-server", "it is not on this machine")

    def group(title, kind, checks, count=COUNT, prepare=lambda nodes: nodes):
        with tempfile.TemporaryDirectory() as folder:
            nodes = Nodes(program, kind, folder, count)
            subjects = []
            try:
                report.check(f"inspection: {title}, {kind} starts", lambda: subjects.append(prepare(nodes)))
                for name, check in checks if subjects else []:
                    report.check(f"inspection: {title}, {kind}, {name}", check, *subjects)
            finally:
                for subject in subjects:
                    if subject is not nodes:
                        subject.kill()
                nodes.stop()

    for kind in ["quorlock", *others]:
        hold = lambda nodes: libraries.Held(nodes, node_folder, class_path)  # noqa: E731
        group("locks of four libraries", kind, libraries.CHECKS, prepare=hold)
    for kind in others:
        group("all commands", kind, plain.CHECKS)
        group("doctor", kind, broken.CHECKS, broken.COUNT)
    report.finish()


if __name__ == "__main__":
    main()
