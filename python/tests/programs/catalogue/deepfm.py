# SPDX-License-Identifier: Apache-2.0
"""DeepFM: factorization machine and a deep tower over hashed fields, one big embedding on two parameter servers."""

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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

FIELDS, BUCKETS, SIZE = 4, 200, 6

def batch(n, random):
    ids = np.stack([random.randint(50, size=n) + 50 * f for f in range(FIELDS)], 1)
    return ids, ((ids[:, 0] + ids[:, 1]) % 2 == 0).astype(np.float32)

with tf.device(setter):
    ids, labels = tf.placeholder(tf.int64, [None, FIELDS]), tf.placeholder(tf.float32, [None])
    with tf.variable_scope("fm", partitioner=tf.min_max_variable_partitioner(max_partitions=2, min_slice_size=1024)):
        linear = tf.get_variable("linear", [BUCKETS, 1], initializer=tf.zeros_initializer())
        factors = tf.get_variable("factors", [BUCKETS, SIZE],
                                  initializer=tf.random_normal_initializer(stddev=0.2, seed=1))
    first = tf.reduce_sum(tf.nn.embedding_lookup(linear, ids, partition_strategy="div"), [1, 2])
    v = tf.nn.embedding_lookup(factors, ids, partition_strategy="div")
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1), 1)
    deep = tf.layers.dense(tf.reshape(v, [-1, FIELDS * SIZE]), 16, tf.nn.relu,
                           kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    deep = tf.squeeze(tf.layers.dense(deep, 1, kernel_initializer=tf.glorot_uniform_initializer(seed=3)), 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=first + second + deep))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.01).minimize(loss, step)

random = np.random.RandomState(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    for _ in range(200):
        i, y = batch(64, random)
        _, value = sess.run([train, loss], {ids: i, labels: y})
print("RESULT loss=%.4f" % value, flush=True)
