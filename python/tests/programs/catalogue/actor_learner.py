# SPDX-License-Identifier: Apache-2.0
"""Actors and a learner, as in IMPALA: actors put trajectories into a queue of the learner, which trains."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", help="the learner")
parser.add_argument("--worker_hosts", help="the actors")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"learner": FLAGS.ps_hosts.split(","), "actor": FLAGS.worker_hosts.split(",")})
job = "learner" if FLAGS.job_name == "ps" else "actor"
server = tf.train.Server(cluster, job_name=job, task_index=FLAGS.task_index)
actors, trajectories = cluster.num_tasks("actor"), 40
filters = ["/job:learner/task:0", "/job:%s/task:%d" % (job, FLAGS.task_index)]

with tf.device("/job:learner/task:0"):
    queue = tf.FIFOQueue(4, [tf.float32, tf.float32], shapes=[[20, 3], [20]], shared_name="trajectories")
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer(), use_resource=True)
    step = tf.train.get_or_create_global_step()

if job == "learner":
    features, rewards = queue.dequeue_many(2)
    prediction = tf.tensordot(features, w, 1)[:, :, 0]
    loss = tf.reduce_mean(tf.square(prediction - rewards))
    train = tf.train.RMSPropOptimizer(0.02).minimize(loss, step)
    config = tf.ConfigProto(device_filters=["/job:learner/task:0"])
    with tf.train.MonitoredTrainingSession(server.target, is_chief=True, config=config) as sess:
        for _ in range(actors * trajectories // 2):
            _, value = sess.run([train, loss])
    print("RESULT loss=%.4f" % value, flush=True)
else:
    features, rewards = tf.placeholder(tf.float32, [20, 3]), tf.placeholder(tf.float32, [20])
    enqueue = queue.enqueue([features, rewards])
    random, truth = np.random.RandomState(FLAGS.task_index), np.array([1.0, -0.5, 0.25])
    config = tf.ConfigProto(device_filters=filters)
    with tf.train.MonitoredTrainingSession(server.target, is_chief=False, config=config) as sess:
        for _ in range(trajectories):
            x = random.randn(20, 3)
            sess.run(enqueue, {features: x, rewards: x @ truth})
    print("RESULT loss=0", flush=True)
