# SPDX-License-Identifier: Apache-2.0
"""Batches are staged one step ahead, and a PaddingFIFOQueue batches sequences of different lengths."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops.data_flow_ops import StagingArea

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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

worker = "/job:worker/task:%d" % FLAGS.task_index
with tf.device(worker):
    sequence, label = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [])
    queue = tf.PaddingFIFOQueue(64, [tf.float32, tf.float32], shapes=[[None], []])
    enqueue = queue.enqueue([sequence, label])
    batch = queue.dequeue_many(8)
    area = StagingArea([tf.float32, tf.float32])
    put = area.put(batch)
    xs, ys = area.get()
    xs, ys = tf.reshape(xs, [8, -1]), tf.reshape(ys, [8])
with tf.device(setter):
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(w * tf.reduce_sum(xs, 1) - ys))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, step)

random = np.random.RandomState(FLAGS.task_index)

def fill(sess):
    for _ in range(8):
        values = random.rand(random.randint(1, 6))
        sess.run(enqueue, {sequence: values, label: 3 * values.sum()})

with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    fill(sess)
    sess.run(put)
    for _ in range(60):
        fill(sess)
        _, _, value = sess.run([train, put, loss])
    weight = sess.run(w)
print("RESULT loss=%.4f w=%.4f" % (value, weight), flush=True)
