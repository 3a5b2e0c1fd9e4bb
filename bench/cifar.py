#!/usr/bin/env python3
"""Compares training of the CIFAR-10 tutorial's CNN with TensorFlow, side by side.

Runs Thalweg (bin/bench/cifar) and TensorFlow, each in a process of its own, in
turns, several rounds, and prints the median rates and their ratio. Usage:

    build/tensorflow/bin/python bench/cifar.py [--rounds N] [--seconds S] [--bench build/release/bin/bench/cifar]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TENSORFLOW = "--as-tensorflow"


def tensorflow_rate(batch, threads, seconds):
  """Images per second of TensorFlow's session on the same model."""
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import numpy as np
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
  images = tf.placeholder(tf.float32, [batch, 24, 24, 3])
  labels = tf.placeholder(tf.int32, [batch])

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
  net = local("local4", local("local3", tf.reshape(net, [batch, -1]), [6 * 6 * 64, 384]), [384, 192])
  kernel, biases = variables("softmax_linear", [192, 10], 1 / 192., 0.)
  logits = tf.matmul(net, kernel) + biases
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)) + sum(decay)
  train_op = tf.train.GradientDescentOptimizer(.01).minimize(loss)
  config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
  with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    x = (np.arange(batch * 24 * 24 * 3) * 7919 % 1000 / 500 - 1).astype(np.float32).reshape(batch, 24, 24, 3)
    y = (np.arange(batch) % 10).astype(np.int32)
    step = session.make_callable([train_op, loss], [images, labels])
    for _ in range(3):
      step(x, y)
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < seconds:
      step(x, y)
      steps += 1
    return steps * batch / (time.monotonic() - start)


def run(command, cores):
  if cores == 1:
    command = ["taskset", "-c", "0"] + command
  output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
  return float(output.split("images_per_second")[1].split()[0])


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=5)
  parser.add_argument("--bench", default="build/release/bin/bench/cifar")
  parser.add_argument(TENSORFLOW, action="store_true", help=argparse.SUPPRESS)
  parser.add_argument("--batch", type=int, default=128)
  parser.add_argument("--threads", type=int, default=0)
  args = parser.parse_args()
  if args.as_tensorflow:
    print("images_per_second", tensorflow_rate(args.batch, args.threads, args.seconds))
    return

  all_cores = os.cpu_count()
  print(f"{'batch':>5} {'cores':>5} {'thalweg':>9} {'tensorflow':>10} {'ratio':>6}   {args.rounds} rounds of {args.seconds} s, medians of images/s")
  for batch, cores in [(128, all_cores), (128, 1)]:
    ours, theirs = [], []
    for _ in range(args.rounds):
      common = [f"--batch={batch}", f"--threads={cores}", f"--seconds={args.seconds}"]
      ours.append(run([args.bench] + common, cores))
      theirs.append(run([sys.executable, __file__, TENSORFLOW] + common, cores))
    a, b = statistics.median(ours), statistics.median(theirs)
    ratio = statistics.median(x / y for x, y in zip(ours, theirs))
    print(f"{batch:>5} {cores:>5} {a:>9.0f} {b:>10.0f} {ratio:>6.2f}", flush=True)


if __name__ == "__main__":
  main()
