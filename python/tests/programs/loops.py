# SPDX-License-Identifier: Apache-2.0
"""A client without a server: loops, one in another, whose bodies are in several tasks, and the gradient of one."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()

parser = argparse.ArgumentParser()
parser.add_argument("--master", required=True)
FLAGS = parser.parse_args()


def inner(j, y):
    with tf.device("/job:worker/task:1"):
        y = y + 1.0
    with tf.device("/job:worker/task:0"):
        return j + 1, y * 2.0


def outer(i, x):
    with tf.device("/job:ps/task:0"):
        x = x - 1.0
    _, x = tf.while_loop(lambda j, y: j < i + 1, inner, (0, x))
    return i + 1, x


n = tf.placeholder(tf.int32, [])
with tf.device("/job:worker/task:0"):
    _, result = tf.while_loop(lambda i, x: i < n, outer, (0, tf.constant(5.0)))



def square_and_add(i, x):
    with tf.device("/job:ps/task:0"):  # which keeps the values of x for the gradient
        x = x * x
    return i + 1, x + 1.0


with tf.device("/job:worker/task:0"):
    start = tf.constant(0.5)
    _, power = tf.while_loop(lambda i, x: i < n, square_and_add, (0, start))
    slope = tf.gradients(power, start)[0]

with tf.Session(FLAGS.master) as sess:
    for times in (0, 1, 3):
        expected = 5.0
        for i in range(times):
            expected -= 1.0
            for _ in range(i + 1):
                expected = (expected + 1.0) * 2.0
        got = sess.run(result, {n: times})
        assert got == expected, (times, got, expected)
        x, expected = 0.5, 1.0
        for _ in range(times):
            x, expected = x * x + 1.0, 2.0 * x * expected
        gradient = sess.run(slope, {n: times})
        assert abs(gradient - expected) < 1e-5, (times, gradient, expected)
print("loops = %.1f" % got)
