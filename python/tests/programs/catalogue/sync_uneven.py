# SPDX-License-Identifier: Apache-2.0
"""Synchronous training whose workers do not have the same number of batches."""

import argparse
import os
import signal

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--batches", default="30,10", help="of each worker")
parser.add_argument("--aggregate", type=int, default=0, help="gradients per step; 0: one of each worker")
parser.add_argument("--num_tokens", type=int, default=-1)
parser.add_argument("--raise_after", type=int, default=-1, help="number of batches after which an exception ends the script")
parser.add_argument("--killed", choices=("script", "all"), help="SIGKILL instead of an exception; all: with the server")
parser.add_argument("--supervisor", action="store_true")
parser.add_argument("--stop", action="store_true", help="stop the supervisor inside of its session, which stops it again")
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

workers = cluster.num_tasks("worker")
is_chief = FLAGS.task_index == 0
batches = int(FLAGS.batches.split(",")[FLAGS.task_index])
with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                              worker_device="/job:worker/task:%d" % FLAGS.task_index)):
    global_step = tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=FLAGS.aggregate or workers,
        total_num_replicas=workers)
    train_op = optimizer.minimize(loss, global_step=global_step)
    init_op = tf.global_variables_initializer()

random = np.random.RandomState(FLAGS.task_index)
truth = np.array([[1.0], [-2.0], [3.0], [0.5]])


def train(sess):
    steps = 0
    for _ in range(batches):
        xs = random.randn(32, 4)
        _, value, step = sess.run([train_op, loss, global_step], {x: xs, y: xs @ truth})
        steps += 1
        if steps == FLAGS.raise_after:
            if FLAGS.killed == "script":
                os.kill(os.getpid(), signal.SIGKILL)
            elif FLAGS.killed == "all":
                os.killpg(0, signal.SIGKILL)  # the group has no other task
            raise RuntimeError("no more data")
        print("worker %d batch %d: step %d, loss %.4f" % (FLAGS.task_index, steps, step, value), flush=True)
    return steps


config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
if FLAGS.supervisor:
    init_tokens = optimizer.get_init_tokens_op(FLAGS.num_tokens) if is_chief else None
    local_init = optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
    supervisor = tf.train.Supervisor(is_chief=is_chief, init_op=init_op, local_init_op=local_init,
                                     ready_for_local_init_op=optimizer.ready_for_local_init_op,
                                     recovery_wait_secs=1, global_step=global_step)
    with supervisor.managed_session(server.target, config=config) as session:
        if is_chief:
            supervisor.start_queue_runners(session, [optimizer.get_chief_queue_runner()])
            session.run(init_tokens)
        train(session)
        if FLAGS.stop:
            supervisor.stop()
else:
    hooks = [optimizer.make_session_run_hook(is_chief, num_tokens=FLAGS.num_tokens)]
    with tf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks, config=config) as session:
        train(session)
print("RESULT batches=%d" % batches, flush=True)
