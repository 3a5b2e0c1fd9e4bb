# SPDX-License-Identifier: Apache-2.0
"""Wide and deep for click-through rates: hashed crosses with FTRL, embeddings and a tower with Adagrad."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()


def batch(n, random):
    user, item = random.randint(50, size=n), random.randint(20, size=n)
    price = random.rand(n, 1)
    click = ((user % 3 == item % 3) | (price[:, 0] < 0.2)).astype(np.float32)
    return user, item, price, click


def main():
    ps = FLAGS.ps_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps, "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    greedy = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
    with tf.device(greedy):
        user, item = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        price, click = tf.placeholder(tf.float32, [None, 1]), tf.placeholder(tf.float32, [None])
        crossed = tf.strings.to_hash_bucket_fast(tf.strings.join([tf.as_string(user), tf.as_string(item)], "x"), 500)
        with tf.variable_scope("wide"):
            weights = tf.get_variable("weights", [500, 1], initializer=tf.zeros_initializer(),
                                      partitioner=tf.fixed_size_partitioner(len(ps)))
            wide = tf.nn.embedding_lookup(weights, crossed, partition_strategy="div")
        with tf.variable_scope("deep"):
            users = tf.get_variable("users", [50, 8], initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
            items = tf.get_variable("items", [20, 8], initializer=tf.random_normal_initializer(stddev=0.1, seed=2))
            net = tf.concat([tf.nn.embedding_lookup(users, user), tf.nn.embedding_lookup(items, item), price], 1)
            for i, units in enumerate([32, 16]):
                net = tf.layers.dense(net, units, tf.nn.relu, name="layer_%d" % i)
            deep = tf.layers.dense(net, 1)
        logits = tf.squeeze(wide + deep, 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=click, logits=logits))
        step = tf.train.get_or_create_global_step()
        variables = tf.trainable_variables()
        train = tf.group(
            tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.001).minimize(
                loss, var_list=[v for v in variables if v.name.startswith("wide")]),
            tf.train.AdagradOptimizer(0.1).minimize(
                loss, var_list=[v for v in variables if v.name.startswith("deep")], global_step=step))
        auc, update_auc = tf.metrics.auc(click, tf.sigmoid(logits))
    random = np.random.RandomState(FLAGS.task_index)
    local = tf.train.Scaffold(local_init_op=tf.local_variables_initializer())
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config, scaffold=local,
                                           hooks=[tf.train.StopAtStepHook(last_step=250)]) as sess:
        while not sess.should_stop():
            u, i, p, c = batch(100, random)
            feed = {user: u, item: i, price: p, click: c}
            _, value, area = sess.run([train, loss, update_auc], feed)
    print("RESULT loss=%.4f auc=%.4f" % (value, area), flush=True)


main()
