# SPDX-License-Identifier: Apache-2.0
"""A job that Ctrl-C ends: its worker saves what it has, some seconds later."""

import argparse
import os
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--folder", default=".")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

with tf.device(tf.train.replica_device_setter(cluster=cluster)):
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    saver = tf.train.Saver()
with tf.Session(server.target) as sess:
    sess.run(tf.global_variables_initializer())
    try:
        while sess.run(train) != 10:
            pass
        print("running", flush=True)
        while True:
            sess.run(train)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        for _ in range(20):  # goes on for 2 s: the parameter server waits for a pause
            sess.run(train)
            time.sleep(0.1)
        print("saved", saver.save(sess, os.path.join(FLAGS.folder, "model")), flush=True)
