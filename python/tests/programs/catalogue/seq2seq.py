# SPDX-License-Identifier: Apache-2.0
"""An encoder and a decoder with attention, over dynamic_rnn and a raw loop, that learn to reverse a sequence."""

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

VOCABULARY, LENGTH, UNITS, BATCH = 8, 5, 24, 32


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                  worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        source = tf.placeholder(tf.int32, [BATCH, LENGTH])
        target = tf.placeholder(tf.int32, [BATCH, LENGTH])
        lengths = tf.fill([BATCH], LENGTH)
        tf.set_random_seed(1)
        embedding = tf.get_variable("embedding", [VOCABULARY + 1, UNITS],
                                    initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=1))
        with tf.variable_scope("encoder", initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=2)):
            memory, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.embedding_lookup(embedding, source),
                                              sequence_length=lengths, dtype=tf.float32)
        shifted = tf.concat([tf.fill([BATCH, 1], VOCABULARY), target[:, :-1]], 1)
        inputs = tf.TensorArray(tf.float32, LENGTH).unstack(
            tf.transpose(tf.nn.embedding_lookup(embedding, shifted), [1, 0, 2]))
        with tf.variable_scope("decoder", initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=3)):
            cell = tf.nn.rnn_cell.GRUCell(UNITS)
            project = tf.get_variable("project", [2 * UNITS, VOCABULARY])

            def step_fn(time, hidden, logits):
                scores = tf.nn.softmax(tf.reduce_sum(memory * hidden[:, None, :], 2))
                context = tf.reduce_sum(memory * scores[:, :, None], 1)
                output, hidden = cell(tf.concat([inputs.read(time), context], 1), hidden)
                return time + 1, hidden, logits.write(time, tf.matmul(tf.concat([output, context], 1), project))

            _, _, logits = tf.while_loop(lambda time, *_: time < LENGTH, step_fn,
                                         [tf.constant(0), state, tf.TensorArray(tf.float32, LENGTH)])
        logits = tf.transpose(logits.stack(), [1, 0, 2])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.01)
        grads, variables = zip(*optimizer.compute_gradients(loss))
        train = optimizer.apply_gradients(zip(tf.clip_by_global_norm(grads, 5.0)[0], variables), step)
    random = np.random.RandomState(FLAGS.task_index)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config,
                                           hooks=[tf.train.StopAtStepHook(last_step=150)]) as sess:
        while not sess.should_stop():
            batch = random.randint(VOCABULARY, size=[BATCH, LENGTH])
            _, value = sess.run([train, loss], {source: batch, target: batch[:, ::-1]})
    print("RESULT loss=%.4f" % value, flush=True)


main()
