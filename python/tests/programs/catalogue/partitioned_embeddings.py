# SPDX-License-Identifier: Apache-2.0
"""Large embeddings in partitions over the parameter servers, ids from tf.contrib.lookup, and sparse lookups."""

import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", type=str)
parser.add_argument("--worker_hosts", type=str)
parser.add_argument("--job_name", type=str)
parser.add_argument("--task_index", type=int, default=0)
FLAGS, unparsed = parser.parse_known_args()

WORDS = ["w%d" % i for i in range(100)]


def sentences(n, seed):
    """Sentences of one to six words, some unknown; the label says whether low words are more."""
    random = np.random.RandomState(seed)
    rows, labels = [], []
    for _ in range(n):
        ids = random.randint(100, size=random.randint(1, 7))
        rows.append(" ".join(["w%d" % i for i in ids] + ["unknown%d" % random.randint(9)]))
        labels.append(float(np.mean(ids < 50) > 0.5))
    return np.array(rows, dtype=object), np.array(labels, np.float32)


def main(_):
    ps, workers = FLAGS.ps_hosts.split(","), FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps, "worker": workers})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(len(ps), tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index,
                                                  cluster=cluster, ps_strategy=strategy)):
        text = tf.placeholder(tf.string, [None], "text")
        label = tf.placeholder(tf.float32, [None], "label")
        table = tf.contrib.lookup.index_table_from_tensor(tf.constant(WORDS), num_oov_buckets=4)
        words = tf.string_split(text)
        ids = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
        with tf.variable_scope("model", partitioner=tf.fixed_size_partitioner(3)):
            embeddings = tf.get_variable("embeddings", [104, 8],
                                         initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=1))
        mean = tf.nn.embedding_lookup_sparse(embeddings, ids, None, combiner="mean", partition_strategy="div")
        safe = tf.nn.safe_embedding_lookup_sparse(embeddings, ids, combiner="sqrtn", partition_strategy="div")
        partitioner = tf.min_max_variable_partitioner(max_partitions=2, min_slice_size=64)
        with tf.variable_scope("dense", partitioner=partitioner):
            net = tf.layers.dense(tf.concat([mean, safe], 1), 16, tf.nn.relu,
                                  kernel_initializer=tf.glorot_uniform_initializer(2))
            logits = tf.layers.dense(net, 1, kernel_initializer=tf.glorot_uniform_initializer(3))[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
        accuracy = tf.reduce_mean(tf.to_float(tf.equal(logits > 0, label > 0.5)))
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=step)
        partitions = len(list(embeddings))
    saver = tf.train.Saver(sharded=True, max_to_keep=2)
    folder = os.path.join(tempfile.gettempdir(), "partitions-" + "-".join(workers).replace(":", "-"))
    rows, labels = sentences(600, FLAGS.task_index)
    with tf.train.MonitoredTrainingSession(server.target, is_chief=FLAGS.task_index == 0, checkpoint_dir=folder,
                                           scaffold=tf.train.Scaffold(saver=saver), save_checkpoint_steps=60,
                                           hooks=[tf.train.StopAtStepHook(num_steps=120)],
                                           config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        at = 0
        while not sess.should_stop():
            batch = slice(at % 600, at % 600 + 60)
            value, _ = sess.run([accuracy, train_op], {text: rows[batch], label: labels[batch]})
            at += 60
    assert tf.train.latest_checkpoint(folder)
    shapes = dict(tf.train.list_variables(folder))
    assert shapes["model/embeddings"] == [104, 8], shapes  # the slices are one variable in the checkpoint
    print("RESULT accuracy=%.4f partitions=%d" % (value, partitions), flush=True)


tf.app.run(main=main, argv=[__file__] + unparsed)
