# SPDX-License-Identifier: Apache-2.0
"""A parameter server that leaves: it dequeues once per worker, each worker enqueues when it is done."""

import argparse

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
workers = cluster.num_tasks("worker")
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)


def done_queue(i):
    with tf.device("/job:ps/task:%d" % i):
        return tf.FIFOQueue(workers, tf.int32, shared_name="done_queue%d" % i)


if FLAGS.job_name == "ps":
    dequeue = done_queue(FLAGS.task_index).dequeue()
    # A session waits for all tasks that it may use, and workers that are quick are gone before it has seen them.
    own = tf.ConfigProto(device_filters=["/job:ps/task:%d" % FLAGS.task_index])
    with tf.Session(server.target, config=own) as sess:
        for i in range(workers):
            sess.run(dequeue)
            print("ps %d received done %d" % (FLAGS.task_index, i), flush=True)
else:
    with tf.device(tf.train.replica_device_setter(
            cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        counter = tf.get_variable("counter", [], tf.int32, tf.zeros_initializer())
        add = counter.assign_add(1, use_locking=True)
        enqueues = [done_queue(i).enqueue(1) for i in range(cluster.num_tasks("ps"))]
    init = tf.global_variables_initializer()
    sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, init_op=init, recovery_wait_secs=1)
    own = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with sv.managed_session(server.target, config=own, start_standard_services=False) as sess:
        for _ in range(10):
            value = sess.run(add)
        print("worker %d counted to %d" % (FLAGS.task_index, value), flush=True)
        for op in enqueues:
            sess.run(op)
