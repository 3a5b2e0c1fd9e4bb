# SPDX-License-Identifier: Apache-2.0
"""A denoising autoencoder with tied weights and noise from the graph."""

import argparse

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                  worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        x = tf.placeholder(tf.float32, [None, 144])
        corrupted = x + 0.1 * tf.random_normal(tf.shape(x), seed=5)
        W = tf.get_variable("W", [144, 32], initializer=tf.glorot_uniform_initializer(seed=1))
        b = tf.get_variable("b", [32], initializer=tf.zeros_initializer())
        c = tf.get_variable("c", [144], initializer=tf.zeros_initializer())
        hidden = tf.nn.sigmoid(tf.matmul(corrupted, W) + b)
        reconstruction = tf.matmul(hidden, W, transpose_b=True) + c
        cost = tf.reduce_mean(tf.pow(reconstruction - x, 2.0))
        global_step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.005).minimize(cost, global_step)
        init = tf.global_variables_initializer()
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.Session(server.target, config=config) as sess:
        if FLAGS.task_index == 0:
            sess.run(init)
        while sess.run(tf.report_uninitialized_variables()).size:
            pass
        digits = Digits(seed=FLAGS.task_index)
        for epoch in range(10):
            for _ in range(12):
                sess.run(train, {x: digits.next_batch(50)[0]})
        print("RESULT cost=%.4f" % sess.run(cost, {x: Digits(seed=50).images}), flush=True)


main()
