#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training of the CIFAR-10 tutorial's CNN with TensorFlow and PyTorch, side by side.

Thalweg is bin/bench/cifar. Usage:

    build/tensorflow/bin/python bench/cifar.py [--rounds N] [--seconds S] [--batch N] [--pytorch PYTHON]
"""

import os

import side_by_side


def pixels(np, batch):
  return (np.arange(batch * 24 * 24 * 3) * 7919 % 1000 / 500 - 1).astype(np.float32).reshape(batch, 24, 24, 3)


def tensorflow(args):
  import numpy as np
  tf = side_by_side.import_tensorflow()
  images = tf.placeholder(tf.float32, [args.batch, 24, 24, 3])
  labels = tf.placeholder(tf.int32, [args.batch])

  def variables(name, shape, stddev, bias):
    with tf.variable_scope(name):
      kernel = tf.get_variable("weights", shape, initializer=tf.truncated_normal_initializer(stddev=stddev))
      return kernel, tf.get_variable("biases", shape[-1:], initializer=tf.constant_initializer(bias))

  def conv(name, x, shape, bias):
    kernel, biases = variables(name, shape, .05, bias)
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="SAME"), biases))

  decay = []

  def local(name, x, shape):
    kernel, biases = variables(name, shape, .04, .1)
    decay.append(tf.nn.l2_loss(kernel) * .004)
    return tf.nn.relu(tf.matmul(x, kernel) + biases)

  def pool(x):
    return tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")

  def norm(x):
    return tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)

  net = norm(pool(conv("conv1", images, [5, 5, 3, 64], 0.)))
  net = pool(norm(conv("conv2", net, [5, 5, 64, 64], .1)))
  net = local("local4", local("local3", tf.reshape(net, [args.batch, -1]), [6 * 6 * 64, 384]), [384, 192])
  kernel, biases = variables("softmax_linear", [192, 10], 1 / 192., 0.)
  logits = tf.matmul(net, kernel) + biases
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)) + sum(decay)
  train_op = tf.train.GradientDescentOptimizer(.01).minimize(loss)
  feeds = pixels(np, args.batch), (np.arange(args.batch) % 10).astype(np.int32)
  return side_by_side.session_step(tf, args, train_op, loss, [images, labels], lambda i: feeds)


def pytorch(args):
  """The same layers; images stay in NHWC memory, which is faster there too."""
  import numpy as np
  torch = side_by_side.import_torch(args)
  nn = torch.nn

  def pool():  # "SAME": one more row below, one more column to the right
    return nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(3, 2))

  def norm():  # PyTorch divides alpha by the size
    return nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)

  net = nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), pool(), norm(),
                      nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), norm(), pool(), nn.Flatten(),
                      nn.Linear(6 * 6 * 64, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, 10))
  for layer in net:
    if hasattr(layer, "weight"):
      nn.init.trunc_normal_(layer.weight, std=.05 if layer.weight.dim() == 4 else .04)
      nn.init.constant_(layer.bias, .1)
  net = net.to(memory_format=torch.channels_last)
  decayed = [layer.weight for layer in net if isinstance(layer, nn.Linear)][:2]
  optimizer = torch.optim.SGD(net.parameters(), lr=.01)
  x = torch.from_numpy(pixels(np, args.batch)).permute(0, 3, 1, 2)
  y = torch.from_numpy(np.arange(args.batch) % 10)

  def step(_):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y) + sum(w.square().sum() for w in decayed) * .002
    loss.backward()
    optimizer.step()
    return loss.item()

  return step


if __name__ == "__main__":
  side_by_side.main(__doc__, unit="images", tensorflow=tensorflow, pytorch=pytorch, seconds=5., warm_up=3,
                    per_step=lambda args: args.batch, arguments={"batch": 128},
                    rows=[side_by_side.Row(cores, flags=("--batch=128",)) for cores in (os.cpu_count(), 1)])
