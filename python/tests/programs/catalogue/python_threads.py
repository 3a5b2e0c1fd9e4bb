# SPDX-License-Identifier: Apache-2.0
"""Threads of the script fill a queue by feeding placeholders; the training takes batches from it."""

import argparse
import threading

import tensorflow.compat.v1 as tf

from toy_data import Digits

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

worker = "/job:worker/task:%d" % FLAGS.task_index
with tf.device(worker):
    image, label = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.float32, [None, 10])
    queue = tf.RandomShuffleQueue(300, 50, [tf.float32, tf.float32], shapes=[[144], [10]])
    enqueue = queue.enqueue_many([image, label])
    close = queue.close(cancel_pending_enqueues=True)
    images, labels = queue.dequeue_many(32)
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
    step = tf.train.get_or_create_global_step()
    logits = tf.layers.dense(tf.layers.dense(images, 32, tf.nn.tanh), 10)
    loss = tf.losses.softmax_cross_entropy(labels, logits)
    train = tf.train.AdamOptimizer(0.01).minimize(loss, step)


def feed(sess, coord, seed):
    data = Digits(seed=seed)
    while not coord.should_stop():
        xs, ys = data.next_batch(20)
        try:
            sess.run(enqueue, {image: xs, label: ys})
        except tf.errors.CancelledError:
            return


sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, recovery_wait_secs=1)
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
sess = sv.prepare_or_wait_for_session(server.target, config=config)
threads = [threading.Thread(target=feed, args=(sess, sv.coord, 10 * FLAGS.task_index + i)) for i in range(2)]
for thread in threads:
    thread.daemon = True
    thread.start()
for _ in range(100):
    _, value = sess.run([train, loss])
sv.request_stop()
sess.run(close)
sv.coord.join(threads)
sess.close()
print("RESULT loss=%.4f" % value, flush=True)
