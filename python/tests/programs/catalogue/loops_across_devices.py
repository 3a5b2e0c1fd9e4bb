# SPDX-License-Identifier: Apache-2.0
"""Loops over tasks with gradients: a while_loop whose body is on the parameter server, raw_rnn, TensorArrays, cond."""

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
PS = "/job:ps/task:0/cpu:0"
WORKER = "/job:worker/task:%d/cpu:0" % FLAGS.task_index

with tf.device(PS):
    cell_weights = tf.get_variable("cell", [8 + 3, 8], initializer=tf.random_normal_initializer(0, 0.3, seed=1))
    out_weights = tf.get_variable("out", [8, 1], initializer=tf.random_normal_initializer(0, 0.3, seed=2))
    step = tf.train.get_or_create_global_step()
with tf.device(WORKER):
    inputs = tf.placeholder(tf.float32, [None, None, 3])
    lengths = tf.placeholder(tf.int32, [None])
    targets = tf.placeholder(tf.float32, [None, 1])
    batch, longest = tf.shape(inputs)[0], tf.reduce_max(lengths)
    array = tf.TensorArray(tf.float32, size=tf.shape(inputs)[1], clear_after_read=False).unstack(
        tf.transpose(inputs, [1, 0, 2]))

    def body(t, state, outputs):
        element = array.read(t)
        with tf.device(PS):  # next to the weights
            new = tf.tanh(tf.matmul(tf.concat([element, state], 1), cell_weights))
        new = tf.where(tf.tile((t < lengths)[:, None], [1, 8]), new, state)
        return t + 1, new, outputs.write(t, new)

    _, last, outputs = tf.while_loop(lambda t, *_: t < longest, body,
                                     (0, tf.zeros([batch, 8]), tf.TensorArray(tf.float32, size=longest)),
                                     parallel_iterations=4, swap_memory=True)
    mean = tf.reduce_mean(outputs.stack(), 0)

    glorot = tf.glorot_uniform_initializer(3)
    cell = tf.nn.rnn_cell.MultiRNNCell([
        tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.GRUCell(8, kernel_initializer=glorot), device)
        for device in (PS, WORKER)])

    def loop_fn(time, output, state, loop_state):
        emit = output
        next_state = cell.zero_state(batch, tf.float32) if output is None else state
        finished = time >= lengths
        next_input = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([batch, 3]), lambda: array.read(time))
        return finished, next_input, next_state, emit, None

    _, final_state, _ = tf.nn.raw_rnn(cell, loop_fn)
    features = tf.cond(tf.equal(step % 2, 0), lambda: last + mean, lambda: last * 1.0 + mean)
    logits = tf.matmul(features, out_weights)
    logits += tf.layers.dense(final_state[-1], 1, kernel_initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))
    second = tf.gradients(tf.reduce_sum(tf.square(tf.gradients(loss, [out_weights])[0])), [out_weights])[0]
    train = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step)

random = np.random.RandomState(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0,
                                       hooks=[tf.train.StopAtStepHook(120)]) as session:
    losses = []
    while not session.should_stop():
        n = random.randint(1, 9, size=16)
        x = random.randn(16, n.max(), 3).astype(np.float32)
        y = np.array([[float(row[:k, 0].sum() > 0)] for row, k in zip(x, n)], np.float32)
        value, extra, _ = session.run([loss, second, train], {inputs: x, lengths: n, targets: y})
        assert np.all(np.isfinite(extra))
        losses.append(value)
print("RESULT loss=%.4f" % np.mean(losses[-10:]), flush=True)
