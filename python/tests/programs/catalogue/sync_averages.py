# SPDX-License-Identifier: Apache-2.0
"""Synchronous training with a backup worker and moving averages of the variables, as Inception was trained."""

import argparse

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

with tf.device(setter):
    images, labels = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.float32, [None, 10])
    hidden = tf.layers.dense(images, 32, tf.nn.relu, kernel_regularizer=lambda w: 1e-4 * tf.nn.l2_loss(w))
    logits = tf.layers.dense(hidden, 10)
    tf.losses.softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    step = tf.train.get_or_create_global_step()
    averages = tf.train.ExponentialMovingAverage(0.9, step)
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.RMSPropOptimizer(0.005, momentum=0.5), replicas_to_aggregate=cluster.num_tasks("worker") - 1,
        total_num_replicas=cluster.num_tasks("worker"), variable_averages=averages,
        variables_to_average=tf.trainable_variables())
    gradients = optimizer.compute_gradients(loss)
    train = optimizer.apply_gradients(gradients, global_step=step)

data = Digits(seed=FLAGS.task_index)
hooks = [optimizer.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=80)]
with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks, config=config) as sess:
    while not sess.should_stop():
        xs, ys = data.next_batch(32)
        _, value = sess.run([train, loss], {images: xs, labels: ys})
print("RESULT loss=%.4f" % value, flush=True)
