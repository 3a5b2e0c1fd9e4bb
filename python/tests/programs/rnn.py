# SPDX-License-Identifier: Apache-2.0
"""The shape of the PTB tutorial: embeddings, LSTM cells in dynamic_rnn, clipped gradients, a decayed rate."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

VOCABULARY, SIZE, STEPS, BATCH = 20, 16, 8, 4


def main():
    server = tf.train.Server.create_local_server()
    tf.set_random_seed(1)
    tokens = tf.placeholder(tf.int32, [BATCH, STEPS])
    targets = tf.placeholder(tf.int32, [BATCH, STEPS])
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.1, 0.1)):
        embedding = tf.get_variable("embedding", [VOCABULARY, SIZE])
        inputs = tf.nn.embedding_lookup(embedding, tokens)
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(SIZE, forget_bias=0.0) for _ in range(2)])
        outputs, _ = tf.nn.dynamic_rnn(cell, inputs, initial_state=cell.zero_state(BATCH, tf.float32))
        w = tf.get_variable("softmax_w", [SIZE, VOCABULARY])
        b = tf.get_variable("softmax_b", [VOCABULARY])
        logits = tf.matmul(tf.reshape(outputs, [-1, SIZE]), w) + b
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(targets, [-1]), logits=logits))
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5)
    rate = tf.Variable(1.0, trainable=False)
    train_op = tf.train.AdamOptimizer(0.03 * rate).apply_gradients(zip(grads, variables))
    halve = tf.assign(rate, rate * 0.5)
    # A loop of the program's own, whose condition is computed.
    powers = tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), [tf.constant(0), tf.constant(1.0)])
    text = np.arange(BATCH * (STEPS + 1)).reshape(BATCH, -1) % VOCABULARY
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        losses = []
        for epoch in range(3):
            for _ in range(40):
                losses.append(sess.run([loss, train_op], {tokens: text[:, :-1], targets: text[:, 1:]})[0])
            sess.run(halve)
        print("2^10 = %d" % sess.run(powers)[1])
    print("perplexity %.2f -> %.2f" % (np.exp(losses[0]), np.exp(losses[-1])))
    assert losses[-1] < 0.7 * losses[0]


main()
