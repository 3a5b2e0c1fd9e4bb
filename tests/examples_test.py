#!/usr/bin/env python3
"""Runs the examples on small generated sets: each has to learn, show that it does, and say what is wrong."""

import os
import subprocess
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

  def test_cifar10(self):  # by chance: 0.1
    self.assertIn("test accuracy", self.learns("cifar10", "--steps=60", "--batch_size=32", "--require_accuracy=0.4"))

  def test_ptb(self):  # by chance: 51
    output = self.learns("ptb", "--epochs=3", "--hidden=50", "--require_perplexity=40")
    self.assertRegex(output, r"epoch 3: perplexity .* in training")

  def test_word2vec(self):  # at the beginning: more than 20
    self.assertIn("near g", self.learns("word2vec", "--steps=2000", "--require_loss=6"))

  def test_what_is_not_learnt_fails(self):
    result = run("word2vec", "--generated", "--steps=1", "--require_loss=6")
    self.assertEqual(result.returncode, 1)
    self.assertIn("is above 6", result.stderr)

  def test_missing_files_are_named(self):
    for name, flag, path in [("cifar10", "data_dir", "data_batch_1.bin"), ("ptb", "data_dir", "ptb.train.txt"),
                             ("word2vec", "data", "none")]:
      result = run(name, f"--{flag}=/none")
      self.assertEqual(result.returncode, 1, name)
      self.assertIn(path, result.stderr)


if __name__ == "__main__":
  unittest.main()
