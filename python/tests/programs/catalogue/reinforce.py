# SPDX-License-Identifier: Apache-2.0
"""REINFORCE with a baseline; episodes of different lengths, rewards discounted in the script."""

import argparse

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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

with tf.device(setter):
    states, actions = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
    returns = tf.placeholder(tf.float32, [None])
    hidden = tf.layers.dense(states, 12, tf.nn.tanh, kernel_initializer=tf.glorot_uniform_initializer(seed=1))
    logits = tf.layers.dense(hidden, 2, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    probabilities = tf.nn.softmax(logits)
    baseline = tf.Variable(0.0, trainable=False, name="baseline")
    advantage = returns - baseline
    taken = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
    loss = tf.reduce_mean(taken * tf.stop_gradient(advantage))
    step = tf.train.get_or_create_global_step()
    train = tf.group(tf.train.AdamOptimizer(0.02).minimize(loss, step),
                     baseline.assign_add(0.1 * (tf.reduce_mean(returns) - baseline)))

random = np.random.RandomState(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    scores = []
    for _ in range(120):
        s, a, r = [], [], []
        for _ in range(random.randint(5, 12)):
            state = random.choice([-1.0, 1.0], size=3)
            p = sess.run(probabilities, {states: [state]})[0]
            action = int(random.rand() < p[1])
            s.append(state), a.append(action), r.append(float(action == (state[0] > 0)))
        scores.append(np.mean(r))
        discounted = [sum(0.3 ** k * x for k, x in enumerate(r[i:])) for i in range(len(r))]
        sess.run(train, {states: s, actions: a, returns: discounted})
print("RESULT score=%.3f" % np.mean(scores[-20:]), flush=True)
