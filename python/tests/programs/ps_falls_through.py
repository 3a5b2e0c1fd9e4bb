# SPDX-License-Identifier: Apache-2.0
"""A parameter server without `else`: in TensorFlow join() never returns, so that nobody misses it."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    ready = tf.Session(server.target, config=tf.ConfigProto(device_filters=["/job:ps"]))  # it stays open
    server.join()

print("%s does the work of a worker" % FLAGS.job_name, flush=True)
with tf.device("/job:ps/task:0"):
    steps = tf.get_variable("steps", [], tf.int32, tf.zeros_initializer(), use_resource=False)
with tf.Session(server.target) as sess:
    sess.run(tf.global_variables_initializer())
    print("step %d" % sess.run(steps.assign_add(1)), flush=True)
