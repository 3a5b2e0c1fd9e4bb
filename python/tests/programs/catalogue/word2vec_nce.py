# SPDX-License-Identifier: Apache-2.0
"""Skip-grams with noise-contrastive estimation, as in the word2vec tutorial; tables on the parameter server."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import words

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

VOCABULARY, SIZE = 30, 16


def skip_grams(ids, batch, random):
    center = random.randint(1, len(ids) - 1, size=batch)
    context = center + random.choice([-1, 1], size=batch)
    return ids[center], ids[context].reshape(batch, 1)


tf.set_random_seed(42)
with tf.device("/job:ps/task:0"):
    embeddings = tf.Variable(tf.random_uniform([VOCABULARY, SIZE], -1.0, 1.0, seed=1), name="embeddings")
    nce_weights = tf.Variable(tf.truncated_normal([VOCABULARY, SIZE], stddev=0.25, seed=2), name="nce_weights")
    nce_biases = tf.Variable(tf.zeros([VOCABULARY]), name="nce_biases")
    global_step = tf.train.get_or_create_global_step()
with tf.device("/job:worker/task:%d" % FLAGS.task_index):
    inputs = tf.placeholder(tf.int32, [64])
    labels = tf.placeholder(tf.int32, [64, 1])
    embed = tf.nn.embedding_lookup(embeddings, inputs)
    loss = tf.reduce_mean(tf.nn.nce_loss(weights=nce_weights, biases=nce_biases, labels=labels, inputs=embed,
                                         num_sampled=8, num_classes=VOCABULARY))
    optimizer = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    similarity = tf.matmul(embeddings / norm, embeddings / norm, transpose_b=True)

ids, random = words(3000, VOCABULARY), np.random.RandomState(FLAGS.task_index)
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as session:
    average = 0.0
    for step in range(300):
        batch_inputs, batch_labels = skip_grams(ids, 64, random)
        _, value = session.run([optimizer, loss], {inputs: batch_inputs, labels: batch_labels})
        average = 0.98 * average + 0.02 * value if step else value
    trace = np.trace(session.run(similarity))
print("RESULT loss=%.4f trace=%.3f" % (average, trace), flush=True)
