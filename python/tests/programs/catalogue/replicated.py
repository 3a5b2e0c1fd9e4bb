# SPDX-License-Identifier: Apache-2.0
"""Replicas of the variables on every worker, copied from the parameter servers behind a barrier of queues."""

import argparse

import tensorflow.compat.v1 as tf

from toy_data import linear

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

workers = cluster.num_tasks("worker")

def barrier(name):
    """Ends when all workers have come, as tf_cnn_benchmarks does it."""
    with tf.device("/job:ps/task:0"):
        queues = [tf.FIFOQueue(workers, [tf.bool], shapes=[[]], name="%s_%d" % (name, i),
                               shared_name="%s_%d" % (name, i)) for i in range(workers)]
        with tf.control_dependencies([]):
            tokens = [q.enqueue(False) for i, q in enumerate(queues) if i != FLAGS.task_index]
        with tf.control_dependencies(tokens):
            return queues[FLAGS.task_index].dequeue_many(workers - 1)

with tf.device("/job:ps/task:0"):
    shared = tf.get_variable("shared", [4, 1], initializer=tf.zeros_initializer(), use_resource=False)
    step = tf.train.get_or_create_global_step()
with tf.device("/job:worker/task:%d" % FLAGS.task_index):
    local = tf.get_variable("local", [4, 1], initializer=tf.zeros_initializer(), use_resource=False,
                            collections=[tf.GraphKeys.LOCAL_VARIABLES])
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, local) - y))
    gradient, = tf.gradients(loss, [local])
with tf.device("/job:ps/task:0"):
    update = shared.assign_sub(0.1 / workers * gradient, use_locking=True)
with tf.control_dependencies([update]):
    updated = barrier("updated")
with tf.control_dependencies([updated]), tf.device("/job:worker/task:%d" % FLAGS.task_index):
    copied = local.assign(shared.read_value())
with tf.control_dependencies([copied]):
    train = barrier("copied")

xs, ys = linear(64, seed=FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    for _ in range(60):
        value = sess.run([loss, train], {x: xs, y: ys})[0]
    w = sess.run(local)
print("RESULT loss=%.5f w0=%.4f" % (value, w[0, 0]), flush=True)
