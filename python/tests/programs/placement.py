# SPDX-License-Identifier: Apache-2.0
"""Prints where nodes run that leave it open, for a session on every task."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
TASKS = [("ps", 0), ("worker", 0), ("worker", 1)]
servers = [tf.train.Server(cluster, job_name=job, task_index=index) for job, index in TASKS]

with tf.device("/cpu:0"):
    v = tf.Variable(1.0, name="on_a_cpu")
anywhere = tf.Variable(2.0, name="anywhere")
with tf.device("/job:worker"):
    working = tf.Variable(3.0, name="in_a_job")
product = tf.multiply(v, anywhere, name="product")

for task, server in zip(TASKS, servers):
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        trace = tf.RunMetadata()
        session.run([product, working], options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=trace)
        devices = {node.node_name: device.device for device in trace.step_stats.dev_stats
                   for node in device.node_stats}
        for name in ("on_a_cpu", "anywhere", "in_a_job", "product"):
            print("RESULT", task, name, devices[name])
