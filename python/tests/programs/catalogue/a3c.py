# SPDX-License-Identifier: Apache-2.0
"""Asynchronous actor-critic: threads of each worker process play, and update the shared network on the ps."""

import argparse
import threading

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--threads", type=int, default=2)
FLAGS = parser.parse_args()


class Bandit:
    """The state tells which of two arms pays."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def reset(self):
        self.state = self.random.randint(2)
        return np.eye(2)[self.state]

    def step(self, action):
        return float(action == self.state)


class Network:

    def __init__(self, scope, shared=None, optimizer=None, global_step=None):
        with tf.variable_scope(scope):
            self.state = tf.placeholder(tf.float32, [None, 2])
            hidden = tf.layers.dense(self.state, 16, tf.nn.elu, name="hidden")
            self.policy = tf.layers.dense(hidden, 2, tf.nn.softmax, name="policy")
            self.value = tf.layers.dense(hidden, 1, name="value")
        self.vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)
        if shared is None:
            return
        self.action = tf.placeholder(tf.int32, [None])
        self.reward = tf.placeholder(tf.float32, [None])
        advantage = self.reward - tf.squeeze(self.value, 1)
        chosen = tf.reduce_sum(self.policy * tf.one_hot(self.action, 2), 1)
        entropy = -tf.reduce_sum(self.policy * tf.log(self.policy + 1e-8))
        loss = (0.5 * tf.reduce_sum(tf.square(advantage)) - 0.01 * entropy -
                tf.reduce_sum(tf.log(chosen + 1e-8) * tf.stop_gradient(advantage)))
        grads, _ = tf.clip_by_global_norm(tf.gradients(loss, self.vars), 40.0)
        self.apply = optimizer.apply_gradients(list(zip(grads, shared.vars)), global_step)
        self.pull = tf.group(*[mine.assign(theirs) for mine, theirs in zip(self.vars, shared.vars)])


def play(sess, coord, network, env, episodes, rewards):
    with coord.stop_on_exception():
        for _ in range(episodes):
            if coord.should_stop():
                return
            sess.run(network.pull)
            states = np.stack([env.reset() for _ in range(1)])
            batch = {"s": [], "a": [], "r": []}
            for _ in range(8):
                policy = sess.run(network.policy, {network.state: states})[0]
                action = env.random.choice(2, p=policy / policy.sum())
                batch["s"].append(states[0]), batch["a"].append(action), batch["r"].append(env.step(action))
                states = env.reset()[None]
            rewards.append(np.mean(batch["r"]))
            sess.run(network.apply, {network.state: np.array(batch["s"]), network.action: batch["a"],
                                     network.reward: batch["r"]})


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    worker_device = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(tf.train.replica_device_setter(1, worker_device=worker_device)):
        shared = Network("global")
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.RMSPropOptimizer(0.01, decay=0.99)
    with tf.device(worker_device):
        networks = [Network("worker_%d_%d" % (FLAGS.task_index, i), shared, optimizer, global_step)
                    for i in range(FLAGS.threads)]
    mine = [v for v in tf.global_variables() if v.name.startswith("worker_")]
    common = [v for v in tf.global_variables() if v not in mine]
    sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, init_op=tf.variables_initializer(common),
                             local_init_op=tf.variables_initializer(mine),
                             ready_op=tf.report_uninitialized_variables(common), saver=None,
                             global_step=global_step, recovery_wait_secs=1)
    rewards = []
    with sv.managed_session(server.target, config=tf.ConfigProto(
            device_filters=["/job:ps", worker_device])) as sess:
        threads = [threading.Thread(target=play, args=(sess, sv.coord, network, Bandit(10 * FLAGS.task_index + i), 60,
                                                       rewards)) for i, network in enumerate(networks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("RESULT reward=%.3f" % np.mean(rewards[-20:]), flush=True)


main()
