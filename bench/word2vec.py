#!/usr/bin/env python3
"""Compares training of word2vec's skip-gram model with TensorFlow, side by side.

Runs Thalweg (bin/bench/word2vec) and TensorFlow, each in a process of its own, in
turns, several rounds, and prints the median rates and their ratio. Usage:

    build/tensorflow/bin/python bench/word2vec.py [--rounds N] [--seconds S] [--bench build/release/bin/bench/word2vec]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TENSORFLOW = "--as-tensorflow"
BATCH, DEPTH, WORDS, SAMPLED = 128, 128, 50000, 64


def tensorflow_rate(threads, seconds):
  """Steps per second of TensorFlow's session on the same model."""
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import numpy as np
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
  words = tf.placeholder(tf.int32, [BATCH])
  near = tf.placeholder(tf.int64, [BATCH, 1])
  embeddings = tf.Variable(tf.random_uniform([WORDS, DEPTH], -1., 1.))
  weights = tf.Variable(tf.truncated_normal([WORDS, DEPTH], stddev=DEPTH**-.5))
  biases = tf.Variable(tf.zeros([WORDS]))
  loss = tf.reduce_mean(
      tf.nn.nce_loss(weights, biases, near, tf.nn.embedding_lookup(embeddings, words), SAMPLED, WORDS))
  train_op = tf.train.GradientDescentOptimizer(1.).minimize(loss)
  config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
  with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    step = session.make_callable([train_op, loss], [words, near])

    def run_step(i):
      numbers = np.arange(i * BATCH, (i + 1) * BATCH)
      step((numbers * 7919 % WORDS).astype(np.int32), (numbers * 104729 % WORDS).reshape(BATCH, 1))

    for i in range(30):
      run_step(i)
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < seconds:
      for _ in range(10):
        run_step(steps)
        steps += 1
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
  parser.add_argument("--bench", default="build/release/bin/bench/word2vec")
  parser.add_argument(TENSORFLOW, action="store_true", help=argparse.SUPPRESS)
  parser.add_argument("--threads", type=int, default=0)
  args = parser.parse_args()
  if args.as_tensorflow:
    print("steps_per_second", tensorflow_rate(args.threads, args.seconds))
    return

  print(f"{'cores':>5} {'thalweg':>9} {'tensorflow':>10} {'ratio':>6}   {args.rounds} rounds of "
        f"{args.seconds} s, medians of steps/s")
  for cores in [os.cpu_count(), 1]:
    ours, theirs = [], []
    for _ in range(args.rounds):
      common = [f"--threads={cores}", f"--seconds={args.seconds}"]
      ours.append(run([args.bench] + common, cores))
      theirs.append(run([sys.executable, __file__, TENSORFLOW] + common, cores))
    ratio = statistics.median(x / y for x, y in zip(ours, theirs))
    print(f"{cores:>5} {statistics.median(ours):>9.0f} {statistics.median(theirs):>10.0f} {ratio:>6.2f}", flush=True)


if __name__ == "__main__":
  main()
