# SPDX-License-Identifier: Apache-2.0
"""Worker 0 runs functions on worker 1's task: that is where worker 1's script has them."""

import argparse
import threading

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"worker": FLAGS.worker_hosts.split(",")})
server = v1.train.Server(cluster, job_name="worker", task_index=FLAGS.task_index)


def waits():
    print("waits", flush=True)
    threading.Event().wait()


with tf.device("/job:worker/task:1"):
    who = v1.py_func(lambda: np.int64(FLAGS.task_index), [], tf.int64)
    stuck = v1.py_func(waits, [], [])
if FLAGS.task_index == 0:
    with tf.device("/job:worker/task:1"):
        unknown = v1.py_func(lambda: np.int64(0), [], tf.int64)
    with v1.Session(server.target) as session:
        print("the function of", session.run(who))
        try:
            session.run(unknown)
        except tf.errors.InvalidArgumentError as error:
            print("unknown:", "pyfunc_2" in str(error), flush=True)
        try:
            session.run(stuck)
        except tf.errors.UnavailableError as error:
            print("unavailable:", error, flush=True)
else:
    server.join()
