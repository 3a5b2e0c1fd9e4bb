#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the cost of tf.py_func with TensorFlow's, side by side.

The same program runs on TensorFlow's server, which lives in the program's process, and under `thalweg python`, where
the server calls back into the program. The two take turns, several rounds; the ratio is TensorFlow's time to ours.
Usage:

    THALWEG_BIN=build/release/bin build/tensorflow/bin/python bench/py_func.py [--rounds N] [--seconds S]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

THALWEG = os.path.join(os.environ.get("THALWEG_BIN", "build/release/bin"), "thalweg")


def measure(seconds):
    """Microseconds per step, by name."""
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    v1.logging.set_verbosity(v1.logging.ERROR)
    target = v1.train.Server.create_local_server().target

    def numbers():
        i = 0
        while True:
            yield i
            i += 1

    def function(size):
        values = tf.constant(np.ones(size, np.float32))
        return v1.py_func(lambda a: a, [values], tf.float32).op

    elements = tf.data.Dataset.from_generator(numbers, tf.int64).batch(100)
    steps = {"a step without a function": tf.constant(1.0).op,
             "a function of 1 number": function(1),
             "8 functions, one after the other": None,
             "8 functions, independent": tf.group(*[function(1) for _ in range(8)]),
             "a function of 1 MB": function(1 << 18),
             "100 elements of from_generator": v1.data.make_one_shot_iterator(elements).get_next().op}
    x = tf.constant(np.ones(1, np.float32))
    for _ in range(8):
        x = v1.py_func(lambda a: a, [x], tf.float32)
    steps["8 functions, one after the other"] = x.op
    times = {}
    with v1.Session(target) as session:
        for name, op in steps.items():
            for _ in range(10):
                session.run(op)
            n, start = 0, time.perf_counter()
            while time.perf_counter() < start + seconds:
                session.run(op)
                n += 1
            times[name] = (time.perf_counter() - start) / n * 1e6
    print("TIMES " + json.dumps(times))


def run(thalweg, seconds):
    command = [THALWEG, "python", "--python", sys.executable] if thalweg else [sys.executable]
    done = subprocess.run(command + [os.path.abspath(__file__), "--measure", "--seconds", str(seconds)], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
    return json.loads(done.stdout.split("TIMES ")[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each kind of step in a round")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.seconds)
    ours, theirs = [], []
    for _ in range(args.rounds):
        theirs.append(run(False, args.seconds))
        ours.append(run(True, args.seconds))
    print("%-34s %12s %12s %8s" % ("microseconds a step (median)", "TensorFlow", "Thalweg", "ratio"))
    for name in ours[0]:
        a, b = (statistics.median(times[name] for times in side) for side in (theirs, ours))
        print("%-34s %12.0f %12.0f %8.2f" % (name, a, b, a / b))


if __name__ == "__main__":
    main()
