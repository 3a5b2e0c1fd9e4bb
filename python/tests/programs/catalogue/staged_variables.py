# SPDX-License-Identifier: Apache-2.0
"""Variables on parameter servers, read one step ahead into a StagingArea, as tf_cnn_benchmarks' staged_vars does it.

Every worker keeps local copies, in ref variables that are refreshed from the staged values, and pushes gradients of
them to the variables on the parameter servers.
"""

import argparse

import tensorflow.compat.v1 as tf
from tensorflow.python.ops.data_flow_ops import StagingArea

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

worker = "/job:worker/task:%d" % FLAGS.task_index
setter = tf.train.replica_device_setter(cluster=cluster, worker_device=worker)


class StagedGetter:
    """A custom getter that returns the staged value of a variable and collects what must run in every step."""

    def __init__(self):
        self.variables, self.puts, self.staged = [], [], []

    def __call__(self, getter, name, *args, **kwargs):
        variable = getter(name, *args, **kwargs)
        if not kwargs.get("trainable", True):
            return variable
        with tf.device(worker):
            area = StagingArea([variable.dtype.base_dtype], [variable.shape])
            self.puts.append(area.put([tf.identity(variable)]))
            value = area.get()
            value = value[0] if isinstance(value, (list, tuple)) else value
            value = tf.reshape(value, variable.shape)
        self.variables.append(variable)
        self.staged.append(value)
        return value


staged = StagedGetter()
data = Digits(seed=FLAGS.task_index)
with tf.device(setter):
    step = tf.train.get_or_create_global_step()
    images, labels = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.float32, [None, 10])
    with tf.variable_scope("model", custom_getter=staged):
        hidden = tf.nn.relu(tf.matmul(images, tf.get_variable("w1", [144, 32])) +
                            tf.get_variable("b1", [32], initializer=tf.zeros_initializer()))
        logits = tf.matmul(hidden, tf.get_variable("w2", [32, 10])) + \
            tf.get_variable("b2", [10], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1)), tf.float32))
    gradients = tf.gradients(loss, staged.staged)
    apply = tf.train.MomentumOptimizer(0.05, 0.9).apply_gradients(list(zip(gradients, staged.variables)), step)
    train = tf.group(apply, *staged.puts)
    prepare = tf.group(*staged.puts)

config = tf.ConfigProto(device_filters=["/job:ps", worker])
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as sess:
    sess.run(prepare)
    for _ in range(120):
        x, y = data.next_batch(32)
        _, value = sess.run([train, accuracy], {images: x, labels: y})
print("RESULT accuracy=%.4f" % value, flush=True)
