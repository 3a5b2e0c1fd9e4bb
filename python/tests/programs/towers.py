# SPDX-License-Identifier: Apache-2.0
"""Several towers per worker, on devices of their own; gradients averaged, then applied across workers."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--is_sync", action="store_true")
parser.add_argument("--towers", type=int, default=2)
parser.add_argument("--steps", type=int, default=50)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
config = tf.ConfigProto(device_count={"CPU": FLAGS.towers}, allow_soft_placement=True)
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, config=config)


def average_gradients(tower_grads):
    return [(tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0), pairs[0][1]) for pairs in zip(*tower_grads)]


def main():
    if FLAGS.job_name == "ps":
        server.join()
        return
    worker = "/job:worker/task:%d" % FLAGS.task_index
    workers = cluster.num_tasks("worker")
    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.float32, [None, 1])
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
    tower_grads, losses = [], []
    for i, (xs, ys) in enumerate(zip(tf.split(x, FLAGS.towers), tf.split(y, FLAGS.towers))):
        setter = tf.train.replica_device_setter(cluster=cluster, worker_device="%s/gpu:%d" % (worker, i))
        with tf.device(setter), tf.variable_scope("model", reuse=i > 0), tf.name_scope("tower_%d" % i):
            w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(xs, w) - ys))
            losses.append(loss)
            tower_grads.append(optimizer.compute_gradients(loss))
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        if FLAGS.is_sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=workers,
                                                       total_num_replicas=workers)
            hooks.append(optimizer.make_session_run_hook(FLAGS.task_index == 0, num_tokens=0))
        train_op = optimizer.apply_gradients(average_gradients(tower_grads), global_step)
    loss = tf.add_n(losses) / FLAGS.towers
    random = np.random.RandomState(FLAGS.task_index)
    truth = np.array([[1.0], [-2.0], [3.0], [0.5]])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, hooks=hooks, config=config) as sess:
        while not sess.should_stop():
            xs = random.randn(32, 4)
            _, value = sess.run([train_op, loss], {x: xs, y: xs @ truth})
    print("worker %d done, loss %.5f" % (FLAGS.task_index, value), flush=True)


main()
