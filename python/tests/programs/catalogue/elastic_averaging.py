# SPDX-License-Identifier: Apache-2.0
"""Optimizers of tf.contrib.opt that keep local copies of the model: elastic averaging, model averaging, AGN."""

import argparse

import numpy as np
import tensorflow as tf

from toy_data import linear

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--optimizer", choices=["elastic", "average", "agn"], default="elastic")
FLAGS = parser.parse_args()
workers = FLAGS.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": workers})
server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()
device = "/job:worker/task:%d/cpu:0" % FLAGS.task_index
is_chief = FLAGS.task_index == 0
opt = tf.contrib.opt
getter = {"elastic": opt.ElasticAverageCustomGetter, "average": opt.ModelAverageCustomGetter,
          "agn": opt.AGNCustomGetter}[FLAGS.optimizer](worker_device=device)
setter = tf.train.replica_device_setter(cluster=cluster, worker_device=device, ps_device="/job:ps/cpu:0")
with tf.device(setter), tf.variable_scope("", custom_getter=getter):
    step = tf.Variable(0, name="global_step", trainable=False, dtype=tf.int64)
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    xs, ys = linear(256, seed=FLAGS.task_index)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    inner = tf.train.GradientDescentOptimizer(0.05)
    if FLAGS.optimizer == "elastic":
        optimizer = opt.ElasticAverageOptimizer(inner, num_worker=len(workers), ea_custom_getter=getter,
                                                communication_period=5)
        hook = optimizer.make_session_run_hook(is_chief, FLAGS.task_index)
    elif FLAGS.optimizer == "average":
        optimizer = opt.ModelAverageOptimizer(inner, num_worker=len(workers), is_chief=is_chief,
                                              ma_custom_getter=getter, interval_steps=5)
        hook = optimizer.make_session_run_hook()
    else:
        optimizer = opt.AGNOptimizer(tf.train.AdamOptimizer(0.05), num_worker=len(workers), custom_getter=getter,
                                     communication_period=5)
        hook = optimizer.make_session_run_hook(is_chief, FLAGS.task_index)
    train = optimizer.apply_gradients(optimizer.compute_gradients(loss, [w, b]), step)
with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=[hook]) as session:
    for i in range(150):
        part = np.arange(32) + 32 * (i % 8)
        value, _ = session.run([loss, train], {x: xs[part], y: ys[part]})
print("RESULT loss=%.4f" % value, flush=True)
