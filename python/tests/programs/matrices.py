# SPDX-License-Identifier: Apache-2.0
"""A client without a server: multiplies matrices across the tasks of a cluster."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--master", required=True)
FLAGS = parser.parse_args()

n = 64
c1, c2 = [], []
with tf.device("/job:ps/task:0"):
    A = tf.Variable(tf.random_uniform([n, n], seed=1), name="A")
    B = tf.Variable(tf.random_uniform([n, n], seed=2), name="B")


def power(matrix, k):
    return matrix if k == 1 else tf.matmul(matrix, power(matrix, k - 1))


with tf.device("/job:worker/task:0"):
    c1.append(power(A, 3))
with tf.device("/job:worker/task:1"):
    c1.append(power(B, 3))
with tf.device("/job:ps/task:0"):
    total = tf.add_n(c1)

with tf.Session(FLAGS.master) as sess:
    sess.run(tf.global_variables_initializer())
    a, b, result = sess.run([A, B, total])
np.testing.assert_allclose(result, a @ a @ a + b @ b @ b, rtol=1e-4)
print("sum = %.3e" % result.sum())
