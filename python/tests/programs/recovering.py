# SPDX-License-Identifier: Apache-2.0
"""Trains until a file named "stop" is in the folder. The parameter server may be restarted meanwhile."""

import argparse
import os

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.INFO)

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--folder", required=True, help="for checkpoints")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

with tf.device(tf.train.replica_device_setter(cluster=cluster)):
    step = tf.train.get_or_create_global_step()
    train_op = tf.assign_add(step, 1)
with tf.train.MonitoredTrainingSession(server.target, is_chief=FLAGS.task_index == 0, checkpoint_dir=FLAGS.folder,
                                       save_checkpoint_steps=100, save_checkpoint_secs=None) as session:
    while not os.path.exists(os.path.join(FLAGS.folder, "stop")):
        print("step %d" % session.run(train_op), flush=True)
print("done", flush=True)
