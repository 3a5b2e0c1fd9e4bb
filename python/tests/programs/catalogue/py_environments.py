# SPDX-License-Identifier: Apache-2.0
"""Actors whose environment is Python code inside the graph, as in IMPALA and batched A2C.

An actor unrolls its environment in a loop of the graph (tf.scan over tf.py_func) and enqueues whole unrolls into a queue
on the parameter server. Worker 0 is the learner: it dequeues batches of unrolls and trains the policy that actors read.
"""

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

UNROLL, UNROLLS, BATCH = 8, 60, 4
cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

is_learner = FLAGS.task_index == 0
actors = cluster.num_tasks("worker") - 1
worker = "/job:worker/task:%d" % FLAGS.task_index


class Environment:
    """One of four contexts is shown; the action with the same number is worth 1, the others nothing."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.context = 0

    def step(self, action):
        reward = np.float32(action == self.context)
        self.context = self.random.randint(4)
        return reward, np.eye(4, dtype=np.float32)[self.context]


with tf.device("/job:ps/task:0"):
    queue = tf.FIFOQueue(2 * BATCH, [tf.float32, tf.int64, tf.float32], shapes=[[UNROLL, 4], [UNROLL], [UNROLL]],
                         shared_name="unrolls")
    w = tf.get_variable("w", [4, 4], initializer=tf.zeros_initializer(), use_resource=True)
    step = tf.train.get_or_create_global_step()

with tf.device(worker):
    if is_learner:
        observations, actions, rewards = queue.dequeue_many(BATCH)
        logits = tf.tensordot(observations, w, 1)
        chosen = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
        loss = tf.reduce_mean(chosen * (rewards - 0.25))
        train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
        mean_reward = tf.reduce_mean(rewards)
    else:
        environment = Environment(FLAGS.task_index)

        def act(state, _):
            _, observation, _, _ = state
            action = tf.random.categorical(tf.matmul(observation[None], w), 1, seed=FLAGS.task_index)[0, 0]
            reward, following = tf.py_func(environment.step, [action], [tf.float32, tf.float32], stateful=True)
            return observation, tf.reshape(following, [4]), action, tf.reshape(reward, [])

        start = (tf.zeros([4]), tf.one_hot(0, 4), tf.constant(0, tf.int64), tf.constant(0.0))
        seen, _, taken, earned = tf.scan(act, tf.range(UNROLL), start, parallel_iterations=1)
        enqueue = queue.enqueue([seen, taken, earned])

config = tf.ConfigProto(device_filters=["/job:ps", worker])
with tf.train.MonitoredTrainingSession(server.target, is_learner, config=config) as sess:
    if is_learner:
        history = []
        for _ in range(actors * UNROLLS // BATCH):
            history.append(sess.run([train, mean_reward])[1])
        print("RESULT reward=%.4f" % np.mean(history[-4:]), flush=True)
    else:
        for _ in range(UNROLLS):
            sess.run(enqueue)
        print("RESULT reward=0", flush=True)
