# SPDX-License-Identifier: Apache-2.0
"""An embedding of two million rows, partitioned over the parameter servers, of which a step updates a few hundred.

Each bag of words is a row of a SparseTensor. Its label depends on whether its words have even or odd numbers, so the
table must learn them one by one.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--rows", type=int, default=2000000)
parser.add_argument("--steps", type=int, default=150)
FLAGS = parser.parse_args()
WIDTH, BATCH, WORDS, KNOWN = 4, 64, 6, 500

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

vocabulary = np.sort(np.random.RandomState(4).choice(FLAGS.rows, KNOWN, replace=False)).astype(np.int64)


def batches(seed):
    random = np.random.RandomState(seed)
    while True:
        words = random.choice(vocabulary, [BATCH, WORDS])
        labels = (np.sum(words % 2, 1) * 2 > WORDS).astype(np.float32)
        indices = np.stack(np.meshgrid(np.arange(BATCH), np.arange(WORDS), indexing="ij"), -1).reshape(-1, 2)
        yield tf.SparseTensorValue(indices, words.reshape(-1), [BATCH, WORDS]), labels


shards = cluster.num_tasks("ps")
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
with tf.device(setter):
    ids, labels = tf.sparse_placeholder(tf.int64), tf.placeholder(tf.float32, [None])
    with tf.variable_scope("embeddings", partitioner=tf.fixed_size_partitioner(shards, axis=0)):
        table = tf.get_variable("table", [FLAGS.rows, WIDTH], initializer=tf.zeros_initializer())
    bags = tf.nn.embedding_lookup_sparse(table, ids, None, partition_strategy="div", combiner="mean")
    weights = tf.get_variable("weights", [WIDTH, 1], initializer=tf.ones_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    logits = tf.reshape(tf.matmul(bags, weights) + bias, [-1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(logits > 0, labels > 0.5), tf.float32))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(1.0).minimize(loss, global_step=step)
    touched = tf.add_n([tf.reduce_sum(tf.cast(tf.not_equal(part, 0), tf.int32)) for part in table])

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
source = batches(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as session:
    values = []
    for _ in range(FLAGS.steps):
        sparse, truth = next(source)
        values.append(session.run([train, loss, accuracy], {ids: sparse, labels: truth})[1:])
    count = session.run(touched)
losses, accuracies = zip(*values)
print("RESULT loss=%.4f accuracy=%.4f touched=%d" % (np.mean(losses[-5:]), np.mean(accuracies[-5:]), count), flush=True)
