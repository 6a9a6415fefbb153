"""One line for each check: `ok NAME` or `FAIL NAME: why`."""

import importlib.metadata
import sys
import threading
import time
import traceback


class Report:
    """Runs checks, prints what became of each and remembers whether all passed."""

    def __init__(self):
        self.failures = 0

    def check(self, name, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # a check may fail in any way
            self.failures += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error}".replace("\n", " ")
            print(f"FAIL {name}: {why} ({frame.name}:{frame.lineno})", flush=True)
        else:
            print(f"ok {name}", flush=True)

    def skip(self, name, why):
        print(f"skip {name}: {why}", flush=True)

    def version(self, client, package):
        print(f"version {client} Python {importlib.metadata.version(package)}", flush=True)

    def finish(self):
        print("done")
        sys.exit(1 if self.failures else 0)


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"expected {expected!r}, found {found!r}")


def between(found, low, high):
    if not low <= found <= high:
        raise AssertionError(f"expected {low}..{high}, found {found!r}")


def hold_alone(callers, rounds, owner_of):
    """
    Each caller takes the same lock so often. No two hold it at once, and each gets it in the end. OWNER_OF gets a caller's number; it
    gives a function that takes the lock, and that one gives a function which releases it.
    """
    held, errors = [], []

    def caller(number):
        try:
            take = owner_of(number)
            for _ in range(rounds):
                release = take()
                start = time.monotonic_ns()
                time.sleep(0.002)
                held.append((start, time.monotonic_ns()))
                release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=caller, args=[number]) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    held.sort()
    overlaps = [1 for one, two in zip(held, held[1:]) if two[0] < one[1]]
    equal((len(held), len(overlaps)), (callers * rounds, 0))
