# SPDX-License-Identifier: Apache-2.0
"""The cost of observing a job: the C++ example distributed_mnist with 2 parameter servers and 2 workers, with and without
recorder, metrics and HTTP port. The runs alternate.

    python3 bench/recorder.py [--rounds N] [--steps N]

Prints the global steps/s and the processor time per step of both, as medians, and the median and quartiles of the
ratios of the rounds.
"""

import argparse
import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from distributed import BIN, run  # noqa: E402


def measure(observed, steps):
    """Global steps/s, and processor time of all tasks per step."""
    for name in ("THALWEG_RECORDER", "THALWEG_HTTP"):
        if observed:
            os.environ.pop(name, None)
        else:
            os.environ[name] = "off"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = run([os.path.join(BIN, "examples", "distributed_mnist"), "--save_steps=1000000000"], False, steps)[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return rate, seconds / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    measured = {True: [], False: []}
    for i in range(args.rounds):
        for observed in (True, False) if i % 2 == 0 else (False, True):
            measured[observed].append(measure(observed, args.steps))
    for observed in (True, False):
        rates, seconds = zip(*measured[observed])
        print("%-12s %7.1f steps/s  %6.3f ms of processor time per step" % (
            "observed" if observed else "not observed", statistics.median(rates), 1e3 * statistics.median(seconds)))
    pairs = list(zip(measured[True], measured[False]))
    for i, what in enumerate(("steps/s", "processor time")):
        quartiles = statistics.quantiles((on[i] / off[i] for on, off in pairs), n=4, method="inclusive")
        print("observed / not observed, %s: median %.3f, quartiles %.3f and %.3f" % (
            what, quartiles[1], quartiles[0], quartiles[2]))


if __name__ == "__main__":
    main()
