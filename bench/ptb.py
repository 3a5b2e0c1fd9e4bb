#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training of the PTB tutorial's language model with TensorFlow and PyTorch, side by side.

Thalweg is bin/bench/ptb. Usage:

    build/tensorflow/bin/python bench/ptb.py [--rounds N] [--seconds S] [--pytorch PYTHON]
"""

import os

import side_by_side

BATCH, STEPS, HIDDEN, WORDS = 20, 20, 200, 10000


def words(np, first, dtype):
  return (np.arange(first, first + BATCH * STEPS) * 7919 % WORDS).astype(dtype).reshape(BATCH, STEPS)


def tensorflow(args):
  """Unrolled as in the tutorial."""
  import numpy as np
  tf = side_by_side.import_tensorflow()
  x = tf.placeholder(tf.int32, [BATCH, STEPS])
  y = tf.placeholder(tf.int32, [BATCH, STEPS])
  with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-.1, .1)):
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(HIDDEN, forget_bias=0.) for _ in range(2)])
    embedding = tf.get_variable("embedding", [WORDS, HIDDEN])
    inputs = tf.unstack(tf.nn.embedding_lookup(embedding, x), STEPS, axis=1)
    outputs, _ = tf.nn.static_rnn(cell, inputs, dtype=tf.float32)
    output = tf.reshape(tf.stack(outputs, axis=1), [-1, HIDDEN])
    weights, biases = tf.get_variable("softmax_w", [HIDDEN, WORDS]), tf.get_variable("softmax_b", [WORDS])
    logits = tf.nn.xw_plus_b(output, weights, biases)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
  loss = tf.reduce_sum(losses) / BATCH
  variables = tf.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5)
  train_op = tf.train.GradientDescentOptimizer(.1).apply_gradients(zip(gradients, variables))
  feeds = words(np, 0, np.int32), words(np, 1, np.int32)
  return side_by_side.session_step(tf, args, train_op, loss, [x, y], lambda i: feeds)


def pytorch(args):
  """With the LSTM of its library. The embedding's gradient is dense: sparse ones cannot be clipped."""
  import numpy as np
  torch = side_by_side.import_torch(args)
  embedding = torch.nn.Embedding(WORDS, HIDDEN)
  lstm = torch.nn.LSTM(HIDDEN, HIDDEN, num_layers=2, batch_first=True)
  softmax = torch.nn.Linear(HIDDEN, WORDS)
  model = torch.nn.ModuleList([embedding, lstm, softmax])
  for parameter in model.parameters():
    torch.nn.init.uniform_(parameter, -.1, .1)
  optimizer = torch.optim.SGD(model.parameters(), lr=.1)
  x, y = (torch.from_numpy(words(np, first, np.int64)) for first in (0, 1))

  def step(_):
    optimizer.zero_grad()
    logits = softmax(lstm(embedding(x))[0].reshape(-1, HIDDEN))
    loss = torch.nn.functional.cross_entropy(logits, y.reshape(-1), reduction="sum") / BATCH
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    return loss.item()

  return step


if __name__ == "__main__":
  FORMS = {"one op": (), "cells": ("--cells",)}
  side_by_side.main(__doc__, unit="words", tensorflow=tensorflow, pytorch=pytorch, seconds=5., warm_up=5,
                    per_step=lambda args: BATCH * STEPS,
                    rows=[side_by_side.Row(cores, forms=FORMS) for cores in (os.cpu_count(), 1)])
