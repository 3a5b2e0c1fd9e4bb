# SPDX-License-Identifier: Apache-2.0
"""Examples that Python makes: a generator, tf.py_func in a map, and a py_func in the loss."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import Digits

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


def examples():
    digits = Digits(400, seed=FLAGS.task_index)
    while True:
        for image, label in zip(digits.images, digits.labels):
            yield image, label


def weights(losses):
    """Hard examples count twice."""
    return np.where(losses > np.median(losses), 2, 1).astype(np.float32)


with tf.device("/job:worker/task:%d" % FLAGS.task_index):
    data = tf.data.Dataset.from_generator(examples, (tf.float32, tf.int64), ([144], []))
    data = data.map(lambda x, y: (tf.py_func(lambda a: (a * 0.5).astype(np.float32), [x], tf.float32), y))
    images, labels = data.batch(50).prefetch(2).make_one_shot_iterator().get_next()
    images.set_shape([None, 144])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
with tf.device(setter):
    tf.set_random_seed(1)
    logits = tf.layers.dense(tf.layers.dense(images, 32, tf.nn.relu), 10)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    weight = tf.py_func(weights, [losses], tf.float32)
    loss = tf.reduce_mean(losses * tf.stop_gradient(weight))
    accuracy = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1), labels)))
    train = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_or_create_global_step())

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as sess:
    for _ in range(120):
        _, value, right = sess.run([train, loss, accuracy])
print("RESULT loss=%.4f accuracy=%.4f" % (value, right), flush=True)
