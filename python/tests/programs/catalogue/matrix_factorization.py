# SPDX-License-Identifier: Apache-2.0
"""Factors of a matrix of ratings: embeddings divided over the parameter servers, sparse updates with Adagrad."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import ratings

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

ps_hosts, worker_hosts = FLAGS.ps_hosts.split(","), FLAGS.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)

if FLAGS.job_name == "ps":
    server.join()
else:
    with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                  worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        user, item = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
        rating = tf.placeholder(tf.float32, [None])
        partitioner = tf.fixed_size_partitioner(len(ps_hosts))
        with tf.variable_scope("factors", partitioner=partitioner,
                               initializer=tf.random_normal_initializer(stddev=0.3, seed=1)):
            users = tf.get_variable("users", [40, 4])
            items = tf.get_variable("items", [30, 4])
        p = tf.nn.embedding_lookup(users, user, partition_strategy="div")
        q = tf.nn.embedding_lookup(items, item, partition_strategy="div")
        prediction = tf.reduce_sum(p * q, 1)
        loss = tf.reduce_mean(tf.square(prediction - rating))
        regularized = loss + 1e-4 * (tf.nn.l2_loss(p) + tf.nn.l2_loss(q))
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.3).minimize(regularized, global_step=global_step)
    us, vs, rs = ratings(seed=FLAGS.task_index)
    random = np.random.RandomState(FLAGS.task_index)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config,
                                           hooks=[tf.train.StopAtStepHook(last_step=500)]) as sess:
        while not sess.should_stop():
            at = random.randint(len(us), size=64)
            _, value = sess.run([train_op, loss], {user: us[at], item: vs[at], rating: rs[at]})
    print("RESULT loss=%.4f" % value, flush=True)
