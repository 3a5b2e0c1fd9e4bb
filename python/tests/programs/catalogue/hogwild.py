# SPDX-License-Identifier: Apache-2.0
"""Several threads of one process train the same variables without locks; the main thread watches the step."""

import argparse
import threading
import time

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

with tf.device(setter):
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.02, use_locking=False).minimize(loss, step)

stop = threading.Event()

def work(sess, seed):
    xs, ys = linear(64, seed=seed)
    while not stop.is_set():
        sess.run(train, {x: xs, y: ys})

sess = tf.Session(server.target, config=config)
if is_chief:
    sess.run(tf.global_variables_initializer())
while sess.run(tf.report_uninitialized_variables()).size:
    time.sleep(0.1)
threads = [threading.Thread(target=work, args=(sess, 4 * FLAGS.task_index + i)) for i in range(3)]
for thread in threads:
    thread.start()
while sess.run(step) < 400:
    time.sleep(0.05)
stop.set()
for thread in threads:
    thread.join()
xs, ys = linear(100, seed=50)
print("RESULT loss=%.5f" % sess.run(loss, {x: xs, y: ys}), flush=True)
