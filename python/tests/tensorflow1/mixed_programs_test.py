# SPDX-License-Identifier: Apache-2.0
"""Programs of the catalogue on mixed clusters, both ways round.

TensorFlow 1.15's workers with Thalweg's parameter servers, and Thalweg's workers with TensorFlow's. Runs with
TensorFlow 1.15 (`make test-tf1`).
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from catalogue import CATALOGUE, check

PROGRAMS = ("softmax, Supervisor, asynchronous", "CNN, synchronous, checkpoints", "wide and deep, 2 ps",
            "word2vec, NCE", "Estimator, train_and_evaluate")


class MixedProgramsTest(unittest.TestCase):

    def check(self, ours):
        for name in PROGRAMS:
            with self.subTest(program=name):
                _, _, problems = check(CATALOGUE[name], with_tensorflow=False, thalweg=ours)
                self.assertEqual(problems, [], "\n".join(problems))

    def test_thalweg_parameter_servers(self):
        """They leave by themselves, too, though TensorFlow's workers do not say that they are done."""
        self.check("ps")

    def test_thalweg_workers(self):
        self.check("worker")


if __name__ == "__main__":
    unittest.main()
