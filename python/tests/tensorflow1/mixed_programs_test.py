# SPDX-License-Identifier: Apache-2.0
"""Programs of the catalogue on mixed clusters, both ways round.

TensorFlow 1.15's workers with Thalweg's parameter servers, and Thalweg's workers with TensorFlow's. Runs with
TensorFlow 1.15: `make test-programs` runs all, `make test-tf1` those of MixedSampleTest.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from catalogue import CATALOGUE, check

PROGRAMS = ("softmax, Supervisor, asynchronous", "CNN, synchronous, checkpoints", "wide and deep, 2 ps",
            "word2vec, NCE", "Estimator, train_and_evaluate")
SAMPLE = ("softmax, one worker", "CNN, synchronous, checkpoints")


class MixedTest(unittest.TestCase):

    def check(self, ours, programs):
        for name in programs:
            with self.subTest(program=name):
                _, _, problems = check(CATALOGUE[name], with_tensorflow=False, thalweg=ours)
                self.assertEqual(problems, [], "\n".join(problems))


class MixedSampleTest(MixedTest):

    def test_a_sample_both_ways(self):
        self.check("ps", SAMPLE)
        self.check("worker", SAMPLE)


class MixedProgramsTest(MixedTest):

    def test_thalweg_parameter_servers(self):
        """They leave by themselves, too, though TensorFlow's workers do not say that they are done."""
        self.check("ps", PROGRAMS)

    def test_thalweg_workers(self):
        self.check("worker", PROGRAMS)


if __name__ == "__main__":
    unittest.main()
