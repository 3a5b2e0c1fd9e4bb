# SPDX-License-Identifier: Apache-2.0
"""A client without a server: loops, one in another, whose bodies are in several tasks."""

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

with tf.Session(FLAGS.master) as sess:
    for times in (0, 1, 3):
        expected = 5.0
        for i in range(times):
            expected -= 1.0
            for _ in range(i + 1):
                expected = (expected + 1.0) * 2.0
        got = sess.run(result, {n: times})
        assert got == expected, (times, got, expected)
print("loops = %.1f" % got)
