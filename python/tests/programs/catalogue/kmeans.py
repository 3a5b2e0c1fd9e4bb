# SPDX-License-Identifier: Apache-2.0
"""k-means by hand: segment sums on the worker, centers on the parameter server, until they do not move."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

random = np.random.RandomState(0)
points = np.concatenate([random.randn(100, 2) * 0.3 + center for center in ([0, 0], [3, 3], [-3, 2])])
with tf.device("/job:ps/task:0"):
    centers = tf.Variable(points[[5, 130, 250]].astype(np.float32))
with tf.device("/job:worker/task:%d" % FLAGS.task_index):
    x = tf.placeholder(tf.float32, [None, 2])
    distances = tf.reduce_sum(tf.squared_difference(x[:, None, :], centers[None]), 2)
    nearest = tf.argmin(distances, 1)
    sums = tf.unsorted_segment_sum(x, nearest, 3)
    counts = tf.unsorted_segment_sum(tf.ones_like(x), nearest, 3)
    moved = sums / tf.maximum(counts, 1.0)
    shift = tf.reduce_max(tf.abs(moved - centers))
    inertia = tf.reduce_sum(tf.reduce_min(distances, 1))
    with tf.control_dependencies([shift]):
        update = centers.assign(moved)

with tf.Session(server.target) as sess:
    sess.run(tf.global_variables_initializer())
    rounds = 0
    while True:
        rounds += 1
        move, _ = sess.run([shift, update], {x: points})
        if move < 1e-6:
            break
    total = sess.run(inertia, {x: points})
print("RESULT rounds=%d inertia=%.4f" % (rounds, total), flush=True)
