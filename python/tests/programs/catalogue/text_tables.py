# SPDX-License-Identifier: Apache-2.0
"""Text classification with lookup tables, sparse strings and a bag of embedded words."""

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

WORDS = ["good", "great", "fine", "bad", "poor", "awful", "film", "book", "the", "a"]

def sentences(n, random):
    texts, labels = [], []
    for _ in range(n):
        label = random.randint(2)
        mood = WORDS[:3] if label else WORDS[3:6]
        texts.append(" ".join(random.permutation([random.choice(mood), random.choice(WORDS[6:]), "unknown"])))
        labels.append(label)
    return np.array(texts), np.array(labels, np.float32)

with tf.device(setter):
    texts, labels = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
    words = tf.string_split(texts)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, list(range(len(WORDS))), key_dtype=tf.string,
                                            value_dtype=tf.int64), default_value=len(WORDS))
    ids = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
    embedding = tf.get_variable("embedding", [len(WORDS) + 1, 4],
                                initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
    bag = tf.nn.embedding_lookup_sparse(embedding, ids, None, combiner="mean")
    logits = tf.squeeze(tf.layers.dense(bag, 1, kernel_initializer=tf.glorot_uniform_initializer(seed=2)), 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.5).minimize(loss, step)

random = np.random.RandomState(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    for _ in range(100):
        batch_texts, batch_labels = sentences(32, random)
        _, value = sess.run([train, loss], {texts: batch_texts, labels: batch_labels})
print("RESULT loss=%.4f" % value, flush=True)
