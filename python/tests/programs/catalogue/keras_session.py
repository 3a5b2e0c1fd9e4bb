# SPDX-License-Identifier: Apache-2.0
"""A tf.keras model in graph mode whose session is that of a server."""

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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

tf.keras.backend.set_session(tf.Session(server.target, config=config))
tf.set_random_seed(1)
with tf.device(setter):
    initializer = tf.keras.initializers.glorot_uniform(seed=3)
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(32, activation="relu", input_shape=(144,), kernel_initializer=initializer),
        tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(10, activation="softmax",
                                                                    kernel_initializer=initializer)])
    model.compile(optimizer=tf.train.GradientDescentOptimizer(0.1), loss="categorical_crossentropy",
                  metrics=["accuracy"])
digits = Digits()
history = model.fit(digits.images, digits.one_hot, batch_size=50, epochs=5, shuffle=False, verbose=0)
test = Digits(200, seed=9)
loss, accuracy = model.evaluate(test.images, test.one_hot, batch_size=50, verbose=0)
print("RESULT loss=%.4f accuracy=%.4f" % (np.mean(history.history["loss"][-1]), accuracy), flush=True)
