#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training of word2vec's skip-gram model with TensorFlow and PyTorch, side by side.

Thalweg is bin/bench/word2vec. Usage:

    build/tensorflow/bin/python bench/word2vec.py [--rounds N] [--seconds S] [--pytorch PYTHON]
"""

import os

import side_by_side

BATCH, DEPTH, WORDS, SAMPLED = 128, 128, 50000, 64


def batch(np, i):
  """Words, and those near to them."""
  numbers = np.arange(i * BATCH, (i + 1) * BATCH)
  return numbers * 7919 % WORDS, numbers * 104729 % WORDS


def tensorflow(args):
  import numpy as np
  tf = side_by_side.import_tensorflow()
  words = tf.placeholder(tf.int32, [BATCH])
  near = tf.placeholder(tf.int64, [BATCH, 1])
  embeddings = tf.Variable(tf.random_uniform([WORDS, DEPTH], -1., 1.))
  weights = tf.Variable(tf.truncated_normal([WORDS, DEPTH], stddev=DEPTH**-.5))
  biases = tf.Variable(tf.zeros([WORDS]))
  loss = tf.reduce_mean(
      tf.nn.nce_loss(weights, biases, near, tf.nn.embedding_lookup(embeddings, words), SAMPLED, WORDS))
  train_op = tf.train.GradientDescentOptimizer(1.).minimize(loss)

  def feeds(i):
    x, y = batch(np, i)
    return x.astype(np.int32), y.reshape(BATCH, 1)

  return side_by_side.session_step(tf, args, train_op, loss, [words, near], feeds)


def pytorch(args):
  """Noise-contrastive estimation written out, on sparse gradients; samples are drawn with replacement."""
  import numpy as np
  torch = side_by_side.import_torch(args)
  embeddings = torch.nn.Embedding(WORDS, DEPTH, sparse=True)
  weights = torch.nn.Embedding(WORDS, DEPTH, sparse=True)
  biases = torch.nn.Embedding(WORDS, 1, sparse=True)
  torch.nn.init.uniform_(embeddings.weight, -1., 1.)
  torch.nn.init.trunc_normal_(weights.weight, std=DEPTH**-.5)
  torch.nn.init.zeros_(biases.weight)
  optimizer = torch.optim.SGD([*embeddings.parameters(), *weights.parameters(), *biases.parameters()], lr=1.)

  def log_expected(ids):
    return torch.log(SAMPLED * torch.log1p(1 / (ids.double() + 1)) / np.log(WORDS + 1)).float()

  def step(i):
    words, near = (torch.from_numpy(a) for a in batch(np, i))
    sampled = (torch.exp(torch.rand(SAMPLED) * np.log(WORDS + 1)) - 1).long().clamp_(0, WORDS - 1)
    x = embeddings(words)
    true = (x * weights(near)).sum(1) + biases(near).squeeze(1) - log_expected(near)
    noise = x @ weights(sampled).T + biases(sampled).squeeze(1) - log_expected(sampled)
    softplus = torch.nn.functional.softplus
    loss = (softplus(-true) + softplus(noise).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

  return step


if __name__ == "__main__":
  side_by_side.main(__doc__, unit="steps", tensorflow=tensorflow, pytorch=pytorch,
                    rows=[side_by_side.Row(cores) for cores in (os.cpu_count(), 1)])
