#!/usr/bin/env python3
"""Compares training of the PTB tutorial's language model with TensorFlow, side by side.

Runs Thalweg (bin/bench/ptb) and TensorFlow, each in a process of its own, in
turns, several rounds, and prints the median rates and their ratio. Usage:

    build/tensorflow/bin/python bench/ptb.py [--rounds N] [--seconds S] [--bench build/release/bin/bench/ptb]
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TENSORFLOW = "--as-tensorflow"
BATCH, STEPS, HIDDEN, WORDS = 20, 20, 200, 10000


def tensorflow_rate(threads, seconds):
  """Words per second of TensorFlow's session on the same model, unrolled as in the tutorial."""
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  import numpy as np
  import tensorflow.compat.v1 as tf
  tf.disable_v2_behavior()
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
  config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
  with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    words = (np.arange(BATCH * STEPS) * 7919 % WORDS).astype(np.int32).reshape(BATCH, STEPS)
    following = (np.arange(1, BATCH * STEPS + 1) * 7919 % WORDS).astype(np.int32).reshape(BATCH, STEPS)
    step = session.make_callable([train_op, loss], [x, y])
    for _ in range(5):
      step(words, following)
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < seconds:
      step(words, following)
      steps += 1
    return steps * BATCH * STEPS / (time.monotonic() - start)


def run(command, cores):
  if cores == 1:
    command = ["taskset", "-c", "0"] + command
  output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
  return float(output.split("words_per_second")[1].split()[0])


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=5)
  parser.add_argument("--bench", default="build/release/bin/bench/ptb")
  parser.add_argument(TENSORFLOW, action="store_true", help=argparse.SUPPRESS)
  parser.add_argument("--threads", type=int, default=0)
  args = parser.parse_args()
  if args.as_tensorflow:
    print("words_per_second", tensorflow_rate(args.threads, args.seconds))
    return

  print(f"{'cores':>5} {'layers of':<9} {'thalweg':>9} {'tensorflow':>10} {'ratio':>6}   {args.rounds} rounds of "
        f"{args.seconds} s, medians of words/s")
  for cores in [os.cpu_count(), 1]:
    forms = {"one op": [], "cells": ["--cells"]}
    ours, theirs = {form: [] for form in forms}, []
    for _ in range(args.rounds):
      common = [f"--threads={cores}", f"--seconds={args.seconds}"]
      for form, flags in forms.items():
        ours[form].append(run([args.bench] + common + flags, cores))
      theirs.append(run([sys.executable, __file__, TENSORFLOW] + common, cores))
    for form, rates in ours.items():
      ratio = statistics.median(x / y for x, y in zip(rates, theirs))
      print(f"{cores:>5} {form:<9} {statistics.median(rates):>9.0f} {statistics.median(theirs):>10.0f} {ratio:>6.2f}",
            flush=True)


if __name__ == "__main__":
  main()
