# SPDX-License-Identifier: Apache-2.0
"""Input through queues: slice_input_producer, shuffle_batch and start_queue_runners with a Coordinator."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", type=lambda s: s.split(","))
parser.add_argument("--worker_hosts", type=lambda s: s.split(","))
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
args = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": args.ps_hosts, "worker": args.worker_hosts})
server = tf.train.Server(cluster, job_name=args.job_name, task_index=args.task_index)
if args.job_name == "ps":
    server.join()

digits = Digits(seed=args.task_index)
with tf.device("/job:worker/task:%d/cpu:0" % args.task_index):
    image, label = tf.train.slice_input_producer([digits.images, digits.labels], shuffle=True, seed=1)
    images, labels = tf.train.shuffle_batch([image, label], batch_size=32, capacity=200, min_after_dequeue=100,
                                            num_threads=2, seed=2)
with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                              worker_device="/job:worker/task:%d" % args.task_index)):
    global_step = tf.train.create_global_step()
    w1 = tf.get_variable("w1", [144, 64], initializer=tf.truncated_normal_initializer(stddev=0.1, seed=3))
    b1 = tf.get_variable("b1", [64], initializer=tf.zeros_initializer())
    w2 = tf.get_variable("w2", [64, 10], initializer=tf.truncated_normal_initializer(stddev=0.1, seed=4))
    b2 = tf.get_variable("b2", [10], initializer=tf.zeros_initializer())
    hidden = tf.nn.relu(tf.nn.xw_plus_b(images, w1, b1))
    logits = tf.nn.xw_plus_b(hidden, w2, b2)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=global_step)

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % args.task_index])
scaffold = tf.train.Scaffold(local_init_op=tf.local_variables_initializer())
creator = (tf.train.ChiefSessionCreator if args.task_index == 0 else tf.train.WorkerSessionCreator)(
    scaffold, master=server.target, config=config)
losses = []
session = creator.create_session()
coord = tf.train.Coordinator()
threads = tf.train.start_queue_runners(sess=session, coord=coord)
try:
    step = 0
    while not coord.should_stop() and step < 150:
        _, value, step = session.run([train_op, loss, global_step])
        losses.append(value)
except tf.errors.OutOfRangeError:
    print("no more data")
finally:
    coord.request_stop()
coord.join(threads)
print("RESULT loss=%.4f" % np.mean(losses[-5:]), flush=True)
