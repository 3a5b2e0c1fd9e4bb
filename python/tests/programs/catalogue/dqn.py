# SPDX-License-Identifier: Apache-2.0
"""Deep Q-learning with a replay memory and a target network that is copied now and then."""

import argparse
import collections

import numpy as np
import tensorflow.compat.v1 as tf

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

LENGTH = 5  # a corridor: the last cell pays


def q_network(state, scope):
    with tf.variable_scope(scope):
        hidden = tf.layers.dense(state, 16, tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(seed=1))
        return tf.layers.dense(hidden, 2, kernel_initializer=tf.glorot_uniform_initializer(seed=2))


with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                              worker_device="/job:worker/task:%d" % FLAGS.task_index)):
    state, after = tf.placeholder(tf.float32, [None, LENGTH]), tf.placeholder(tf.float32, [None, LENGTH])
    action, reward = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
    ended = tf.placeholder(tf.float32, [None])
    q, target = q_network(state, "online"), q_network(after, "target")
    chosen = tf.reduce_sum(q * tf.one_hot(action, 2), 1)
    goal = reward + 0.9 * (1 - ended) * tf.reduce_max(tf.stop_gradient(target), 1)
    loss = tf.losses.huber_loss(goal, chosen)
    step = tf.train.get_or_create_global_step()
    online = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "online")
    train = tf.train.AdamOptimizer(0.01).minimize(loss, step, var_list=online)
    copy = [t.assign(o) for t, o in zip(tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "target"), online)]

random, memory = np.random.RandomState(FLAGS.task_index), collections.deque(maxlen=500)
one_hot = np.eye(LENGTH)
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as sess:
    for episode in range(60):
        at = 0
        for _ in range(10):
            if random.rand() < 0.3:
                move = random.randint(2)
            else:
                move = int(np.argmax(sess.run(q, {state: one_hot[[at]]})))
            to = max(0, at - 1) if move == 0 else at + 1
            done = to == LENGTH - 1
            memory.append((at, move, float(done), to, float(done)))
            at = to
            if done:
                break
        s, a, r, t, e = (np.array(v) for v in zip(*[memory[i] for i in random.randint(len(memory), size=32)]))
        sess.run(train, {state: one_hot[s], action: a, reward: r, after: one_hot[t], ended: e})
        if episode % 5 == 0:
            sess.run(copy)
    values = sess.run(q, {state: one_hot[:LENGTH - 1]})
print("RESULT right=%.2f" % np.mean(values[:, 1] > values[:, 0]), flush=True)
