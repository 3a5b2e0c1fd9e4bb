# SPDX-License-Identifier: Apache-2.0
"""Asynchronous training in which every worker has another amount of data, and ends when its own is used up.

The chief goes on until all workers have put a token into its queue, evaluates, and leaves last.
"""

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

workers, is_chief = cluster.num_tasks("worker"), FLAGS.task_index == 0
x, y = linear(n=[900, 150, 420][FLAGS.task_index], seed=FLAGS.task_index)
with tf.device("/job:worker/task:%d" % FLAGS.task_index):
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat(3).shuffle(100, seed=1).batch(16)
    iterator = tf.data.make_initializable_iterator(dataset)
    features, targets = iterator.get_next()
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)):
    w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    examples = tf.get_variable("examples", [], tf.int64, initializer=tf.zeros_initializer(), trainable=False)
    loss = tf.reduce_mean(tf.square(tf.matmul(features, w) - targets))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.02).minimize(loss, global_step=step)
    count = tf.assign_add(examples, tf.shape(features, out_type=tf.int64)[0], use_locking=True)
with tf.device("/job:ps/task:0"):
    done = tf.FIFOQueue(workers, [tf.int32], shapes=[[]], shared_name="done")
    put, take = done.enqueue(FLAGS.task_index), done.dequeue_many(workers - 1)

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
scaffold = tf.train.Scaffold(local_init_op=tf.group(tf.local_variables_initializer(), iterator.initializer))
with tf.train.MonitoredTrainingSession(server.target, is_chief, scaffold=scaffold, config=config) as session:
    batches = 0
    while True:
        try:
            value = session.run([loss, train, count])[0]
            batches += 1
        except tf.errors.OutOfRangeError:
            break
    with tf.Session(server.target, config=config) as last:  # the monitored one has closed itself
        if is_chief:
            last.run(take)
            value, total = last.run([w, examples])
            print("RESULT w0=%.3f examples=%d batches=%d" % (value[0, 0], total, batches), flush=True)
        else:
            last.run(put)
            print("RESULT w0=0 examples=0 batches=%d" % batches, flush=True)
