# SPDX-License-Identifier: Apache-2.0
"""Two tasks of one job. The second computes; the first asks it to, and logs where everything runs."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", default="localhost:20000,localhost:20001")
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--device", default="/job:local/task:1")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"local": FLAGS.hosts.split(",")})
server = tf.train.Server(cluster, job_name="local", task_index=FLAGS.task_index)
if FLAGS.task_index == 1:
    server.join()

with tf.device(FLAGS.device or None):
    a = tf.constant(3.0, name="a")
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.add(a, x, name="y")
with tf.Session(server.target, config=tf.ConfigProto(log_device_placement=True)) as sess:
    print("y = %g" % sess.run(y, {x: 4.0}))
