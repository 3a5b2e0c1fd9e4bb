# SPDX-License-Identifier: Apache-2.0
"""A job that ends: the parameter server's join() ends the script when all workers have ended well."""

import argparse
import os
import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--bad", type=int, default=-1, help="the worker that fails")
parser.add_argument("--how", default="sys.exit", help="how it fails")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})


def work():
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        raise AssertionError("join() has returned")
    with tf.device("/job:ps/task:0"):
        counter = tf.get_variable("counter", [], tf.int32, use_resource=False)
        count = tf.cond(tf.is_variable_initialized(counter), lambda: tf.assign_add(counter, 1),
                        lambda: tf.assign(counter, 1))
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.Session(server.target, config=config) as session:
        if FLAGS.task_index == FLAGS.bad:
            session.run(tf.constant(0))
            {"sys.exit": sys.exit, "exit": exit, "os._exit": os._exit}[FLAGS.how](3)
        print("counted to %d" % session.run(count), flush=True)


work()
