# SPDX-License-Identifier: Apache-2.0
"""A server that only joins; clients come from elsewhere."""

import argparse

import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index).join()
