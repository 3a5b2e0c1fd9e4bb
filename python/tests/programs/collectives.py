# SPDX-License-Identifier: Apache-2.0
"""Workers without parameter servers: every one has all variables, and gradients are averaged by an all-reduce.

Each prints what it has got; all print the same.
"""

import argparse
import time

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops, gen_collective_ops

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--elements", type=int, default=1000)
FLAGS = parser.parse_args()

hosts = FLAGS.worker_hosts.split(",")
n, me = len(hosts), FLAGS.task_index
config = tf.ConfigProto()
config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
server = tf.train.Server({"worker": hosts}, job_name="worker", task_index=me, config=config)
config.device_filters.append("/job:worker/task:%d" % me)  # no worker waits for another to begin


def all_reduce(value, key, merge="Add", final="Id"):
    return collective_ops.all_reduce(value, n, 1, key, merge, final)


random = np.random.RandomState(me)
with tf.device("/job:worker/task:%d" % me):
    # Everybody starts with the first worker's weights, and sees other data.
    start = tf.constant(random.normal(size=[FLAGS.elements]).astype(np.float32))
    if me == 0:
        common = collective_ops.broadcast_send(start, start.shape, tf.float32, n, 1, 1)
    else:
        common = collective_ops.broadcast_recv(start.shape, tf.float32, n, 1, 1)
    weights = tf.Variable(tf.zeros([FLAGS.elements]))
    init = tf.assign(weights, common)
    data = tf.placeholder(tf.float32, [FLAGS.elements])
    gradient, = tf.gradients(tf.reduce_sum(tf.square(weights - data)), [weights])
    train = tf.assign_sub(weights, 0.1 * all_reduce(gradient, 2, "Add", "Div"))
    mine = tf.constant([float(me + 1), -2.0 * me])
    of_two = hasattr(collective_ops, "all_reduce_v2")  # TensorFlow 1 has less
    merges = ["Add", "Mul", "Max", "Min"] if of_two else ["Add", "Mul"]
    values = {merge: all_reduce(mine, 3 + i, merge) for i, merge in enumerate(merges)}
    values["ints"] = all_reduce(tf.constant([me + 1, 7 * me], tf.int64), 7, "Add", "Div")
    values["gathered"] = collective_ops.all_gather(tf.constant([[me, me * me]]), n, 1, 8)
    values["empty"] = all_reduce(tf.zeros([0]), 9)
    loop = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, all_reduce(x, 10)), (0, tf.constant(1.0)))
    values["loop"] = loop[1]
    later = {}  # the options of another group, whose keys are tensors
    if of_two:
        later["sum"] = collective_ops.all_reduce_v2(mine, n, 2, 1)
        later["gathered sums"] = collective_ops.all_gather_v2(later["sum"], n, 2, 2)
        parts = tf.constant([[100 * me + i, 7] for i in range(n)], tf.float32)
        exchanged = collective_ops.all_to_all_v2(parts, n, 2, 3)
        later["gathered parts"] = collective_ops.all_gather_v2(exchanged, n, 2, 4)
        size, key = gen_collective_ops.collective_assign_group_v2([list(range(n))], me, 4)
        later["assigned"] = tf.stack([size, key])

with tf.Session(server.target, config=config) as sess:
    sess.run(init)
    for step in range(FLAGS.steps):
        sess.run(train, {data: random.normal(size=[FLAGS.elements]).astype(np.float32)})
    begin = time.time()
    sess.run(train, {data: np.zeros([FLAGS.elements], np.float32)})
    took = time.time() - begin
    for fetches in (values, later):
        for name, value in sorted(sess.run(fetches).items()):
            print("%s = %s" % (name, np.asarray(value).tolist()))
    result = sess.run(weights)
print("weights = %.4f %.4f" % (result.mean(), np.abs(result).mean()))
print("Done: a step took %.1f ms" % (1e3 * took))
