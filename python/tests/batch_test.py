# SPDX-License-Identifier: Apache-2.0
"""Steps that share a computation: batch functions, in a session of TensorFlow's own and on a Thalweg server.

The client is the TensorFlow of the interpreter that runs this file.
"""

import os
import subprocess
import threading
import unittest

import numpy as np
import tensorflow as tf
from ports import free_ports
from tensorflow.python.ops import gen_batch_ops

v1 = tf.compat.v1
THALWEG = os.path.join(os.environ["THALWEG_BIN"], "thalweg")


def in_parallel(calls):
    """The results of functions that run at the same time, or their errors."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except Exception as error:  # the result of this call
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


class BatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (port,) = free_ports(1)
        cls.server = subprocess.Popen([THALWEG, "server", "--cluster=worker|localhost:%d" % port, "--job_name=worker"])
        cls.target = "grpc://localhost:%d" % port

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait(30)

    def compare(self, program):
        """`program` builds a graph, and gets a session by calling its argument."""
        results = []
        for target in ("", self.target):
            with tf.Graph().as_default():
                results.append(program(lambda: v1.Session(target)))
        self.assertEqual(results[1], results[0])
        return results[0]

    def test_a_function_of_the_rows_of_several_steps(self):
        """Three steps of one row each fill a batch of three. The function sees all rows."""

        def program(connect):
            x, scale = v1.placeholder(tf.float32, [None, 2]), tf.constant(10.)

            @tf.nondifferentiable_batch_function(1, 3, 20 * 1000 * 1000)
            def layer(rows):
                return rows * scale, tf.zeros_like(rows) + tf.reduce_sum(rows)

            y = layer(x)
            with connect() as session:
                calls = [lambda i=i: session.run(y, {x: [[i, 1]]}) for i in range(3)]
                return [np.asarray(result).tolist() for result in in_parallel(calls)]

        self.assertEqual(self.compare(program), [[[[10. * i, 10.]], [[6., 6.]]] for i in range(3)])

    def test_padding_and_timeouts(self):
        def program(connect):
            x = v1.placeholder(tf.int64, [None])

            @tf.nondifferentiable_batch_function(1, 8, 1000, allowed_batch_sizes=[4, 8])
            def count(rows):
                return tf.fill([tf.size(rows)], tf.size(rows)), rows + 1

            y = count(x)
            with connect() as session:
                values = [np.asarray(part).tolist() for part in session.run(y, {x: [5, 6]})]
                try:
                    session.run(y, {x: list(range(9))})
                except tf.errors.InvalidArgumentError:
                    values.append("too large")
                return values

        self.assertEqual(self.compare(program), [[4, 4], [6, 7], "too large"])

    def test_an_error_in_the_function(self):
        def program(connect):
            x = v1.placeholder(tf.int32, [None])

            @tf.nondifferentiable_batch_function(1, 2, 20 * 1000 * 1000)
            def reshape(rows):
                return tf.reshape(rows, [7])

            y = reshape(x)
            with connect() as session:
                return [type(error).__name__ for error in
                        in_parallel([lambda: session.run(y, {x: [1]}), lambda: session.run(y, {x: [2]})])]

        self.assertEqual(self.compare(program), ["InvalidArgumentError"] * 2)

    def test_batch_and_unbatch(self):
        """One of two steps gets all rows. Both get their own results, and the gradients of their own inputs."""

        def program(connect):
            x = v1.placeholder(tf.float32, [None])
            batched, index, number = gen_batch_ops.batch(
                [x], num_batch_threads=1, max_batch_size=2, batch_timeout_micros=20 * 1000 * 1000,
                grad_timeout_micros=20 * 1000 * 1000)
            rows = gen_batch_ops.unbatch(tf.square(batched[0]), index, number, timeout_micros=20 * 1000 * 1000)
            slope = gen_batch_ops.unbatch_grad(batched[0], index, rows * 100, number)
            size = tf.shape(batched[0])
            with connect() as session:
                results = in_parallel([lambda i=i: session.run([rows, slope, size], {x: [i]}) for i in (3., 4.)])
            first, second = results
            together = [parts for parts in results if parts[2][0] == 2]
            empty = [parts for parts in results if parts[2][0] == 0]
            return (first[0].tolist(), second[0].tolist(), len(together), sorted(together[0][1].tolist()),
                    empty[0][1].tolist())

        self.assertEqual(self.compare(program), ([9.], [16.], 1, [900., 1600.], []))

    def test_rows_that_nobody_brings(self):
        def program(connect):
            x = v1.placeholder(tf.float32, [None])
            rows = gen_batch_ops.unbatch(x, tf.zeros([0, 3], tf.int64), tf.constant(5, tf.int64), timeout_micros=1000)
            with connect() as session:
                try:
                    return session.run(rows, {x: []})
                except tf.errors.DeadlineExceededError:
                    return "late"

        self.assertEqual(self.compare(program), "late")


if __name__ == "__main__":
    v1.disable_eager_execution()
    unittest.main()
