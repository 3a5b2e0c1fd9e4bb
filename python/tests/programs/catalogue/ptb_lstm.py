# SPDX-License-Identifier: Apache-2.0
"""A language model as in the PTB tutorial: unrolled LSTM, state fed from batch to batch, clipped gradients."""

import tensorflow.compat.v1 as tf
import numpy as np

from toy_data import words

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
FLAGS = flags.FLAGS

BATCH, STEPS, SIZE, VOCABULARY = 10, 8, 24, 30


class PTBModel(object):

    def __init__(self):
        self.input_data = tf.placeholder(tf.int32, [BATCH, STEPS])
        self.targets = tf.placeholder(tf.int32, [BATCH, STEPS])
        cell = tf.nn.rnn_cell.MultiRNNCell(
            [tf.nn.rnn_cell.BasicLSTMCell(SIZE, forget_bias=0.0, state_is_tuple=True) for _ in range(2)],
            state_is_tuple=True)
        self.initial_state = cell.zero_state(BATCH, tf.float32)
        embedding = tf.get_variable("embedding", [VOCABULARY, SIZE])
        inputs = tf.nn.embedding_lookup(embedding, self.input_data)
        outputs, state = [], self.initial_state
        with tf.variable_scope("RNN"):
            for time_step in range(STEPS):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                output, state = cell(inputs[:, time_step, :], state)
                outputs.append(output)
        self.final_state = state
        output = tf.reshape(tf.concat(outputs, 1), [-1, SIZE])
        logits = tf.matmul(output, tf.get_variable("softmax_w", [SIZE, VOCABULARY])) + tf.get_variable(
            "softmax_b", [VOCABULARY])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(self.targets, [-1]), logits=logits)
        self.cost = tf.reduce_sum(losses) / BATCH
        self.global_step = tf.train.get_or_create_global_step()
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5)
        self.train_op = tf.train.GradientDescentOptimizer(2.0).apply_gradients(zip(grads, tvars), self.global_step)


def run_epoch(session, m, data):
    rows = len(data) // BATCH
    data = data[:rows * BATCH].reshape(BATCH, rows)
    costs, iters, state = 0.0, 0, session.run(m.initial_state)
    for i in range((rows - 1) // STEPS):
        x = data[:, i * STEPS:(i + 1) * STEPS]
        y = data[:, i * STEPS + 1:(i + 1) * STEPS + 1]
        feed = {m.input_data: x, m.targets: y}
        for j, (c, h) in enumerate(m.initial_state):
            feed[c], feed[h] = state[j].c, state[j].h
        cost, state, _ = session.run([m.cost, m.final_state, m.train_op], feed)
        costs += cost
        iters += STEPS
    return np.exp(costs / iters)


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        return server.join()
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                  worker_device="/job:worker/task:%d" % FLAGS.task_index)):
        initializer = tf.random_uniform_initializer(-0.1, 0.1, seed=1)
        with tf.variable_scope("Model", initializer=initializer):
            m = PTBModel()
    sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, global_step=m.global_step, recovery_wait_secs=1)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with sv.managed_session(server.target, config=config) as session:
        perplexities = []
        for epoch in range(15):
            perplexities.append(run_epoch(session, m, words(1600, VOCABULARY, FLAGS.task_index)))
            print("Epoch: %d Train Perplexity: %.3f" % (epoch + 1, perplexities[-1]), flush=True)
    # From the 7th epoch on the model learns quickly, which amplifies differences in rounding.
    print("RESULT perplexity=%.3f sixth=%.3f" % (perplexities[-1], perplexities[5]), flush=True)


if __name__ == "__main__":
    tf.app.run()
