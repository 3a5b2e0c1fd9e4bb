# SPDX-License-Identifier: Apache-2.0
"""Functions in Python that wait, are nested, run side by side, and are given up."""

import argparse
import threading
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
parser = argparse.ArgumentParser()
parser.add_argument("--part", required=True)
FLAGS = parser.parse_args()
target = "" if FLAGS.part == "sessions" else v1.train.Server.create_local_server().target


def nested(session):
    x = v1.placeholder(tf.float32, [])
    inner = v1.py_func(lambda a: np.float32(a * 2), [x], tf.float32)
    middle = v1.py_func(lambda a: np.float32(session.run(inner, {x: a}) + 1), [x], tf.float32)
    outer = v1.py_func(lambda a: np.float32(session.run(middle, {x: a}) * 10), [x], tf.float32)
    print("nested", session.run(outer, {x: 3.0}))


def side_by_side(session):
    """Each call waits for the others."""
    together = threading.Barrier(20)
    call = v1.py_func(lambda: np.int64(together.wait(60) >= 0), [], tf.int64)
    results = []
    threads = [threading.Thread(target=lambda: results.append(session.run(call))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("side by side", sum(results))
    together = threading.Barrier(6)
    calls = [v1.py_func(lambda: np.int64(together.wait(60) >= 0), [], tf.int64) for _ in range(6)]
    print("in one step", sum(session.run(calls)))


def given_up(session):
    called, released, ended = threading.Event(), threading.Event(), threading.Event()

    def function():
        called.set()
        released.wait(60)
        ended.set()
        return np.int64(1)

    call = v1.py_func(function, [], tf.int64)
    try:
        session.run(call, options=v1.RunOptions(timeout_in_ms=500))
    except tf.errors.DeadlineExceededError:
        print("deadline", called.is_set(), not ended.is_set())
    called.clear()
    other = v1.Session(target)

    def run():
        try:
            other.run(call)
        except (tf.errors.CancelledError, tf.errors.AbortedError, RuntimeError) as error:
            print("closed", type(error).__name__ != "RuntimeError")

    thread = threading.Thread(target=run)
    thread.start()
    called.wait(60)
    other.close()
    thread.join()
    released.set()
    ended.wait(60)
    print("afterwards", session.run(call))


def busy_at_the_end(session):
    """The script ends while its functions are called, one of which waits for ever."""
    def numbers():
        i = 0
        while True:
            yield i
            i += 1

    def stuck():
        print("stuck", flush=True)
        threading.Event().wait()

    data = tf.data.Dataset.from_generator(numbers, tf.int64).prefetch(100)
    element = v1.data.make_one_shot_iterator(data).get_next()
    call = v1.py_func(stuck, [], [])
    print("first", session.run([element, element + 1]))
    threading.Thread(target=lambda: session.run(call), daemon=True).start()
    time.sleep(0.5)


session = v1.Session(target)
if FLAGS.part == "sessions":
    isolated = v1.py_func(lambda: np.int64(5), [], tf.int64)
    print("sessions", session.run(isolated))
else:
    globals()[FLAGS.part](session)
print("end", flush=True)
