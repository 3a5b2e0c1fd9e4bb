#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples on small generated data sets: each must learn, report its progress, and report errors clearly."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

BIN = os.path.join(os.environ.get("THALWEG_BIN", "build/release/bin"), "examples")


def run(name, *flags):
  return subprocess.run([os.path.join(BIN, name), *flags], capture_output=True, text=True, timeout=600)


class ExamplesTest(unittest.TestCase):

  def learns(self, name, *flags):
    result = run(name, "--generated", *flags)
    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
    self.assertRegex(result.stdout, r"step \d+/\d+  loss ")
    return result.stdout

  def test_hello(self):
    result = run("hello")
    self.assertEqual((result.returncode, result.stdout), (0, "Hello, Thalweg!\n"), result.stderr)

  def test_mnist(self):  # by chance: 0.1
    result = run("mnist", "--steps=300", "--require_accuracy=0.75", "--v=1", "--minloglevel=1")
    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
    self.assertRegex(result.stdout, r"60000 images to train on, 10000 to test on, from /\S+")
    self.assertRegex(result.stdout, r"step 300/300  loss \d\.\d+")
    self.assertRegex(result.stdout, r"test accuracy [789]\d\.\d\d %")
    self.assertEqual(result.stderr, "")

  def test_circle(self):
    result = run("circle")
    self.assertEqual(result.returncode, 0, result.stderr)
    losses = [float(line.split()[-1]) for line in result.stdout.splitlines()]
    self.assertEqual(len(losses), 5, result.stdout)
    self.assertLess(losses[-1], 0.5 * losses[0])

  def test_cifar10(self):  # by chance: 0.1
    self.assertIn("test accuracy", self.learns("cifar10", "--steps=60", "--batch_size=32", "--learning_rate=0.02",
                                               "--require_accuracy=0.6"))

  def test_ptb(self):  # by chance: 51
    output = self.learns("ptb", "--epochs=3", "--hidden=50", "--require_perplexity=40")
    self.assertRegex(output, r"epoch 3: perplexity .* in training")

  def test_word2vec(self):  # at the beginning: more than 20
    output = self.learns("word2vec", "--steps=5000", "--depth=16", "--require_loss=6")
    self.groups_are_near(output)

  def groups_are_near(self, output):
    """"near g3w0: g3w2 g3w1 ...": words of a group are near each other."""
    found = [line.split("near ")[1].split() for line in output.splitlines() if "near " in line]
    same = sum(near.split("w")[0] == words[0].split("w")[0] for words in found for near in words[1:])
    self.assertGreater(same, 20, output)  # of 40; by chance 2

  def job(self, ps, workers, name, *flags):
    """The output of an example that runs as all tasks of a job."""
    result = subprocess.run([os.path.join(BIN, "..", "thalweg"), "run", f"--ps={ps}", f"--workers={workers}",
                             "--ps_grace=1m", "--", os.path.join(BIN, name), *flags],
                            capture_output=True, text=True, timeout=600)
    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
    self.assertNotIn("sending SIGTERM", result.stdout + result.stderr)  # all tasks end by themselves
    return result.stdout

  def test_matrices(self):
    output = self.job(2, 2, "matrices", "--size=100")
    self.assertIn("the sum of all elements of the product is 20000", output)
    self.assertIn("MatMul_1: (MatMul): /job:worker/replica:0/task:1", output)

  def test_all_reduce(self):
    output = self.job(0, 3, "all_reduce")
    self.assertEqual(len(re.findall(r"of 3: y = 2.00 x \+ 1.00; losses of all: 0.25. 0.00. 0.25.", output)), 3, output)

  def test_towers(self):
    self.assertIn("done, loss", self.job(2, 2, "towers", "--towers=2", "--steps=40", "--batch_size=8"))
    self.assertIn("done, loss", self.job(1, 2, "towers", "--towers=2", "--steps=20", "--batch_size=8", "--is_sync"))

  def test_model_parallel(self):  # by chance: 0.69
    output = self.job(0, 2, "model_parallel", "--steps=100", "--units=16", "--time=8", "--require_loss=0.4")
    self.assertRegex(output, r"layer_1/lstm_cell/kernel .* /job:worker/task:1")

  def test_word2vec_in_parts(self):
    output = self.job(2, 2, "distributed_word2vec", "--generated", "--steps=2000", "--depth=16")
    self.assertRegex(output, r"embeddings/part_0 .* /job:ps/task:0")
    self.assertRegex(output, r"embeddings/part_1 .* /job:ps/task:1")
    self.groups_are_near(output)

  def test_an_evaluator_follows_the_training(self):
    with tempfile.TemporaryDirectory() as folder:
      flags = ("--generated", "--checkpoint_dir=" + folder, "--steps=60")
      evaluator = subprocess.Popen([os.path.join(BIN, "cifar10_eval"), *flags, "--idle=5m", "--require_accuracy=0.6"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
      try:
        self.job(1, 2, "cifar10_train", *flags, "--batch_size=32", "--save_steps=20", "--learning_rate=0.02")
        output, errors = evaluator.communicate(timeout=300)  # it ends by itself
      finally:
        evaluator.kill()
      self.assertEqual(evaluator.returncode, 0, output + errors)
      self.assertRegex(output.splitlines()[-1], r"step 6\d: test accuracy")
      self.assertTrue(glob.glob(os.path.join(folder, "eval", "events.out.tfevents.*")))

  def test_large_batch(self):  # by chance: 0.1
    output = self.job(1, 2, "large_batch", "--epochs=1", "--warmup_epochs=0.5", "--require_accuracy=0.65")
    self.assertIn("58 steps with batches of 1024, learning rate 0.32", output)

  def test_what_is_not_learnt_fails(self):
    result = run("word2vec", "--generated", "--steps=1", "--require_loss=6")
    self.assertEqual(result.returncode, 1)
    self.assertIn("is above 6", result.stderr)

  def test_missing_files_are_named(self):
    for name, flag, path in [("mnist", "data_dir", "train-images-idx3-ubyte"), ("cifar10", "data_dir", "data_batch_1.bin"), ("ptb", "data_dir", "ptb.train.txt"),
                             ("word2vec", "data", "none")]:
      result = run(name, f"--{flag}=/none")
      self.assertEqual(result.returncode, 1, name)
      self.assertIn(path, result.stderr)


if __name__ == "__main__":
  unittest.main()
