# SPDX-License-Identifier: Apache-2.0
"""Trains a few steps in a cluster of one task, and then waits in a step for ever."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
parser = argparse.ArgumentParser()
parser.add_argument("--port", required=True)
args = parser.parse_args()

server = tf.train.Server({"worker": ["localhost:" + args.port]}, "worker", 0)
step = tf.train.get_or_create_global_step()
weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
loss = tf.square(weight - 1)
train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
summary = tf.summary.scalar("observed_loss", loss)
never = tf.FIFOQueue(1, [tf.float32], [[]]).dequeue()
with tf.train.MonitoredTrainingSession(server.target, hooks=[tf.train.StopAtStepHook(last_step=1000000)]) as session:
    for _ in range(20):
        session.run([train, summary])
    print("trained", flush=True)
    session.run(never)
