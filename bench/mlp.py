#!/usr/bin/env python3
"""Compares training of the tutorial's MLP with TensorFlow, side by side.

Runs Thalweg (bin/bench/mlp) and TensorFlow, each in a process of its own, in
turns, several rounds, and prints the median rates and their ratio. Usage:

    build/tensorflow/bin/python bench/mlp.py [--rounds N] [--seconds S] [--bench build/release/bin/bench/mlp]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TENSORFLOW = "--as-tensorflow"


def tensorflow_rate(batch, threads, seconds):
  """Steps per second of TensorFlow's session on the same model."""
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import numpy as np
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
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
  config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
  with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    x = (np.arange(batch * 784) * 7919 % 1000 / 1000).astype(np.float32).reshape(batch, 784)
    y = (np.arange(batch) % 10).astype(np.int32)
    step = session.make_callable([train_op, loss], [images, labels])
    for _ in range(30):
      step(x, y)
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < seconds:
      for _ in range(10):
        step(x, y)
      steps += 10
    return steps / (time.monotonic() - start)


def run(command, cores):
  if cores == 1:
    command = ["taskset", "-c", "0"] + command
  output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
  return float(output.split("steps_per_second")[1].split()[0])


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=2)
  parser.add_argument("--bench", default="build/release/bin/bench/mlp")
  parser.add_argument(TENSORFLOW, action="store_true", help=argparse.SUPPRESS)
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--threads", type=int, default=0)
  args = parser.parse_args()
  if args.as_tensorflow:
    print("steps_per_second", tensorflow_rate(args.batch, args.threads, args.seconds))
    return

  all_cores = os.cpu_count()
  print(f"{'batch':>5} {'cores':>5} {'thalweg':>9} {'tensorflow':>10} {'ratio':>6}   {args.rounds} rounds of {args.seconds} s, medians of steps/s")
  for batch, cores in [(32, all_cores), (256, all_cores), (32, 1)]:
    ours, theirs, limits = [], [], []
    for _ in range(args.rounds):
      common = [f"--batch={batch}", f"--threads={cores}", f"--seconds={args.seconds}"]
      ours.append(run([args.bench] + common, cores))
      theirs.append(run([sys.executable, __file__, TENSORFLOW] + common, cores))
      if cores == 1:
        limits.append(run([args.bench, "--limit", f"--batch={batch}", f"--seconds={args.seconds}"], 1))
    a, b = statistics.median(ours), statistics.median(theirs)
    limit = f"   {a / statistics.median(limits):.2f} of the limit of GEMM + Adam alone ({statistics.median(limits):.0f})" if limits else ""
    print(f"{batch:>5} {cores:>5} {a:>9.0f} {b:>10.0f} {a / b:>6.2f}{limit}", flush=True)


if __name__ == "__main__":
  main()
