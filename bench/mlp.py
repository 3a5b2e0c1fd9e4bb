#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training of the tutorial's MLP with TensorFlow and PyTorch, side by side.

Thalweg is bin/bench/mlp. Usage:

    build/tensorflow/bin/python bench/mlp.py [--rounds N] [--seconds S] [--pytorch PYTHON]
"""

import os

import side_by_side


def batch(np, size):
  return (np.arange(size * 784) * 7919 % 1000 / 1000).astype(np.float32).reshape(size, 784), np.arange(size) % 10


def tensorflow(args):
  import numpy as np
  tf = side_by_side.import_tensorflow()
  images = tf.placeholder(tf.float32, [None, 784])
  labels = tf.placeholder(tf.int32, [None])

  def dense(x, units, activation=None):
    inputs = int(x.shape[1])
    with tf.variable_scope(None, "dense"):
      kernel = tf.get_variable("kernel", [inputs, units], initializer=tf.glorot_uniform_initializer())
      bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    y = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return activation(y) if activation else y

  logits = dense(dense(dense(images, 500, tf.nn.relu), 500, tf.nn.relu), 10)
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
  train_op = tf.train.AdamOptimizer(1e-4).minimize(loss)
  x, y = batch(np, args.batch)
  feeds = x, y.astype(np.int32)
  return side_by_side.session_step(tf, args, train_op, loss, [images, labels], lambda i: feeds)


def pytorch(args):
  import numpy as np
  torch = side_by_side.import_torch(args)
  nn = torch.nn
  net = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))
  optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
  x, y = (torch.from_numpy(a) for a in batch(np, args.batch))

  def step(_):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()

  return step


def row(size, cores):
  flags = (f"--batch={size}",)
  return side_by_side.Row(cores, f"batch {size}", flags, limit=("--limit", *flags) if cores == 1 else None)


if __name__ == "__main__":
  side_by_side.main(__doc__, unit="steps", tensorflow=tensorflow, pytorch=pytorch, arguments={"batch": 32},
                    rows=[row(32, os.cpu_count()), row(256, os.cpu_count()), row(32, 1)])
