# SPDX-License-Identifier: Apache-2.0
"""In-graph replication: one client builds towers on all workers, which only serve."""

import argparse

import tensorflow.compat.v1 as tf

from toy_data import linear

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps" or FLAGS.task_index > 0:
    server.join()

workers = cluster.num_tasks("worker")
with tf.device("/job:ps/task:0"):
    w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(0.1)
x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
gradients, losses = [], []
for i, (xs, ys) in enumerate(zip(tf.split(x, workers), tf.split(y, workers))):
    with tf.device("/job:worker/task:%d" % i):
        loss = tf.reduce_mean(tf.square(tf.matmul(xs, w) - ys))
        losses.append(loss)
        gradients.append(tf.gradients(loss, w)[0])
with tf.device("/job:ps/task:0"):
    train = optimizer.apply_gradients([(tf.add_n(gradients) / workers, w)])
    total = tf.add_n(losses) / workers

features, targets = linear(256)
sess = tf.Session(server.target)
sess.run(tf.global_variables_initializer())
for _ in range(100):
    _, value = sess.run([train, total], {x: features, y: targets})
print("RESULT loss=%.6f w0=%.5f" % (value, sess.run(w)[0, 0]), flush=True)
